"""docs/measurements/real-stacks.md: the table of a run, as it came out."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Sequence

from benchmarks.measured import measured_line
from benchmarks.real_stacks.cases import END, FAULTS, ONSET, STACKS
from benchmarks.real_stacks.judge import HEALTHY, answer, outcome
from benchmarks.real_stacks.play import Played
from benchmarks.real_stacks.recorder import SCRAPE_SECONDS

ABOUT = f"""\
# Real stacks, diagnosed live

`make real-stacks` starts serving stacks from PyPI on this machine without a GPU, sends load, injects a fault after
{ONSET:.0f} s, and runs `inferdoc diagnose` and `inferdoc doctor` on a real Prometheus that scrapes every
{SCRAPE_SECONDS} s. A run lasts {END:.0f} s. It is not part of CI.

* **Dynamo**: frontend, KV router and runtime are NVIDIA's; the workers are `dynamo.mocker`, which simulates an engine
  and exposes only a part of an engine's metrics.
* **Routers**: real vLLM servers on [simulated accelerators](real-vllm.md) behind a router. `make real-vllm` installs
  vLLM. Without vLLM these stacks are skipped.

"Right" is an expected cause as the first finding; "right family" is another cause, or a group of causes, of the same
mechanism. "Named as down" is no cause, but the answer names the target that is down. A control is right without
findings. The table is one run as it came out. Other work on the machine changes the latencies, and the load average
below shows how much there was.

Two faults are hard to see with Dynamo's mocker: its workers expose no prefix cache counters, and the frontend stops
counting hits if it routes at random. Clients notice little, because the mocker's prefill is short.
"""


def page(played: Sequence[Played], seconds: float, skipped: Sequence[str] = ()) -> str:
    """The whole page. skipped: stacks that could not start here."""
    outcomes = [outcome(p.fault, p.whole) for p in played]
    faults = [o for p, o in zip(played, outcomes, strict=True) if FAULTS[p.fault].accepted]
    controls = [o for p, o in zip(played, outcomes, strict=True) if not FAULTS[p.fault].accepted]
    lines = [ABOUT, f"{os.cpu_count()} cores, load average {_pressure(played)}; {seconds / 60:.0f} minutes."]
    lines += [measured_line(), "", "| stack | fault | expected | answer | before the fault | clients affected | |"]
    lines += ["| --- | --- | --- | --- | --- | ---: | --- |"]
    for one, result in zip(played, outcomes, strict=True):
        expected = " or ".join(f"`{cause}`" for cause in FAULTS[one.fault].accepted) or "no finding"
        before = answer(one.before) if one.before else ""
        affected = f"{one.label['clients']['hurt_after']:.0%}"
        cells = (one.stack, FAULTS[one.fault].done, expected, answer(one.whole), before, affected, result)
        lines.append(f"| {' | '.join(cells)} |")
    good = sum(o in ("right", "right family") for o in faults)
    counts = ", ".join(f"{number} {name}" for name, number in Counter(faults).most_common())
    lines += ["", f"Faults: {good} of {len(faults)} right or right family ({counts}). Healthy in an outage: "]
    lines[-1] += f"{faults.count(HEALTHY)}. Controls with findings: {controls.count('wrong')} of {len(controls)}."
    if skipped:
        lines += ["", f"Not started here: {', '.join(skipped)}."]
    lines += ["", "## What doctor shows", "", "From the first run of each stack.", ""]
    lines += ["| stack | engines | causes | signals |", "| --- | --- | --- | --- |"]
    first = {one.stack: one for one in reversed(played)}
    for stack, kind in STACKS.items():
        if stack in first:
            lines.append(f"| {kind.title} | {_doctor(first[stack].doctor)} |")
    return "\n".join(lines) + "\n"


def _pressure(played: Sequence[Played]) -> str:
    loads = sorted(one.label["load_average"] for one in played)
    return f"{loads[0]} to {loads[-1]}" if loads else "unknown"


def _doctor(text: str) -> str:
    """Engines, causes and signals of the output of `doctor`."""
    engines = len(re.findall(r"(?m)^(?:engines)?\s+\S+: model ", text))
    counts = [match[1] if (match := re.search(rf"(?m)^{word}\s+(.+)$", text)) else "" for word in ("causes", "signals")]
    return " | ".join([str(engines), *counts])

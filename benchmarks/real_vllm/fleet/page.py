"""The part of docs/measurements/real-vllm.md about fleets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from benchmarks.measured import measured_line
from benchmarks.real_vllm.page import finding

if TYPE_CHECKING:
    from benchmarks.real_vllm.fleet.live import FleetRun

FLEET_HEADING = "## Fleets on simulated accelerators\n"
RECORDED_HEADING = "## Fleets, recorded\n"
ABOUT = """\
A model that fits two CPU cores is no fleet. So a second part plays fleets of two to four real vLLM servers whose
accelerator is simulated: API server, scheduler, KV manager, prefix cache, LoRA and speculation logic and the metrics
pages are vLLM's own. Only the model's step is replaced, by an executor
([accelerator.py](../../benchmarks/real_vllm/fleet/accelerator.py), `--distributed-executor-backend`) that sleeps for
the time a roofline gives: weights and context to read, tokens to compute, drafts to verify, adapters to load. Answers
are random tokens of the requested length. A pod at the usual load takes a tenth of a core.

* **Pods** have names as a Deployment gives them. A rollout starts pods of a new replica set one by one, waits until
  each answers, takes an old one out of rotation, lets it finish, and ends it. Servers are forked from a process that
  has imported vLLM, so a start costs a second of CPU, and the eight in which the accelerator "loads weights".
* **Clients** send streams of exact lengths at Poisson times, with shared prefixes, adapters, time-outs and retries. A
  router (in turn, fewest in flight, prefix affinity) probes `/health` every 5 s and drops a pod after two failures.
* **Deeds**: SIGKILL, SIGSTOP of the engine core, processes stopped for a share of every 100 ms as under a CPU quota, a
  rollout with other flags, a slower accelerator, drafts that no longer hold, another routing policy, another load.
* **Labels** come from the injected fault and from the clients, never from metrics or a diagnosis. Clients count as
  affected if at least 15 % of the attempts are late or fail in two consecutive spans of 10 s. Late is 1.5 times the
  95th percentile of the baseline, for TTFT or time per token. A fault without affected clients is not recorded, nor
  is one whose servers waited for a core a quarter of the time before the onset.

[incidents.py](../../benchmarks/real_vllm/fleet/incidents.py) holds all of them as data.

`make real-vllm` plays three of the incidents: a pod apart from its peers, a release that is worse, one that is not.
The answers about the time before and about the whole recording are judged. The last column is the answer of one who
looks a minute late (`--from` 60 s after the onset), and is not judged here.
"""


RECORDED = """\
`fixtures/fleets` holds recordings of all incidents, made with `python -m benchmarks.real_vllm.fleet --side-by-side 3`:
every page, scraped every 5 or 10 s. Interpreter and process metrics, sizes of HTTP bodies, estimates and `_created`
series are left out. `labels.json` says what was done and when, which pods it hit, which causes may come first, and what
clients saw. Waiting: the share of the time before the onset in which the busiest pod stood ready to run without a core.
Measured 2026-11-24 at commit 4a077af5 (`python -m benchmarks.real_vllm.fleet`).
"""
"""Its last line is of the recordings: change it with them."""


def row(run: FleetRun) -> str:
    incident, clients = run.incident, run.label["clients"]
    wanted = " or ".join(f"`{cause}`" for cause in incident.expected) or "no finding"
    hurt = f"{clients['hurt_before']:.0%}" + ("" if incident.control else f" → {clients['hurt_after']:.0%}")
    right = "right" if run.right and run.silent else "WRONG"
    cells = [incident.name, incident.done, hurt, wanted, _said(run.before), _said(run.whole), right, _said(run.late)]
    return f"| {' | '.join(cells)} |"


def _said(document: dict[str, Any] | None) -> str:
    return "" if document is None else finding(document)


def recorded(entries: Sequence[dict[str, Any]]) -> str:
    """One row for every recording. entries: those of labels.json."""
    head = ["recording", "what was done", "may come first", "clients affected", "first token, median, s", "waiting"]
    lines = [RECORDED_HEADING, RECORDED, f"| {' | '.join(head)} |", "| --- " * len(head) + "|"]
    for entry in entries:
        clients = entry["clients"]
        parts = [clients["before"]] if entry["control"] else [clients["before"], clients["after"]]
        shares = [clients["hurt_before"]] if entry["control"] else [clients["hurt_before"], clients["hurt_after"]]
        causes = ", ".join(f"`{cause}`" for cause in entry["edge_accepts"] or entry["expected"]) or "nothing"
        cells = [
            entry["file"].removesuffix(".om.gz"),
            entry["done"],
            causes,
            " → ".join(f"{share:.0%}" for share in shares),
            " → ".join(f"{part['ttft_p50']:.2f}" if "ttft_p50" in part else "no answer" for part in parts),
            f"{entry['cpu_wait_before']:.0%}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def fleet_page(runs: Sequence[FleetRun], where: str) -> str:
    """One row for every incident played now."""
    head = ["fleet", "what was done", "clients affected", "expected", "before", "whole recording", "", "a minute late"]
    good = sum(run.right and run.silent for run in runs)
    lines = [FLEET_HEADING, ABOUT, f"Run on {where}.", measured_line(), ""]
    lines += [
        f"| {' | '.join(head)} |",
        "| --- " * len(head) + "|",
        *(row(run) for run in runs),
        "",
        f"{good} of {len(runs)} right.",
    ]
    return "\n".join(lines) + "\n"

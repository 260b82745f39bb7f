"""One incident from the start of its pods to a recording and its label."""

from __future__ import annotations

import asyncio
import dataclasses
import gzip
import json
import re
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.real_vllm.fleet.deeds import DEEDS, Deed, Stage
from benchmarks.real_vllm.fleet.harm import Yardstick, summary
from benchmarks.real_vllm.fleet.incidents import Incident
from benchmarks.real_vllm.fleet.members import Members
from benchmarks.real_vllm.fleet.starts import Starts
from benchmarks.real_vllm.fleet.traffic import Attempt, Clients, Router
from benchmarks.real_vllm.judge import INFERDOC, collecting

WARM_SECONDS = 25.0
"""Load before the first scrape: prefix caches fill, batches reach their usual size."""
DROPPED = re.compile(
    rb"(# TYPE )?(python_|process_(?!start_time)|http_re\w+_size_|vllm:estimated_|\w+(:\w+)?_created[ {])"
)
"""What tells no cause: the interpreter, sizes of HTTP bodies, estimates that stay 0 without a flag, and the moments at
which series were created, which process_start_time_seconds dates as well."""
ADAPTER = {"peft_type": "LORA", "r": 8, "lora_alpha": 16, "target_modules": ["q_proj"], "base_model_name_or_path": ""}
PRESSED_SHARE = 0.25
"""A pod whose main threads wait longer than this for a core was not only as slow as its accelerator."""


@dataclass(frozen=True)
class Places:
    """model: what is served; work: stores, logs and knobs."""

    starts: Starts
    model: Path
    work: Path


@dataclass(frozen=True)
class Recording:
    """What happened. begin, onset, end: Unix seconds; hit, left: pods that the incident struck, and those that live at
    the end; waited: per pod, the share of the time before the onset in which its main
    threads stood ready to run without a core."""

    incident: Incident
    store: Path
    begin: float
    onset: float | None
    end: float
    hit: list[str]
    left: list[str]
    attempts: list[Attempt]
    waited: dict[str, float]


def export(store: Path, out: Path) -> None:
    """The store as OpenMetrics with timestamps, compressed, without the families that are DROPPED."""
    command = [*INFERDOC, "export", "--store", str(store)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        # No time stamp in the header: the same samples make the same file.
        with gzip.GzipFile(out, "wb", 9, mtime=0) as file:
            for line in process.stdout:
                if not DROPPED.match(line):
                    file.write(line)
    if process.returncode:
        raise RuntimeError(f"inferdoc export ended with {process.returncode}")


def adapters(incident: Incident, folder: Path) -> list[str]:
    """Folders of adapters, which nobody reads beyond their configuration, and the flags that name them."""
    words = []
    for number in range(incident.adapters):
        place = folder / f"adapter-{number}"
        place.mkdir(exist_ok=True)
        (place / "adapter_config.json").write_text(json.dumps(ADAPTER), "utf-8")
        words.append(f"adapter-{number}={place}")
    return ["--lora-modules", *words] if words else []


def allow_connections() -> None:
    """Every request under way holds a descriptor, and shells allow 1024: clients would fail where no server does."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


async def record(incident: Incident, places: Places) -> Recording:
    """Play an incident. Raises RuntimeError where a pod does not start or the collector ends; no process is left."""
    allow_connections()
    folder = places.work / incident.name
    folder.mkdir(parents=True, exist_ok=True)
    store = folder / "store.db"
    for old in folder.glob("store.db*"):
        old.unlink()
    flags = [*incident.flags, *adapters(incident, folder)]
    members = Members(incident.name, folder, places.starts, places.model, folder / "targets.json")
    router = Router(incident.policy, incident.name)
    clients = Clients(members.pods, router, incident.name)
    tasks: list[asyncio.Task[Any]] = []
    try:
        await asyncio.gather(*(members.add(flags) for _ in range(incident.pods)))
        # Pods answer in any order, but stand in the order of their births.
        stage = Stage(members, router, flags)
        clients.begin = time.monotonic() + WARM_SECONDS
        tasks = [asyncio.create_task(clients.drive(load, incident.end)) for load in incident.loads]
        tasks.append(asyncio.create_task(router.probe(members.pods)))
        struck: list[str] = []
        tasks += [asyncio.create_task(_do(stage, deed, clients.begin)) for deed in incident.deeds]
        await asyncio.sleep(WARM_SECONDS)
        begin, waits = time.time(), {pod.name: pod.waited_seconds() for pod in members.pods}
        followed = ["--file-sd", str(members.targets), "--timeout", f"{incident.scrape - 1}s"]
        with collecting(followed, store, folder / "collect.log", incident.scrape):
            if incident.onset is not None:
                await _sleep_until(clients.begin + incident.onset - 0.5)
                struck = [members.pods[number].name for number in incident.hit]
                waited = _waited(members, waits, incident.onset)
            await _sleep_until(clients.begin + incident.end)
            if incident.onset is None:
                waited = _waited(members, waits, incident.end)
            _raise_what_failed(tasks)
        onset = None if incident.onset is None else begin + incident.onset
        left = [pod.name for pod in members.pods]
        return Recording(incident, store, begin, onset, time.time(), struck, left, clients.attempts, waited)
    finally:
        for task in tasks:
            task.cancel()
        # Before anything is awaited: whoever cancels twice would leave servers behind.
        members.end()
        await asyncio.gather(*tasks, return_exceptions=True)
        await clients.hang_up()


async def _do(stage: Stage, deed: Deed, begin: float) -> None:
    await _sleep_until(begin + deed.at)
    print(f"{time.strftime('%H:%M:%S')} {stage.members.name}: {deed.do}", file=sys.stderr, flush=True)
    await DEEDS[deed.do](stage, deed)


async def _sleep_until(moment: float) -> None:
    await asyncio.sleep(max(0.0, moment - time.monotonic()))


def _waited(members: Members, before: dict[str, float], seconds: float) -> dict[str, float]:
    """Share of the last so many seconds for each pod that lives, or of its life where that is shorter. before: what
    each had waited at the beginning; nothing for one that was not born."""
    now = time.monotonic()
    return {
        pod.name: round((pod.waited_seconds() - before.get(pod.name, 0.0)) / min(seconds, now - pod.born), 3)
        for pod in members.pods
    }


def _raise_what_failed(tasks: Sequence[asyncio.Task[Any]]) -> None:
    for task in tasks:
        if task.done() and (error := task.exception()) is not None:
            raise error


def label(recording: Recording, file: str) -> dict[str, Any]:
    """The entry of labels.json: what was done and when, and what the clients saw of it."""
    incident = recording.incident
    onset = incident.onset
    before = [a for a in recording.attempts if a.begin >= 0 and (onset is None or a.end <= onset)]
    after = [a for a in recording.attempts if onset is not None and a.begin >= onset]
    # A control is measured against its own first minute.
    yardstick = Yardstick(before if onset is not None else [a for a in before if a.end <= 60.0])
    first = yardstick.since(recording.attempts, onset or 60.0, incident.end)
    # Where nobody is singled out, those are hit that live to the end: a rollout's new pods, what a scale-in leaves.
    hit = recording.hit or recording.left
    entry: dict[str, Any] = {
        "file": file,
        "control": incident.control,
        "expected": list(incident.expected),
        "since": "10m",
        "onset": recording.onset and round(recording.onset, 1),
        "onset_latest": None if incident.control or first is None else round(recording.begin + first + 10.0, 1),
        "end": None if incident.control else round(recording.end, 1),
        "window": [round(recording.begin, 1), round(recording.end, 1)],
        "scrape_interval_s": incident.scrape,
        "affected_pods": [] if incident.control else hit,
        "healthy_pods": [] if incident.control or not recording.hit else [n for n in recording.left if n not in hit],
        "done": incident.done,
        "deeds": [dataclasses.asdict(deed) for deed in incident.deeds],
        "edge": incident.edge,
        "edge_accepts": list(incident.edge_accepts),
        "flags": incident.flags,
        "clients": {
            "before": summary(before),
            "after": summary(after),
            "hurt_before": round(yardstick.share(before), 3),
            "hurt_after": round(yardstick.share(after), 3),
        },
        "cpu_wait_before": max(recording.waited.values(), default=0.0),
    }
    return entry


def hurt_as_meant(entry: dict[str, Any]) -> str | None:
    """Why a recording is no use; None where it shows what it should."""
    if entry["cpu_wait_before"] > PRESSED_SHARE:
        return f"pods waited {entry['cpu_wait_before']:.0%} of the time for a core before anything was done"
    if entry["control"] and entry["clients"]["hurt_before"] > 0.1:
        return f"{entry['clients']['hurt_before']:.0%} of the clients of a control were hurt"
    if not entry["control"] and entry["onset_latest"] is None:
        return "no client was hurt"
    return None

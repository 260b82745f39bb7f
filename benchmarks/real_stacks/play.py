"""One fault of one stack, from the start of its processes to a recording, a label and a diagnosis."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.process_cost import INFERDOC
from benchmarks.real_stacks.cases import END, FAULTS, ONSET, STACKS, StackKind, loads
from benchmarks.real_stacks.model import word
from benchmarks.real_stacks.recorder import SCRAPE_SECONDS, prometheus, samples, types, write_recording
from benchmarks.real_stacks.stacks import Places, Stack
from benchmarks.real_vllm.fleet.harm import Yardstick, summary
from benchmarks.real_vllm.fleet.traffic import Clients, Router

WARM_SECONDS = 25.0


@dataclass
class Front:
    """The one address that clients send to, in the place of a pod."""

    url: str
    name: str = "front"
    ready: bool = True
    in_flight: int = 0


class TextClients(Clients):
    """Prompts as text: not every router passes token ids on."""

    def _as_sent(self, prompt: list[int]) -> str:
        return " ".join(map(word, prompt))


@dataclass
class Played:
    """label: as in labels.json; before: document of `diagnose` on the time before the onset, None for a control; whole:
    document on everything; doctor: what `doctor` prints."""

    stack: str
    fault: str
    label: dict[str, Any]
    before: dict[str, Any] | None = None
    whole: dict[str, Any] = field(default_factory=dict)
    doctor: str = ""


async def play(stack: str, fault: str, places: Places, out: Path) -> Played:
    """Record a fault into a file of `out`. Raises RuntimeError if a process does not start; no process is left."""
    kind = STACKS[stack]
    folder = places.work / f"{stack}-{fault}"
    folder.mkdir(parents=True, exist_ok=True)
    served = kind.build(folder, places)
    front = Front(served.url)
    clients = TextClients([front], Router("turn", fault), fault)  # type: ignore[list-item]
    tasks: list[asyncio.Task[Any]] = []
    try:
        await served.start()
        clients.begin = time.monotonic() + WARM_SECONDS
        tasks = [asyncio.create_task(clients.drive(load, END)) for load in loads(fault, kind.rate)]
        await asyncio.sleep(WARM_SECONDS)
        begin = time.time()
        with prometheus(served.targets, folder / "prometheus") as url:
            await _until(clients.begin + ONSET)
            onset, pressed = time.time(), os.getloadavg()[0]
            await _inject(served, fault, kind)
            await _until(clients.begin + END)
            end = time.time()
            for task in tasks:
                if task.done() and (error := task.exception()) is not None:
                    raise error
            played = Played(stack, fault, {})
            if FAULTS[fault].accepted:
                played.before = await asyncio.to_thread(diagnosis, url, begin, onset)
            played.whole = await asyncio.to_thread(diagnosis, url, begin, end)
            played.doctor = await asyncio.to_thread(inferdoc, "doctor", url)
            file = f"{stack}-{fault}.om.gz"
            series = await asyncio.to_thread(samples, url, begin, end)
            await asyncio.to_thread(write_recording, series, types(url), out / file)
    finally:
        for task in tasks:
            task.cancel()
        served.end()
        await asyncio.gather(*tasks, return_exceptions=True)
        await clients.hang_up()
    early = [a for a in clients.attempts if a.begin >= 0 and a.end <= ONSET]
    late = [a for a in clients.attempts if a.begin >= ONSET]
    yardstick = Yardstick(early)
    played.label = {
        "file": file,
        "stack": stack,
        "fault": fault,
        "control": not FAULTS[fault].accepted,
        "outage": FAULTS[fault].outage,
        "expected": list(FAULTS[fault].accepted),
        "onset": round(onset, 1) if FAULTS[fault].accepted else None,
        "window": [round(begin, 1), round(end, 1)],
        "scrape_interval_s": SCRAPE_SECONDS,
        "engines": list(served.engines()),
        "clients": {
            "before": summary(early),
            "after": summary(late),
            "hurt_after": round(yardstick.share(late), 3),
        },
        "load_average": round(pressed, 1),
    }
    (folder / "answers.json").write_text(json.dumps([played.before, played.whole, played.doctor]), "utf-8")
    return played


async def _inject(served: Stack, fault: str, kind: StackKind) -> None:
    print(f"{time.strftime('%H:%M:%S')} {kind.title}: {FAULTS[fault].done}", file=sys.stderr, flush=True)
    if fault == "sigstop":
        await served.stop_engine()
    elif fault == "sigkill":
        await served.kill_engine(-1)
    elif fault == "sigkill-prefill":
        await served.kill_engine(0)
    elif fault == "sigkill-router":
        await served.kill_router()
    elif fault == "random-routing":
        await served.restart_router("random")
    elif fault == "few-blocks":
        await served.restart_engines("--num-gpu-blocks-override", str(kind.blocks))


async def _until(moment: float) -> None:
    await asyncio.sleep(max(0.0, moment - time.monotonic()))


def diagnosis(url: str, begin: float, end: float) -> dict[str, Any]:
    """The document of `diagnose` for a window in Unix seconds."""
    text = inferdoc("diagnose", url, "--from", f"{begin:.3f}", "--until", f"{end:.3f}", "-o", "json")
    document: dict[str, Any] = json.loads(text)
    return document


def inferdoc(command: str, url: str, *options: str) -> str:
    """What a command prints about a Prometheus. Raises RuntimeError if the command fails."""
    words = [*INFERDOC, command, "--prometheus", url, *options]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode not in (0, 1, 3):
        raise RuntimeError(f"inferdoc {command} exited with {done.returncode}: {done.stderr.strip()}")
    return done.stdout

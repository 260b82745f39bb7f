"""The pods of one fleet over time: births under a replica set's hash, graceful ends, and the list that is scraped."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.real_vllm.fleet.pods import Pod
from benchmarks.real_vllm.fleet.starts import Starts

DEPLOYMENT = "chat"
LETTERS = "bcdfghjklmnpqrstvwxz2456789"
"""What Kubernetes makes names of: no vowels and nothing that looks like another letter."""
DRAIN_SECONDS = 30.0


@dataclass
class Members:
    """pods: those that live, oldest first; all_names: every pod that ever was; targets: a file_sd document that a
    collector follows."""

    name: str
    folder: Path
    starts: Starts
    model: Path
    targets: Path
    pods: list[Pod] = field(default_factory=list)
    all_names: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._dice = random.Random(self.name)
        self._net = self._dice.randrange(10, 250)
        self.new_release()

    def new_release(self) -> None:
        """Pods born from now on belong to another replica set."""
        self._hash = self._letters(9)

    def _letters(self, number: int) -> str:
        return "".join(self._dice.choices(LETTERS, k=number))

    def publish(self) -> None:
        """Write whom to scrape, as service discovery would list it: every pod that exists, ready or not."""
        document = [
            {
                "targets": [f"127.0.0.1:{pod.port}"],
                "labels": {
                    "job": f"llm/{DEPLOYMENT}",
                    "namespace": "llm",
                    "pod": pod.name,
                    "container": "vllm",
                    "instance": f"{pod.address}:8000",
                },
            }
            for pod in self.pods
        ]
        fresh = self.targets.with_suffix(".new")
        fresh.write_text(json.dumps(document), "utf-8")
        fresh.replace(self.targets)

    async def add(self, flags: Sequence[str], knobs: Mapping[str, float] | None = None) -> Pod:
        """A pod that serves when this returns. knobs: of its accelerator, where they differ from the usual ones."""
        name = f"{DEPLOYMENT}-{self._hash}-{self._letters(5)}"
        address = f"10.{self._net}.{self._dice.randrange(4)}.{len(self.all_names) + 11}"
        pod = Pod(name, address, flags, self.folder, self.starts, self.model)
        pod.turn(**(knobs or {}))
        self.pods.append(pod)
        self.all_names.append(name)
        self.publish()
        await pod.serve()
        return pod

    async def remove(self, pod: Pod, drain: bool = True) -> None:
        """Take it out of rotation, let it finish where asked to, end it, forget it."""
        pod.ready, pod.draining = False, True
        limit = time.monotonic() + DRAIN_SECONDS
        while drain and pod.in_flight and time.monotonic() < limit:
            await asyncio.sleep(0.2)
        await pod.stop()
        self.pods.remove(pod)
        self.publish()

    def end(self) -> None:
        for pod in self.pods:
            pod.kill()

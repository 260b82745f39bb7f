"""The stacks: which processes each consists of, how they start, and which faults can be injected."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import requests

from benchmarks.real_vllm.fleet.members import Members
from benchmarks.real_vllm.fleet.pods import MODEL, free_port
from benchmarks.real_vllm.fleet.starts import Starts

READY_SECONDS = 120.0
STOP_SECONDS = 8.0
NAMESPACE = "llm"


@dataclass(frozen=True)
class Places:
    """environments: the folder of install.py; starts: forks vLLM servers, None if vLLM is not installed; model: what is
    served; work: logs and databases."""

    environments: Path
    starts: Starts | None
    model: Path
    work: Path


@dataclass
class Program:
    """One process with metrics. name: of its pod; container: of the pod's container; port: of /metrics; log: a file."""

    name: str
    container: str
    command: Sequence[str]
    environment: Mapping[str, str]
    port: int
    log: Path
    _process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self.command,
                env=os.environ | self.environment,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )

    def check(self) -> None:
        """Raises RuntimeError if the process has exited."""
        if self._process is not None and self._process.poll() is not None:
            raise RuntimeError(f"{self.name} exited with {self._process.returncode}: see {self.log}")

    def send(self, number: int) -> None:
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, number)

    def end(self) -> None:
        """SIGTERM, then SIGKILL for what is left of the process group."""
        if self._process is None:
            return
        self.send(signal.SIGCONT)
        self.send(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(STOP_SECONDS)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def target(self, number: int) -> dict[str, object]:
        """As service discovery would list it."""
        labels = {
            "job": f"{NAMESPACE}/{self.container}",
            "namespace": NAMESPACE,
            "pod": self.name,
            "container": self.container,
            "instance": f"10.42.0.{number}:{8000 + number}",
        }
        return {"targets": [f"127.0.0.1:{self.port}"], "labels": labels}


class Stack(Protocol):
    """targets: file_sd documents of what is scraped; url: where clients send."""

    targets: Sequence[Path]
    url: str

    async def start(self) -> None:
        """Returns when clients can send. Raises RuntimeError if a process does not start."""

    async def stop_engine(self) -> None:
        """SIGSTOP of one engine."""

    async def kill_engine(self, number: int) -> None:
        """SIGKILL of one engine, which nobody starts again."""

    async def kill_router(self) -> None:
        """SIGKILL of the router, which nobody starts again."""

    async def restart_engines(self, *flags: str) -> None:
        """One by one, under their names, with these flags added."""

    async def restart_router(self, policy: str) -> None:
        """Under its name, with another policy."""

    def engines(self) -> Sequence[str]:
        """Names of the pods that serve."""

    def end(self) -> None: ...


async def until_served(url: str, programs: Sequence[Program]) -> None:
    """Wait until a completion succeeds. Raises RuntimeError if a program exits or nothing answers in time."""
    limit = time.monotonic() + READY_SECONDS
    body = {"model": MODEL, "prompt": "w1 w2 w3", "max_tokens": 2}
    while time.monotonic() < limit:
        for program in programs:
            program.check()
        with contextlib.suppress(requests.RequestException):
            answer = await asyncio.to_thread(requests.post, f"{url}/v1/completions", json=body, timeout=5)
            if answer.ok:
                return
        await asyncio.sleep(0.5)
    raise RuntimeError(f"{url} did not answer a completion within {READY_SECONDS:.0f} s: see {programs[-1].log}")


def publish(path: Path, programs: Sequence[Program]) -> Path:
    path.write_text(json.dumps([program.target(i + 2) for i, program in enumerate(programs)]), "utf-8")
    return path


DYNAMO_ENVIRONMENT = {
    "DYN_DISCOVERY_BACKEND": "file",
    "DYN_REQUEST_PLANE": "tcp",
    "DYN_EVENT_PLANE": "zmq",
    "DYN_TCP_RPC_HOST": "127.0.0.1",
    "DYN_TCP_RESPONSE_STREAM_HOST": "127.0.0.1",
    "DYN_SYSTEM_HOST": "127.0.0.1",
    "DYN_LOG": "error",
    "HF_HUB_OFFLINE": "1",
}


@dataclass
class Dynamo:
    """NVIDIA Dynamo: frontend with KV router, and mocker workers. roles: how many workers of each
    --disaggregation-mode; engine: --engine-type."""

    folder: Path
    places: Places
    roles: Mapping[str, int] = field(default_factory=lambda: {"agg": 4})
    engine: str = "vllm"
    flags: Sequence[str] = ("--num-gpu-blocks-override", "900", "--max-num-seqs", "4", "--speedup-ratio", "1.0")

    def __post_init__(self) -> None:
        shutil.rmtree(self.folder / "kv", ignore_errors=True)
        (self.folder / "kv").mkdir(parents=True)
        self._environment = DYNAMO_ENVIRONMENT | {"DYN_FILE_KV": str(self.folder / "kv")}
        self._python = str(self.places.environments / "dynamo" / "bin" / "python")
        self.workers = [self._worker(role, i) for role, number in self.roles.items() for i in range(number)]
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self.frontend = Program(
            "dynamo-frontend-0",
            "frontend",
            self._frontend(port, "kv"),
            self._environment,
            port,
            self.folder / "frontend.log",
        )
        self.targets = [publish(self.folder / "targets.json", [self.frontend, *self.workers])]

    def _frontend(self, port: int, policy: str) -> list[str]:
        module = [self._python, "-m", "dynamo.frontend"]
        return [*module, "--http-host", "127.0.0.1", "--http-port", str(port), "--router-mode", policy]

    def _worker(self, role: str, number: int) -> Program:
        name, port = f"dynamo-{'worker' if role == 'agg' else role}-{number}", free_port()
        command = [self._python, "-m", "dynamo.mocker", "--model-path", str(self.places.model), "--model-name", MODEL]
        command += ["--engine-type", self.engine, "--block-size", "16", "--disaggregation-mode", role]
        if role == "prefill":
            command += ["--bootstrap-ports", str(free_port())]
        environment = self._environment | {"DYN_SYSTEM_PORT": str(port), "DYN_SYSTEM_ENABLED": "true"}
        return Program(name, "worker", [*command, *self.flags], environment, port, self.folder / f"{name}.log")

    async def start(self) -> None:
        for worker in self.workers:
            worker.start()
        self.frontend.start()
        await until_served(self.url, [*self.workers, self.frontend])
        limit = time.monotonic() + READY_SECONDS
        while not all(await asyncio.gather(*(self._registered(worker) for worker in self.workers))):
            if time.monotonic() > limit:
                raise RuntimeError(f"a worker of {self.folder.name} did not register within {READY_SECONDS:.0f} s")
            await asyncio.sleep(0.5)

    async def _registered(self, worker: Program) -> bool:
        worker.check()
        with contextlib.suppress(requests.RequestException):
            answer = await asyncio.to_thread(requests.get, f"http://127.0.0.1:{worker.port}/health", timeout=3)
            # The status is 503 even when the worker serves; its list of endpoints is right.
            return answer.json().get("endpoints", {}).get("generate") == "ready"
        return False

    async def stop_engine(self) -> None:
        self.workers[-1].send(signal.SIGSTOP)

    async def kill_engine(self, number: int) -> None:
        self.workers[number].send(signal.SIGKILL)

    async def kill_router(self) -> None:
        self.frontend.send(signal.SIGKILL)

    async def restart_engines(self, *flags: str) -> None:
        for worker in self.workers:
            await asyncio.to_thread(worker.end)
            worker.command = [*worker.command, *flags]
            worker.start()
            while not await self._registered(worker):
                await asyncio.sleep(0.5)

    async def restart_router(self, policy: str) -> None:
        await asyncio.to_thread(self.frontend.end)
        self.frontend.command = self._frontend(self.frontend.port, policy)
        self.frontend.start()

    def engines(self) -> Sequence[str]:
        return [worker.name for worker in self.workers]

    def end(self) -> None:
        for program in [self.frontend, *self.workers]:
            program.end()


VLLM_FLAGS = ("--max-model-len", "4096", "--num-gpu-blocks-override", "1000", "--max-num-seqs", "4")


LITELLM_ENVIRONMENT = {
    "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
}
"""The proxy listens on loopback only, and its price list is not downloaded."""


@dataclass
class Gateway:
    """vLLM servers on simulated accelerators behind a router from PyPI. kind: sglang-router, vllm-router or litellm."""

    folder: Path
    places: Places
    kind: str
    pods: int = 3

    def __post_init__(self) -> None:
        if self.places.starts is None:
            raise RuntimeError(f"{self.kind} needs vLLM servers: make build/real-vllm/.installed")
        self.folder.mkdir(parents=True, exist_ok=True)
        engines = self.folder / "engines.json"
        self.members = Members(self.folder.name, self.folder, self.places.starts, self.places.model, engines)
        self.port, self.metrics = free_port(), free_port()
        if self.kind == "litellm":
            self.metrics = self.port
        self.url = f"http://127.0.0.1:{self.port}"
        environment = LITELLM_ENVIRONMENT if self.kind == "litellm" else {}
        self.router = Program(f"{self.kind}-0", self.kind, [], environment, self.metrics, self.folder / "router.log")
        self.targets = [engines, publish(self.folder / "router.json", [self.router])]

    def _command(self, policy: str) -> list[str]:
        urls = [pod.url for pod in self.members.pods]
        if self.kind == "litellm":
            path = self.folder / "litellm.yaml"
            path.write_text(json.dumps(self._litellm(urls, policy)), "utf-8")
            command = [str(self.places.environments / "litellm" / "bin" / "litellm"), "--config", str(path)]
            return [*command, "--host", "127.0.0.1", "--port", str(self.port)]
        python = str(self.places.environments / "gateways" / "bin" / "python")
        command = [python, "-m", f"{self.kind.replace('-', '_')}.launch_router", "--worker-urls", *urls]
        command += ["--host", "127.0.0.1", "--port", str(self.port), "--policy", policy, "--log-level", "error"]
        return [*command, "--prometheus-host", "127.0.0.1", "--prometheus-port", str(self.metrics)]

    @staticmethod
    def _litellm(urls: Sequence[str], policy: str) -> dict[str, object]:
        models = [
            {
                "model_name": MODEL,
                "litellm_params": {"model": f"hosted_vllm/{MODEL}", "api_base": f"{url}/v1", "api_key": "none"},
            }
            for url in urls
        ]
        return {
            "model_list": models,
            "router_settings": {"routing_strategy": policy, "num_retries": 1, "timeout": 30},
            "litellm_settings": {"callbacks": ["prometheus"], "telemetry": False},
        }

    async def start(self) -> None:
        await asyncio.gather(*(self.members.add(VLLM_FLAGS) for _ in range(self.pods)))
        await self.restart_router("least-busy" if self.kind == "litellm" else "cache_aware")
        await until_served(self.url, [self.router])

    async def stop_engine(self) -> None:
        self.members.pods[-1].send(signal.SIGSTOP, "engine")

    async def kill_engine(self, number: int) -> None:
        self.members.pods[number].send(signal.SIGKILL)

    async def kill_router(self) -> None:
        self.router.send(signal.SIGKILL)

    async def restart_engines(self, *flags: str) -> None:
        for pod in self.members.pods:
            await pod.stop()
            pod.flags = [*pod.flags, *flags]
            await pod.serve()

    async def restart_router(self, policy: str) -> None:
        await asyncio.to_thread(self.router.end)
        self.router.command = self._command(policy)
        self.router.start()

    def engines(self) -> Sequence[str]:
        return [pod.name for pod in self.members.pods]

    def end(self) -> None:
        self.router.end()
        self.members.end()

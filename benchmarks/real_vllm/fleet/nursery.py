"""Forks vLLM servers from one process that has imported everything: a start costs seconds of CPU and not half a minute.

    python -m benchmarks.real_vllm.fleet.nursery          with vLLM's Python

Reads a JSON object per line, {"arguments": [...], "environment": {...}, "log": PATH}, and answers each with a line that
holds the process id. The server runs as `vllm serve` would from a shell, in a session of its own; its engine core is
forked as well, which is vLLM's default outside its command line.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import multiprocessing
import os
import signal
import sys
import traceback
from typing import Any

MODULES = (
    "vllm.entrypoints.cli.main",
    "vllm.entrypoints.cli.serve",
    "vllm.entrypoints.openai.api_server",
    "vllm.entrypoints.openai.completion.serving",
    "vllm.v1.engine.async_llm",
    "vllm.v1.engine.core",
    "vllm.v1.core.sched.scheduler",
    "vllm.v1.metrics.loggers",
    "vllm.v1.spec_decode.ngram_proposer",
    "vllm.model_executor.models.qwen3",
    "vllm.lora.request",
    "transformers.models.qwen3",
    "benchmarks.real_vllm.fleet.accelerator",
)


def grow(request: dict[str, Any]) -> None:
    """In the child: become a server, and end with it."""
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    quiet = os.open(os.devnull, os.O_RDONLY)
    log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for target, source in ((0, quiet), (1, log), (2, log)):
        os.dup2(source, target)
    os.environ.update(request["environment"])
    sys.argv = ["vllm", *request["arguments"]]
    code = 1
    try:
        from vllm.entrypoints.cli.main import main
        from vllm.utils import system_utils
        from vllm.v1.engine import utils

        # The command line and the CPU platform ask for `spawn`, for the sake of devices that there are none of here.
        system_utils.get_mp_context = utils.get_mp_context = lambda: multiprocessing.get_context("fork")
        main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Nobody waits for the children here; the kernel buries them.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    for module in MODULES:
        with contextlib.suppress(ImportError):
            importlib.import_module(module)
    gc.collect()
    gc.freeze()
    print("ready", file=answers)
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            answers.close()
            grow(request)
        print(child, file=answers)


if __name__ == "__main__":
    main()

"""An executor for vLLM whose accelerator is simulated; API server, scheduler, KV manager and metrics are vLLM's own.

    FLEET_ACCELERATOR=knobs.json vllm serve MODEL \
        --distributed-executor-backend benchmarks.real_vllm.fleet.accelerator.SimulatedExecutor

A step takes the time that a roofline gives for what the scheduler put into it, and is slept. Tokens are random, lengths
are what the request asks for. The file of knobs is read again when it changes, so that a fault is a change of the file.
Imported by vLLM's Python only; the interface is the one of vLLM 0.32's `vllm.v1.executor.abstract.Executor`.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections import OrderedDict
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import torch
from vllm.v1.executor.abstract import Executor
from vllm.v1.kv_cache_interface import FullAttentionSpec
from vllm.v1.outputs import DraftTokenIds, ModelRunnerOutput
from vllm.v1.serial_utils import run_method
from vllm.v1.worker.worker_base import CompilationTimes

from benchmarks.real_vllm.fleet.tokens import FIRST_TOKEN, TOKENS

KNOBS = "FLEET_ACCELERATOR"
LOOK_SECONDS = 0.25
CACHE_BYTES = 8 << 30
"""What the KV cache may take, before --num-gpu-blocks-override has its say. Nothing of it is allocated."""


class Knobs:
    """The accelerator's figures: a JSON object, re-read when the file changes.

    weight_seconds: one pass over the weights; context_seconds: reading the keys and values of one token; token_seconds:
    computing one token; step_seconds: launch and sampling; draft_seconds: one drafted token; slow: factor on all of it;
    acceptance: chance that a drafted token holds; adapter_seconds: loading one LoRA adapter;
    load_seconds: loading the weights.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._version, self._due = path, 0, 0.0
        self._values: dict[str, float] = {}
        self.look()

    def look(self) -> None:
        if time.monotonic() < self._due:
            return
        self._due = time.monotonic() + LOOK_SECONDS
        version = self._path.stat().st_mtime_ns
        if version != self._version:
            self._values = json.loads(self._path.read_text("utf-8"))
            self._version = version

    def __getitem__(self, name: str) -> float:
        return self._values[name]


class Accelerator:
    """Stands where a worker with a model runner would; vLLM calls its methods by name."""

    def __init__(self, config: Any) -> None:
        self._config = config
        self._knobs = Knobs(Path(os.environ[KNOBS]))
        self._dice = random.Random(os.getpid())
        self._prompts: dict[str, int] = {}
        self._adapters: OrderedDict[int, None] = OrderedDict()
        self._places = config.lora_config.max_loras if config.lora_config else 0
        self._drafted = config.speculative_config.num_speculative_tokens if config.speculative_config else 0
        self._drafts: DraftTokenIds | None = None
        time.sleep(self._knobs["load_seconds"])

    # What vLLM asks while it starts. There are no weights to load and no cache to allocate.

    def get_kv_cache_spec(self) -> dict[str, FullAttentionSpec]:
        model = self._config.model_config.hf_text_config
        spec = FullAttentionSpec(
            block_size=self._config.cache_config.block_size, num_kv_heads=2, head_size=64, dtype=torch.bfloat16
        )
        return {f"model.layers.{number}.self_attn.attn": spec for number in range(model.num_hidden_layers)}

    def get_supported_kv_cache_layouts(self) -> list[str]:
        return ["NHD", "HND"]

    def determine_available_memory(self) -> int:
        return CACHE_BYTES

    def compile_or_warm_up_model(self) -> CompilationTimes:
        return CompilationTimes(0.0, 0.0)

    def get_supported_tasks(self) -> tuple[str, ...]:
        return ("generate",)

    def supports_draft_weight_updates(self) -> bool:
        return False

    def add_lora(self, request: Any) -> bool:
        return True

    def list_loras(self) -> set[int]:
        return set(self._adapters)

    def ignore(self, *args: Any, **named: Any) -> None:
        """Calls that concern a device: there is none."""

    set_kv_cache_layout = initialize_from_config = get_kv_connector_handshake_metadata = ignore
    check_health = execute_dummy_batch = reset_mm_cache = get_cudagraph_stats = shutdown = ignore

    # One step.

    def execute_model(self, planned: Any) -> ModelRunnerOutput:
        begin = time.monotonic()
        self._knobs.look()
        before = self._lengths(planned)
        order = list(planned.num_scheduled_tokens)
        sampled: list[list[int]] = []
        context = 0
        for name in order:
            computed, length = before[name]
            scheduled = planned.num_scheduled_tokens[name]
            context += computed + scheduled
            drafts = len(planned.scheduled_spec_decode_tokens.get(name, ()))
            whole = computed + scheduled - drafts >= length
            sampled.append(self._tokens(1 + self._accepted(drafts)) if whole else [])
        if self._drafted:
            self._drafts = DraftTokenIds(order, [self._tokens(self._drafted) if new else [] for new in sampled])
        if order:
            took = self._seconds(planned.total_num_scheduled_tokens, context) + self._loading(planned)
            time.sleep(max(0.0, begin + took - time.monotonic()))
        places = {name: place for place, name in enumerate(order)}
        return ModelRunnerOutput(req_ids=order, req_id_to_index=places, sampled_token_ids=sampled)

    def sample_tokens(self, grammar: Any) -> None:
        """Sampling is part of the step."""

    def take_draft_token_ids(self) -> DraftTokenIds | None:
        return self._drafts

    def _lengths(self, planned: Any) -> dict[str, tuple[int, int]]:
        """Per request of the step: tokens computed before it, and tokens that prompt and answer have so far."""
        for name in planned.finished_req_ids:
            self._prompts.pop(name, None)
        lengths = {}
        for new in planned.scheduled_new_reqs:
            self._prompts[new.req_id] = len(new.prompt_token_ids)
            lengths[new.req_id] = (new.num_computed_tokens, len(new.prompt_token_ids))
        old = planned.scheduled_cached_reqs
        for name, computed, answered in zip(old.req_ids, old.num_computed_tokens, old.num_output_tokens, strict=True):
            lengths[name] = (computed, self._prompts[name] + answered)
        return lengths

    def _tokens(self, number: int) -> list[int]:
        return [self._dice.randrange(FIRST_TOKEN, TOKENS) for _ in range(number)]

    def _accepted(self, drafts: int) -> int:
        """How many drafted tokens hold: up to the first that does not."""
        held = 0
        while held < drafts and self._dice.random() < self._knobs["acceptance"]:
            held += 1
        return held

    def _seconds(self, tokens: int, context: int) -> float:
        """The roofline: memory traffic and arithmetic overlap but for a quarter of the lesser."""
        memory = self._knobs["weight_seconds"] + context * self._knobs["context_seconds"]
        compute = tokens * self._knobs["token_seconds"]
        step = max(memory, compute) + min(memory, compute) / 4 + self._knobs["step_seconds"]
        step += self._drafted * self._knobs["draft_seconds"]
        return step * self._knobs["slow"] * self._dice.uniform(0.98, 1.04)

    def _loading(self, planned: Any) -> float:
        """Seconds for the adapters that this step needs and that hold no place; the least recently used gives way."""
        missing = 0
        for new in planned.scheduled_new_reqs:
            if new.lora_request is None:
                continue
            number = new.lora_request.lora_int_id
            missing += number not in self._adapters
            self._adapters[number] = None
            self._adapters.move_to_end(number)
            while len(self._adapters) > self._places:
                self._adapters.popitem(last=False)
        return missing * self._knobs["adapter_seconds"]


class SimulatedExecutor(Executor):
    """One accelerator in the process of the engine core."""

    supports_pp = False

    def _init_executor(self) -> None:
        self._accelerator = Accelerator(self.vllm_config)

    def collective_rpc(
        self,
        method: Any,
        timeout: float | None = None,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
        non_block: bool = False,
        single_value: bool = False,
        **others: Any,
    ) -> Any:
        if not non_block:
            result = run_method(self._accelerator, method, args, kwargs or {})
            return result if single_value else [result]
        later: Future[Any] = Future()
        try:
            result = run_method(self._accelerator, method, args, kwargs or {})
            later.set_result(result if single_value else [result])
        except Exception as error:  # the engine core asks the future
            later.set_exception(error)
        return later

    def execute_model(self, scheduler_output: Any, non_block: bool = False) -> Any:
        return self.collective_rpc("execute_model", args=(scheduler_output,), non_block=non_block, single_value=True)

    def sample_tokens(self, grammar_output: Any, non_block: bool = False) -> Any:
        return self.collective_rpc("sample_tokens", args=(grammar_output,), non_block=non_block, single_value=True)

    def take_draft_token_ids(self) -> DraftTokenIds | None:
        return self._accelerator.take_draft_token_ids()

    def check_health(self) -> None:
        """Nothing can break apart from the process itself."""

    def shutdown(self) -> None:
        """Nothing to release."""

"""The simulated accelerator keeps the books as a model runner does. vLLM's own classes are replaced by plain ones."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from benchmarks.real_vllm.fleet.pods import ACCELERATOR

NAME = "benchmarks.real_vllm.fleet.accelerator"
REPLACED: dict[str, dict[str, object]] = {
    "torch": {"bfloat16": "bfloat16"},
    "vllm.v1.executor.abstract": {"Executor": object},
    "vllm.v1.kv_cache_interface": {"FullAttentionSpec": SimpleNamespace},
    "vllm.v1.outputs": {
        "DraftTokenIds": lambda names, tokens: SimpleNamespace(names=names, tokens=tokens),
        "ModelRunnerOutput": SimpleNamespace,
    },
    "vllm.v1.serial_utils": {"run_method": lambda thing, method, args, kwargs: getattr(thing, method)(*args, **kwargs)},
    "vllm.v1.worker.worker_base": {"CompilationTimes": tuple},
}
PLAIN = {name: value for name, value in ACCELERATOR.items() if name != "load_seconds"} | {"load_seconds": 0.0}

Make = Callable[..., Any]


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    return []


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, slept: list[float]) -> Make:
    """Keywords: knobs, drafts (tokens drafted a step), places (for LoRA adapters)."""
    for name, content in REPLACED.items():
        parts = name.split(".")
        for depth in range(1, len(parts) + 1):
            monkeypatch.setitem(sys.modules, ".".join(parts[:depth]), ModuleType(".".join(parts[:depth])))
        for attribute, value in content.items():
            setattr(sys.modules[name], attribute, value)
    monkeypatch.delitem(sys.modules, NAME, raising=False)
    module = importlib.import_module(NAME)
    monkeypatch.setattr(module.time, "sleep", slept.append)
    monkeypatch.setattr(module.time, "monotonic", lambda: 1000.0)
    file = tmp_path / "knobs.json"
    monkeypatch.setenv(module.KNOBS, str(file))

    def made(drafts: int = 0, places: int = 0, **knobs: float) -> Any:
        file.write_text(json.dumps({**PLAIN, **knobs}), "utf-8")
        speculation = SimpleNamespace(num_speculative_tokens=drafts) if drafts else None
        lora = SimpleNamespace(max_loras=places) if places else None
        return module.Accelerator(SimpleNamespace(speculative_config=speculation, lora_config=lora))

    yield made
    sys.modules.pop(NAME, None)


def new(name: str, prompt: int, computed: int = 0, adapter: int = 0) -> Any:
    lora = SimpleNamespace(lora_int_id=adapter) if adapter else None
    tokens = list(range(prompt))
    return SimpleNamespace(req_id=name, prompt_token_ids=tokens, num_computed_tokens=computed, lora_request=lora)


def step(
    scheduled: dict[str, int],
    fresh: tuple[Any, ...] = (),
    running: tuple[tuple[str, int, int], ...] = (),
    drafts: dict[str, list[int]] | None = None,
    finished: tuple[str, ...] = (),
) -> Any:
    """What the scheduler hands over. running: (request, tokens computed, tokens answered)."""
    names, computed, answered = zip(*running, strict=True) if running else ((), (), ())
    return SimpleNamespace(
        num_scheduled_tokens=scheduled,
        total_num_scheduled_tokens=sum(scheduled.values()),
        scheduled_new_reqs=list(fresh),
        scheduled_cached_reqs=SimpleNamespace(
            req_ids=list(names), num_computed_tokens=list(computed), num_output_tokens=list(answered)
        ),
        scheduled_spec_decode_tokens=drafts or {},
        finished_req_ids=set(finished),
    )


def test_a_prompt_in_pieces_gives_its_first_token_with_the_last_piece(make: Make) -> None:
    accelerator = make()
    first = accelerator.execute_model(step({"a": 2048}, (new("a", 3000),)))
    assert first.sampled_token_ids == [[]] and first.req_id_to_index == {"a": 0}
    last = accelerator.execute_model(step({"a": 952}, running=(("a", 2048, 0),)))
    assert [len(tokens) for tokens in last.sampled_token_ids] == [1]
    after = accelerator.execute_model(step({"a": 1, "b": 10}, (new("b", 10),), (("a", 3000, 1),)))
    assert after.req_ids == ["a", "b"] and [len(tokens) for tokens in after.sampled_token_ids] == [1, 1]


def test_a_preempted_request_is_computed_again_before_it_goes_on(make: Make) -> None:
    accelerator = make()
    accelerator.execute_model(step({"a": 100}, (new("a", 100),)))
    again = accelerator.execute_model(step({"a": 90}, running=(("a", 0, 20),)))
    assert again.sampled_token_ids == [[]]
    done = accelerator.execute_model(step({"a": 30}, running=(("a", 90, 20),)))
    assert len(done.sampled_token_ids[0]) == 1


@pytest.mark.parametrize(("acceptance", "tokens"), [(1.0, 4), (0.0, 1)])
def test_drafts_hold_as_often_as_the_knob_says(make: Make, acceptance: float, tokens: int) -> None:
    accelerator = make(drafts=3, acceptance=acceptance)
    accelerator.execute_model(step({"a": 8}, (new("a", 8),)))
    assert [len(drafted) for drafted in accelerator.take_draft_token_ids().tokens] == [3]
    out = accelerator.execute_model(step({"a": 4}, running=(("a", 8, 1),), drafts={"a": [5, 6, 7]}))
    assert len(out.sampled_token_ids[0]) == tokens


def test_a_step_takes_what_the_roofline_says(make: Make, slept: list[float]) -> None:
    knobs = {"weight_seconds": 0.02, "context_seconds": 0.0, "token_seconds": 1e-4, "step_seconds": 0.003}
    make(**knobs).execute_model(step({"a": 1}, (new("a", 1),)))
    make(**knobs).execute_model(step({"a": 1000}, (new("a", 1000),)))
    make(**knobs, slow=2.0).execute_model(step({"a": 1000}, (new("a", 1000),)))
    memory_bound, compute_bound, slow = (seconds for seconds in slept if seconds)
    assert memory_bound == pytest.approx(0.023, rel=0.05)
    assert compute_bound == pytest.approx(0.1 + 0.005 + 0.003, rel=0.05)
    assert slow == pytest.approx(2 * 0.108, rel=0.05)


def test_an_adapter_without_a_place_is_loaded_and_the_oldest_gives_way(make: Make, slept: list[float]) -> None:
    accelerator = make(places=2, adapter_seconds=10.0)
    for number, adapter in enumerate((1, 2, 1, 3, 1, 2)):
        accelerator.execute_model(step({str(number): 1}, (new(str(number), 1, adapter=adapter),)))
    assert [round(seconds / 10) for seconds in slept if seconds] == [1, 1, 0, 1, 0, 1]
    assert accelerator.list_loras() == {1, 2}


def test_a_fault_is_a_change_of_the_file(make: Make, slept: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    accelerator = make(slow=1.0)
    accelerator.execute_model(step({"a": 1}, (new("a", 1),)))
    file = Path(sys.modules[NAME].os.environ[sys.modules[NAME].KNOBS])
    file.write_text(json.dumps({**PLAIN, "slow": 3.0}), "utf-8")
    monkeypatch.setattr(sys.modules[NAME].time, "monotonic", lambda: 1001.0)
    accelerator.execute_model(step({"a": 1}, running=(("a", 1, 1),)))
    usual, slow = (seconds for seconds in slept if seconds)
    assert slow / usual == pytest.approx(3.0, rel=0.1)

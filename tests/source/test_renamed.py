"""A fleet under other names, in other units, or half renamed, gets the diagnosis that it gets under the usual ones."""

from __future__ import annotations

import re
from functools import cache

import pytest

from inferdoc import diagnose, open_source
from tests.cli.command import alone, call
from tests.judging.made import Engine, recorded, stored, then

__all__ = ["alone"]
PODS = ("chat-0", "chat-1", "chat-2")
SAMPLE = re.compile(r"vllm:(\w+)")


@cache
def text():
    """Three pods, of which one becomes slow."""
    slow = {"itl": then(0.02, 0.2), "running": then(6, 40)}
    return recorded(*(Engine(pod, **(slow if pod == PODS[1] else {})) for pod in PODS)).text()


def renamed(name, only=""):
    """The names of vLLM as the function writes them, on lines with a text."""
    return "\n".join(
        SAMPLE.sub(lambda m: name(m[1]), line) if line.startswith(("vllm:", "# TYPE vllm:")) and only in line else line
        for line in text().split("\n")
    )


def in_milliseconds():
    """Times and bounds in milliseconds."""
    lines = []
    for line in text().split("\n"):
        if line.startswith(("vllm:", "# TYPE")) and "_seconds" in line and "process_" not in line:
            line = line.replace("_seconds", "_milliseconds", 1)
            line = re.sub(r'le="([\d.e-]+)"', lambda m: f'le="{float(m[1]) * 1000:g}"', line)
            if "_sum{" in line:
                head, value, time = line.rsplit(" ", 2)
                line = f"{head} {float(value) * 1000!r} {time}"
        lines.append(line)
    return "\n".join(lines)


def answer(written, tmp_path):
    told = diagnose(open_source(store=stored(written, tmp_path)), since="3m")
    return told.verdict, [(f.id, f.scope.pods, f.onset) for f in told.findings], told.coverage.signals_present


@pytest.mark.parametrize(
    "written",
    [
        lambda: renamed(lambda name: f"ray_vllm_{name}"),
        lambda: renamed(lambda name: f"acme_vllm_{name}"),
        lambda: renamed(lambda name: f"vllm_{name}", only=PODS[1]),
        in_milliseconds,
    ],
    ids=["ray", "undeclared prefix", "one pod of three", "milliseconds"],
)
def test_the_diagnosis_does_not_depend_on_the_names(written, tmp_path):
    told = written()
    assert told != text()
    (tmp_path / "usual").mkdir()
    expected = answer(text(), tmp_path / "usual")
    assert expected[0] != "healthy"
    assert answer(told, tmp_path) == expected


def test_doctor_prints_what_is_read_under_which_prefix(tmp_path):
    path = stored(renamed(lambda name: f"ray_vllm_{name}"), tmp_path)
    done = call("doctor", "--store", path)
    assert "metrics read as vLLM under the prefix ray_vllm_ (Ray)" in done.out


def test_an_engine_that_nobody_declared_is_never_healthy(tmp_path):
    made = recorded(*(Engine(pod) for pod in PODS))
    assert diagnose(open_source(store=stored(made.text(), tmp_path)), since="3m").verdict == "healthy"
    for name in ("num_requests_running", "gpu_cache_usage_perc"):
        made.put(f"otherengine:{name}", "gauge", {"job": "x", "instance": "x:1", "pod": "x-0"}, 1)
    path = tmp_path / "hidden"
    path.mkdir()
    told = diagnose(open_source(store=stored(made.text(), path)), since="3m")
    assert told.verdict == "unknown"
    assert [(one.word, one.families, one.hidden) for one in told.coverage.not_understood] == [("otherengine", 2, True)]
    assert "otherengine:gpu_cache_usage_perc" in told.source.incomplete[0]
    done = call("doctor", "--store", stored(made.text(), path / ".."))
    assert "an engine is not read: 2 metrics under otherengine" in done.out

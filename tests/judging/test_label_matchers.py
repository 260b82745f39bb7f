"""-l takes the operators of PromQL, and one that selects nothing is an error that names what there is."""

from __future__ import annotations

import pytest

from inferdoc.errors import InferdocError
from inferdoc.judging.request import matcher
from tests.cli.command import alone, call, refused
from tests.judging.made import Engine, recorded, stored

__all__ = ["alone"]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("pod=a", ("pod", "=", "a")),
        ("pod!=a", ("pod", "!=", "a")),
        ("pod=~a|b", ("pod", "=~", "a|b")),
        ("pod!~a=.*", ("pod", "!~", "a=.*")),
        ("pod=", ("pod", "=", "")),
    ],
)
def test_operators(text, parts):
    assert matcher(text) == parts


@pytest.mark.parametrize("text", ["pod", '{pod="a"}', "pod=~(", "1pod=a", "=a"])
def test_what_is_no_matcher_is_refused(text):
    with pytest.raises(InferdocError, match="-l"):
        matcher(text)


@pytest.mark.parametrize(
    ("label", "words"),
    [
        ("namespace=prod", "-l namespace=prod: no target has it; known here: llm"),
        ("namespace=~prod.*", "known here: llm"),
        ("nmespace=llm", "no series in the window has the label nmespace"),
    ],
)
def test_a_matcher_that_selects_nothing_is_refused(tmp_path, label, words):
    store = stored(recorded(Engine("chat-0"), Engine("chat-1")).text(), tmp_path)
    refused(call("diagnose", "--store", store, "--since", "5m", "--until", "latest", "-l", label), 2, words)


def test_an_expression_selects_series(tmp_path):
    store = stored(recorded(Engine("chat-0"), Engine("chat-1")).text(), tmp_path)
    done = call("diagnose", "--store", store, "--since", "5m", "--until", "latest", "-l", "pod=~chat-.*")
    assert done.code == 0, done


def test_a_time_after_all_samples_is_refused(tmp_path):
    store = stored(recorded(Engine("chat-0")).text(), tmp_path)
    refused(call("diagnose", "--store", store, "--around", "2099-01-01T00:00:00Z"), 2, "--around", "newest sample")

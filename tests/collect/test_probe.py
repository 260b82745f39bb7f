"""One request of one token against servers that answer, hang, refuse, or are not there."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from inferdoc.cli.sources import probe as command
from inferdoc.collect.probe import probe
from inferdoc.errors import InferdocError
from tests.openai_server import engine

__all__ = ["engine"]


def test_an_engine_that_generates_is_alive(engine):
    found = probe(engine.url + "/", 5, {"Authorization": "Bearer key"})
    assert found.outcome == "alive"
    assert engine.seen == [({"model": "llama", "prompt": "1", "max_tokens": 1, "temperature": 0}, "Bearer key")]


def test_an_engine_that_accepts_and_does_not_answer_is_hung(engine):
    engine.status = 0
    found = probe(engine.url, 0.3)
    assert (found.outcome, found.detail) == ("hung", "no response within 0.3 s")


def test_an_http_error_is_a_refusal_with_its_text(engine):
    engine.status = 503
    assert probe(engine.url, 5).detail == 'HTTP 503: {"error": "overloaded"}'


def test_a_late_token_is_slow(engine, monkeypatch):
    monkeypatch.setattr("inferdoc.collect.probe.SLOW_SECONDS", 0.0)
    assert probe(engine.url, 5).outcome == "slow"


def test_a_server_without_models_needs_a_name(engine):
    engine.models = []
    with pytest.raises(InferdocError, match="--model"):
        probe(engine.url, 5)
    assert probe(engine.url, 5, model="llama").outcome == "alive"


def test_exit_codes(engine):
    assert CliRunner().invoke(command, [engine.url], standalone_mode=False).return_value == 0
    url, engine.status = engine.url, 500
    run = CliRunner().invoke(command, [url], standalone_mode=False)
    assert run.return_value == 1 and run.output.startswith("REFUSED")


def test_a_port_that_nobody_listens_on_is_down(engine):
    engine.shutdown()
    engine.server_close()
    assert probe(engine.url, 5).outcome == "down"

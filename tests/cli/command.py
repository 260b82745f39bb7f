"""The command line, called in this process."""

from __future__ import annotations

import io
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pytest

from inferdoc.cli.main import run


@dataclass(frozen=True)
class Done:
    """What a command line left behind."""

    code: int
    out: str
    err: str


def call(*arguments: object) -> Done:
    """Run one command line as `inferdoc ARGUMENTS...` with its output in pipes."""
    out, err = io.BytesIO(), io.BytesIO()
    with redirect_stdout(_text(out)), redirect_stderr(_text(err)):
        code = run([str(a) for a in arguments])
        sys.stdout.flush()
    return Done(code, out.getvalue().decode("utf-8", "replace"), err.getvalue().decode())


def _text(raw: io.BytesIO) -> io.TextIOWrapper:
    stream = io.TextIOWrapper(raw, "utf-8", newline="", write_through=True)
    _OPEN.append(stream)
    return stream


_OPEN: list[io.TextIOWrapper] = []
"""Kept, since a stream that is collected closes what it writes to."""


def refused(done: Done, code: int, *words: str) -> None:
    """A refusal is one line on stderr that says these words, nothing on stdout, no traceback."""
    assert done.code == code, done
    assert done.out == ""
    assert done.err.count("\n") == 1 and done.err.startswith("inferdoc: "), done.err
    assert "Traceback" not in done.err and "fault in inferdoc itself" not in done.err
    for word in words:
        assert word in done.err, (word, done.err)


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No configuration of whoever runs the tests: an empty folder, empty user folders, no variables."""
    variables = ("PROMETHEUS_URL", "STORE", "BEARER_TOKEN_FILE", "BASELINES")
    for name in (*(f"INFERDOC_{variable}" for variable in variables), "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)

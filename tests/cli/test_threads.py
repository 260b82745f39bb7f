"""The arithmetic of a command has one thread, as small matrices want it."""

from __future__ import annotations

import os

import pytest

from inferdoc.cli.main import THREADS_OF_NUMPY, main


@pytest.mark.parametrize(("given", "reported"), [(None, "1"), ("4", "4")])
def test_numpy_has_one_thread_unless_somebody_prints_otherwise(monkeypatch, given, reported):
    monkeypatch.setenv(THREADS_OF_NUMPY, given or "")
    if given is None:
        monkeypatch.delenv(THREADS_OF_NUMPY)
    with pytest.raises(SystemExit):
        main(["--version"])
    assert os.environ[THREADS_OF_NUMPY] == reported

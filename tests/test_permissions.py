"""What inferdoc keeps of a fleet is for its owner alone, whatever the umask is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from inferdoc.collect.samples import Layout, Page, Series
from inferdoc.incidents.record import Record
from inferdoc.store import Store
from inferdoc.verify.model import appended
from tests.cli.command import alone, call

__all__ = ["alone"]


@pytest.fixture(autouse=True)
def usual_umask():
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(file: Path) -> int:
    return file.stat().st_mode & 0o777


def test_a_store_and_its_log_are_private(tmp_path):
    page = tmp_path / "fleet.om"
    page.write_text("# TYPE up gauge\nup 1 1700000000\n# EOF\n", "utf-8")
    with Store.open(tmp_path / "fleet.db", "w") as store:
        store.writer.append({"pod": "a"}, 1, _page())
        files = [file for file in tmp_path.iterdir() if file.name in ("fleet.db", "fleet.db-wal", "fleet.db-shm")]
        assert len(files) == 3 and {mode(file) for file in files} == {0o600}
    assert call("import", page, "--store", tmp_path / "other.db").code == 0
    assert mode(tmp_path / "other.db") == 0o600


def test_a_record_is_private(tmp_path):
    record = Record(tmp_path / "incidents.db", writing=True)
    assert {mode(file) for file in tmp_path.glob("incidents.db*") if not file.name.endswith("lock")} == {0o600}
    record.close()


def test_baselines_and_capsules_are_private(tmp_path, store_of):
    store, folder = store_of("control-steady"), tmp_path / "baselines"
    done = call("baseline", "save", "--store", store, "--since", "10m", "--until", "latest", "--file", folder / "b")
    assert done.code == 0, done.err
    capsule = tmp_path / "incident.capsule"
    done = call("capsule", "save", capsule, "--store", store, "--since", "10m", "--until", "latest")
    assert done.code == 0, done.err
    files = [*folder.rglob("*"), capsule]
    assert len(files) == 2 and {mode(file) for file in files} == {0o600}


def test_permissions_that_somebody_gave_stay(tmp_path):
    record = tmp_path / "incidents.db"
    Record(record, writing=True).close()
    record.chmod(0o640)
    Record(record, writing=True).close()
    assert mode(record) == 0o640


def _page() -> Page:
    return Page(Layout([Series("up", ())], {}), [1.0])


def test_a_ledger_is_private(tmp_path):
    for _ in range(2):
        appended(tmp_path / "ledger", {"any": "line"})
    assert mode(tmp_path / "ledger") == 0o600 and (tmp_path / "ledger").read_text("utf-8").count("\n") == 2

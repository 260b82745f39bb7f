"""`inferdoc import` and `inferdoc export` as commands."""

from __future__ import annotations

import gzip

from click.testing import CliRunner

from inferdoc.cli.main import cli
from inferdoc.collect import ParseError, collector
from inferdoc.store import Store, StoreError
from tests.store.pages import POD, held_by, layout_of, page_of
from tests.store.test_importer import text_of


def test_there_and_back(tmp_path):
    path, copy, text = tmp_path / "a.db", tmp_path / "b.db", tmp_path / "a.om.gz"
    text.write_bytes(gzip.compress(text_of().encode()))
    done = CliRunner().invoke(cli, ["import", "--lenient", str(text), "--store", str(path)], catch_exceptions=False)
    assert done.exit_code == 0 and done.stdout == ""
    assert done.stderr == f"{text}: 180 samples, 60 of 60 scrapes new\n"
    done = CliRunner().invoke(cli, ["export"], env={"INFERDOC_STORE": str(path)}, catch_exceptions=False)
    assert done.stderr == "180 samples\n" and done.stdout.endswith("# EOF\n")
    again = CliRunner().invoke(cli, ["import", "-", "--store", str(copy)], input=done.stdout, catch_exceptions=False)
    assert again.stderr == "-: 180 samples, 60 of 60 scrapes new\n"
    assert held_by(copy) == held_by(path)


def test_a_part(tmp_path):
    path = str(tmp_path / "a.db")
    CliRunner().invoke(cli, ["import", "--lenient", "-", "--store", path], input=text_of(), catch_exceptions=False)
    done = CliRunner().invoke(cli, ["export", "--store", path, "--since", "10s"], catch_exceptions=False)
    assert done.stderr == "33 samples\n"
    done = CliRunner().invoke(cli, ["export", "--store", path, "--from", "1700000050", "--until", "1700000054"])
    assert done.stderr == "15 samples\n"
    assert CliRunner().invoke(cli, ["export", "--store", path, "--since", "1h", "--from", "0"]).exit_code == 2


def test_what_was_dropped_is_told(tmp_path):
    text = text_of().replace("# EOF", "rubbish\n# EOF")
    done = CliRunner().invoke(
        cli, ["import", "--lenient", "-", "--store", str(tmp_path / "a.db")], input=text, catch_exceptions=False
    )
    assert done.exit_code == 0
    warning, summary = done.stderr.splitlines()
    assert warning.startswith("warning: standard input: line 184: ") and summary.startswith("-: 180 samples")
    failed = CliRunner().invoke(cli, ["import", "--lenient", "-", "--store", str(tmp_path / "a.db")], input="<html>")
    assert isinstance(failed.exception, StoreError)


def test_what_breaks_the_standard_is_refused_with_line_and_rule(tmp_path):
    store = tmp_path / "a.db"
    text = "# TYPE up gauge\nup 1 1700000000\nup 0 1700000002\nrubbish\n# EOF\n"
    failed = CliRunner().invoke(cli, ["import", "-", "--store", str(store)], input=text)
    assert isinstance(failed.exception, ParseError) and failed.exception.exit_code == 4
    assert str(failed.exception).startswith("standard input: line 4: no value; this is not OpenMetrics")
    assert "--lenient" in str(failed.exception) and held_by(store) == {}


class Nowhere:
    """No targets."""

    problems = ()

    def targets(self):
        return ()


def test_collecting_compacts(tmp_path):
    path = tmp_path / "a.db"
    with Store.open(path, "w") as store:
        for number in range(10):
            store.writer.append(POD, 1_700_000_000_000 + number, page_of(layout_of("a"), [number]))
    before = held_by(path)
    args = ["collect", "--once", "--target", "http://127.0.0.1:1", "--store", str(path), "--retention", "9000d"]
    CliRunner().invoke(cli, args)
    assert before.items() <= held_by(path).items()
    with Store.open(path) as store:
        counts = "SELECT (SELECT count(*) FROM page WHERE ts_ms < 1700003600000), (SELECT count(*) FROM stretch)"
        assert store.connection.execute(counts).fetchone() == (0, 1)


def test_upkeep_goes_on_while_there_is_more(monkeypatch):
    calls = []
    monkeypatch.setattr(collector, "_MAINTAIN_AGAIN_SECONDS", 0.001)
    collector.collect(Nowhere(), None, duration=0.3, maintain=lambda: calls.append(1) or len(calls) < 3)
    assert len(calls) == 3

"""`inferdoc collect` into a real store: once, for a while, and killed at any moment."""

from __future__ import annotations

import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks.reliability import kills
from inferdoc.cli import main
from inferdoc.cli.collect import command
from inferdoc.errors import ExitCode, SourceError
from inferdoc.store import Store, schema
from inferdoc.store.faults import StoreError
from inferdoc.store.lock import StoreFile

from .conftest import PageServer, respond

PAGES = Path(__file__).parents[2] / "fixtures" / "pages"
KILLS = 50

COLLECTOR = """
import os, sys
from inferdoc.collect.collector import collect
from inferdoc.collect.discovery import Discovery, make_target
from inferdoc.store import Store

class Acknowledging:
    def __init__(self, writer):
        self.writer = writer

    def append(self, labels, timestamp_ms, page):
        self.writer.append(labels, timestamp_ms, page)
        os.write(1, f"{labels['pod']} {timestamp_ms}\\n".encode())

url, path = sys.argv[1:]
targets = Discovery([make_target(f"{url}/{pod}", {"pod": pod}) for pod in ("a", "b", "c")])
for _ in sys.stdin:
    child = os.fork()
    if not child:
        with Store.open(path, "w") as store:
            collect(targets, Acknowledging(store.writer), interval=0.02)
    os.write(1, f"{child}\\n".encode())
    os.waitpid(child, 0)
    os.write(1, b"dead\\n")
"""


def test_killed_fifty_times_the_store_stays_readable_and_loses_at_most_the_scrape_in_flight(
    server: PageServer, tmp_path: Path
) -> None:
    body = (PAGES / "vllm-plain.txt").read_bytes()
    for pod in "abc":
        server.pages[f"/{pod}"] = respond(body)
    path = tmp_path / "fleet.db"
    chance = random.Random(7)
    acknowledged: set[tuple[str, int]] = set()
    arguments = [sys.executable, "-c", COLLECTOR, server.url, str(path)]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as nursery:
        assert nursery.stdin is not None
        assert nursery.stdout is not None
        for _ in range(KILLS):
            nursery.stdin.write("go\n")
            nursery.stdin.flush()
            child = 0
            while not child:
                child = note(nursery.stdout.readline(), acknowledged)
            threading.Timer(0.02 + chance.random() * 0.2, os.kill, (child, signal.SIGKILL)).start()
            while (line := nursery.stdout.readline()) != "dead\n":
                note(line, acknowledged)
            stored = scrapes_in(path)
            assert acknowledged <= stored
            assert len(stored) <= len(acknowledged) + KILLS
        nursery.stdin.close()
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert len(acknowledged) > KILLS


def note(line: str, acknowledged: set[tuple[str, int]]) -> int:
    """Keep an acknowledged scrape; returns the child's number if the line names that instead."""
    first, _, moment = line.strip().partition(" ")
    if moment:
        acknowledged.add((first, int(moment)))
        return 0
    return int(first)


def scrapes_in(path: Path) -> set[tuple[str, int]]:
    if not path.exists():
        return set()
    try:
        store = Store.open(path)
    except StoreError as error:
        assert "is empty" in str(error), "killed while it created the store"
        return set()
    with store:
        return {(block.target["pod"], moment) for block in store.blocks(0, 2**62) for moment in block.times_ms.tolist()}


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(command, list(arguments), catch_exceptions=False)
    return result.exit_code, result.output


def test_headers_are_written_as_for_every_command(server: PageServer, tmp_path: Path) -> None:
    server.pages["/metrics"] = respond(b"# TYPE a gauge\na 1\n")
    store = str(tmp_path / "fleet.db")
    given = ("--header", "X-Scope-OrgID: team-a", "--header", "X-When: 09:00")
    assert run("--target", f"{server.url},pod=p0", "--store", store, "--once", *given)[0] == 0
    _, headers = server.requests[-1]
    assert (headers["X-Scope-OrgID"], headers["X-When"]) == ("team-a", "09:00")


def test_once(server: PageServer, tmp_path: Path) -> None:
    server.pages["/metrics"] = respond(b"# TYPE a gauge\na 1\n")
    store = str(tmp_path / "fleet.db")
    code, output = run("--target", f"{server.url},pod=p0", "--target", "127.0.0.1:1", "--store", store, "--once")
    assert code == 0
    assert output == f"127.0.0.1:1: connection refused\n2 scrapes (1 failed), 7 samples stored in {store}\n"
    with Store.open(store) as opened:
        assert {target["instance"] for target in opened.targets()} == {server.url[7:], "127.0.0.1:1"}
        (block,) = opened.blocks(0, 2**62, {"up"}, lambda labels: labels.get("pod") == "p0")
        assert block.values.tolist() == [[1.0]]
        assert opened.types()["a"] == "gauge"


def test_a_reader_reads_while_the_collector_writes(server: PageServer, tmp_path: Path) -> None:
    server.pages["/metrics"] = respond((PAGES / "vllm-plain.txt").read_bytes())
    store = str(tmp_path / "fleet.db")
    sd = tmp_path / "targets.yaml"
    sd.write_text(f"- targets: ['{server.url[7:]}']\n  labels: {{pod: p0}}\n")
    arguments = ["--file-sd", str(sd), "--store", store, "--interval", "1s", "--duration", "3s"]
    code = f"from inferdoc.cli.collect import command; command({arguments!r})"
    with subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True) as collector:
        seen: set[int] = set()
        while collector.poll() is None:
            if Path(store).exists():
                seen.add(len(scrapes_in(Path(store))))
            time.sleep(0.05)
        assert collector.stderr is not None
        said = collector.stderr.read()
    assert collector.returncode == 0, said
    assert len(seen) >= 2
    assert "(0 failed)" in said


def test_what_cannot_be_collected(tmp_path: Path) -> None:
    store = str(tmp_path / "fleet.db")
    code, output = run("--store", store)
    assert code == 2
    assert "no targets; pass --target, --file-sd, --http-sd or --eplb-log" in output
    with pytest.raises(SourceError, match=r"none of 1 targets could be scraped: 127\.0\.0\.1:1: connection refused"):
        run("--store", store, "--target", "127.0.0.1:1", "--once")
    code, output = run("--store", store, "--target", "127.0.0.1:1", "--header", "X-Key=s3cret")
    assert code == 2
    assert "--header must be NAME: VALUE" in output and "s3cret" not in output


def test_an_empty_store_path_is_no_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    default = tmp_path / "default.db"
    monkeypatch.setenv("INFERDOC_STORE", str(default))
    for command_line in (
        ["collect", "--once", "--target", "127.0.0.1:1"],
        ["import", "-"],
        ["export"],
        ["store", "info"],
        ["store", "prune", "--older-than", "1d"],
        ["signals"],
    ):
        for empty in ("", " "):
            assert main.run([*command_line, "--store", empty]) == ExitCode.USAGE
            assert "--store must not be empty" in capsys.readouterr().err
    assert not default.exists()


def test_an_interval_below_a_second(server: PageServer, tmp_path: Path, capsys) -> None:
    server.pages["/metrics"] = respond(b"a 1\n")
    arguments = ["collect", "--target", server.url, "--store", str(tmp_path / "a.db"), "--duration", "1s"]
    assert main.run([*arguments, "--interval", "0.2s"]) == 0
    said = capsys.readouterr().err
    assert 4 <= int(said.split(" scrapes")[0].rsplit("\n")[-1]) <= 5
    assert main.run([*arguments, "--interval", "0s"]) == ExitCode.USAGE
    assert "the shortest is 0.1s" in capsys.readouterr().err


def test_what_could_not_be_stored_is_counted_and_fails_the_run(
    server: PageServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    """A file of few pages stands for a full disk: SQLite answers the same."""
    server.pages["/metrics"] = respond("".join(f"m{n} {n * 7.13}\n" for n in range(3000)).encode())
    path = tmp_path / "a.db"
    Store.open(path, "w").close()
    opened = schema.open_for_writing

    def small(place: StoreFile) -> sqlite3.Connection:
        connection = opened(place)
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages + 12}")
        return connection

    monkeypatch.setattr("inferdoc.store.store.open_for_writing", small)
    targets = [part for pod in "abcdef" for part in ("--target", f"{server.url},pod={pod}")]
    arguments = ["collect", *targets, "--store", str(path), "--interval", "0.2s", "--duration", "2s"]
    assert main.run(arguments) == ExitCode.SOURCE
    said = capsys.readouterr().err
    assert said.count("no space left for it") == 1, "told once"
    counts = re.search(r"(\d+) scrapes \((\d+) failed, (\d+) not stored\), (\d+) samples stored", said)
    assert counts is not None, said
    scrapes, _failed, not_stored, samples = map(int, counts.groups())
    with Store.open(path) as store:
        held = sum(len(block.times_ms) for block in store.blocks(0, 2**62))
        assert sum(store.sample_counts(0, 2**62).values()) == samples
    assert not_stored > 0 and held == scrapes - not_stored, "whatever a busy machine let fail"


def test_scrapes_of_a_clock_that_stands_still_are_counted(
    server: PageServer, tmp_path: Path, monkeypatch, capsys
) -> None:
    server.pages["/metrics"] = respond(b"a 1\n")
    path = tmp_path / "a.db"
    monkeypatch.setattr("inferdoc.collect.scrape.time.time_ns", lambda: 1_700_000_000 * 10**9)
    arguments = ["collect", "--target", server.url, "--store", str(path), "--interval", "0.2s", "--duration", "1s"]
    assert main.run(arguments) == 0
    said = capsys.readouterr().err
    counts = re.search(r"(\d+) scrapes \(0 failed, (\d+) at times that were stored before\), 4 samples stored", said)
    assert counts is not None and int(counts[1]) == int(counts[2]) + 1 > 2, said


def test_killed_at_any_moment_what_was_read_before_is_there_after(tmp_path: Path) -> None:
    seen, lost = kills(tmp_path, 4, seed=3, pods=2)
    assert seen >= 8 and lost == 0

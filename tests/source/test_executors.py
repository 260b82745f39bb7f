"""`--engine`: workers here, of Ray and of Dask give the answer of one process; what ends is begun again, or told."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner

from inferdoc import diagnose, open_source
from inferdoc.cli.main import cli
from inferdoc.errors import ConfigError, InferdocError, SourceError
from inferdoc.extras import DISTRIBUTION
from inferdoc.source.executors import ENGINES, LocalProcesses
from inferdoc.source.part import Part
from inferdoc.source.part_process import PartProcess
from inferdoc.source.part_reader import PartEndedError, PartOfStore, PartReader
from tests.conftest import RECORDINGS
from tests.merged_fleets import merged_store

FLEET = ("kv-preemption-thrash", "control-pd", "slow-replica")


@pytest.fixture(scope="module")
def fleet() -> Path:
    """Three recordings as the pools of one fleet; two are hurt."""
    return merged_store([RECORDINGS / f"{name}.om.gz" for name in FLEET])


@pytest.fixture(scope="module")
def alone(fleet):
    """What one process answers."""
    return answer_of(open_source(store=fleet, parallel=1))


def answer_of(source):
    with closing(source):
        answer = json.loads(diagnose(source, since="1h").to_json())
    del answer["timing"]
    assert len({finding["scope"]["namespace"] for finding in answer["findings"]}) == 2
    return answer


def having(source, change):
    """The source, with something done to each worker that it begins."""
    executor = source.raw._executor
    begin = executor.begin

    def changed(asked):
        worker = begin(asked)
        change(worker)
        return worker

    executor.begin = changed
    return source


class Deaths:
    """Kills so many workers, each while it evaluates. kill: called with the worker."""

    def __init__(self, count: int, kill) -> None:
        self.left, self._kill = count, kill

    def __call__(self, worker) -> None:
        worker.ask = partial(self._ask, worker, worker.ask)

    def _ask(self, worker, ask, method, *args):
        ask(method, *args)
        if method == "evaluate" and self.left:
            self.left -= 1
            self._kill(worker)


def kill_process(worker: PartProcess) -> None:
    os.kill(worker._process.pid, signal.SIGKILL)


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_local_processes_answer_as_one(workers, fleet, alone):
    assert answer_of(open_source(store=fleet, engine="local", workers=workers)) == alone


def test_a_killed_worker_is_begun_anew(fleet, alone):
    deaths = Deaths(1, kill_process)
    assert answer_of(having(open_source(store=fleet, engine="local", workers=3), deaths)) == alone
    assert deaths.left == 0


def test_where_workers_die_twice_one_process_reads_all_and_says_so(fleet, alone):
    deaths = Deaths(2, kill_process)
    answer = answer_of(having(open_source(store=fleet, engine="local", workers=2), deaths))
    (line,) = answer["source"].pop("warnings")
    assert line == "--engine local: the process ended by signal 9, twice; one process has read all targets instead"
    assert answer == {**alone, "source": answer["source"]} and deaths.left == 0


def test_how_many_have_answered_is_told(fleet):
    told = []
    with closing(open_source(store=fleet, engine="local", workers=3, progress=lambda *of: told.append(of))) as source:
        source.identify(source.latest_ms() - 60_000, source.latest_ms())
    assert (1, 2) in told and (2, 2) in told


def test_interrupted_no_process_is_left(fleet):
    source, begun = open_source(store=fleet, engine="local", workers=2), []
    having(source, lambda worker: begun.append(worker))
    having(source, Deaths(1, lambda worker: (_ for _ in ()).throw(KeyboardInterrupt)))
    with pytest.raises(KeyboardInterrupt), closing(source):
        diagnose(source, since="1h")
    assert begun and all(worker._process.returncode is not None for worker in begun)


def test_by_command(fleet):
    words = ["diagnose", "--store", str(fleet), "--since", "1h", "--until", "latest", "-o", "json"]
    one = CliRunner().invoke(cli, words, catch_exceptions=False)
    two = CliRunner().invoke(cli, [*words, "--engine", "local", "--workers", "2"], catch_exceptions=False)
    answers = [json.loads(done.stdout) for done in (one, two)]
    for answer in answers:
        del answer["timing"]
    assert answers[0] == answers[1] and answers[0]["findings"]


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"store": "x", "workers": 2}, "--workers and --address say where --engine"),
        ({"prometheus": "http://x", "engine": "local"}, "--engine local reads an embedded store"),
        ({"store": "", "engine": "local", "address": "x:1"}, "an address belongs to the engines ray and dask"),
        ({"store": "", "engine": "local", "workers": 0}, "0 workers: at least 1 is needed"),
        ({"store": "", "engine": "spark"}, "engine spark: one of local, ray, dask is expected"),
    ],
)
def test_what_cannot_be_is_one_line(asked, told, fleet):
    asked = {key: str(fleet) if value == "" else value for key, value in asked.items()}
    with pytest.raises(ConfigError, match=told):
        open_source(**asked)


@pytest.mark.parametrize(("engine", "package"), [("ray", "ray"), ("dask", "distributed")])
def test_without_the_package_it_is_one_line(engine, package, fleet, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(InferdocError, match=rf"--engine {engine} needs {package}; install it with: ") as raised:
        open_source(store=fleet, engine=engine)
    assert f"{DISTRIBUTION}[{engine}]" in str(raised.value)


def test_another_version_or_a_path_that_is_not_there_is_refused_by_the_worker(fleet):
    there = PartOfStore(str(fleet), str(fleet), Part(0.0, 1.0), 60.0, ())
    assert PartReader(there).call("target_count", ()).value > 3
    with pytest.raises(SourceError, match=r"inferdoc is .* there and 0.0.0 here; install the same on both"):
        PartReader(PartOfStore(str(fleet), str(fleet), Part(0.0, 1.0), 60.0, (), version="0.0.0"))
    worker = LocalProcesses(2).begin(PartOfStore("/nowhere/x.db", "x.db", Part(0.0, 1.0), 60.0, ()))
    with pytest.raises(PartEndedError, match="the process ended with code 1"):
        worker.ask("target_count")
        worker.answer()
    worker.close()


def needs(engine: str) -> None:
    package = {"ray": "ray", "dask": "distributed"}[engine]
    pytest.importorskip(package, reason=f"the extra `{engine}` is not installed")


def kill_actor(engine: str, source, worker) -> None:
    """End what an actor of a cluster runs in."""
    if engine == "ray":
        source.raw._executor._ray.kill(worker._actor)
        return
    pids = source.raw._executor._client.run(os.getpid)
    os.kill(pids[worker._actor._address], signal.SIGKILL)


@pytest.mark.parametrize("engine", [each for each in ENGINES if each != "local"])
def test_two_workers_of_a_cluster_answer_as_one_process_also_where_one_is_killed(engine, fleet, alone):
    needs(engine)
    assert answer_of(open_source(store=fleet, engine=engine, workers=2)) == alone
    source = open_source(store=fleet, engine=engine, workers=2)
    deaths = Deaths(1, lambda worker: kill_actor(engine, source, worker))
    assert answer_of(having(source, deaths)) == alone and deaths.left == 0


def test_a_dask_cluster_by_address(fleet, alone):
    needs("dask")
    import distributed

    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        assert answer_of(open_source(store=fleet, engine="dask", address=cluster.scheduler_address)) == alone


@pytest.mark.parametrize("engine", ["ray", "dask"])
def test_an_address_where_nobody_answers_is_one_line_at_once(engine, fleet):
    with pytest.raises(SourceError, match=r"cannot reach 127\.0\.0\.1:9: connection refused; check --address"):
        open_source(store=fleet, engine=engine, address="127.0.0.1:9")


def test_an_address_that_listens_and_says_nothing_is_one_line(fleet, monkeypatch):
    needs("dask")
    monkeypatch.setattr("inferdoc.source.cluster_actors.START_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(SourceError, match=r"did not answer as a Dask scheduler within 0\.2 s; check --address"):
            open_source(store=fleet, engine="dask", address=f"tcp://127.0.0.1:{port}")

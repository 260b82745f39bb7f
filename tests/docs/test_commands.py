"""Every `inferdoc` command that README, docs/ and runbooks/ show is run: it answers, and with a code of its contract.

The hosts of the pages stand for servers of the tests, their fleet for a simulated one; what would run until it is
stopped is cut short. tests/contract/test_printed_commands.py runs what alerts print.
"""

from __future__ import annotations

import io
import re
import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from inferdoc import diagnose, open_source
from inferdoc.incidents import runs
from inferdoc.incidents.record import Record
from inferdoc.incidents.runs import RunOutcome
from inferdoc.simulate.output import Live, write_file
from inferdoc.simulate.scenario_files import load_scenario
from inferdoc_dev.incidents.recording import record
from tests import prometheus_server
from tests.bench import made
from tests.cli.command import Done, alone, call
from tests.docs.shown import Shown, of_line, shown
from tests.generate.conftest import few_causes
from tests.incidents.alerts import NOW, alert, entered
from tests.simulated import Simulated

__all__ = ["alone"]

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/*.md"))]
PAGES += sorted(ROOT.glob("docs/measurements/*.md"))
RUNBOOKS = sorted((ROOT / "runbooks").glob("*.md"))
STEPS = {page.name for page in RUNBOOKS}
"""Pages whose steps name commands in a sentence; elsewhere a sentence may name one without its arguments."""
FLEET = "demo-two-tiers"
"""The fleet that the pages speak of: namespace llm, pods llama-prefill-0 and -1, llama-decode-0 to -2."""

NOT_RUN = {
    r"^init$": "searches for a Prometheus and writes inferdoc.toml: tests/cli/test_init.py",
    r"^serve": "serves until it is stopped: tests/serve",
    r"diagnose .*--watch": "looks until it is left: tests/watch/test_rounds.py",
    r"diagnose .*--kubernetes": "asks a cluster: tests/cluster/test_cluster.py",
    r"simulate .*--live": "serves until it is interrupted: tests/simulate/test_live.py",
    r"prewarm plan($| --prometheus)": "measures capacity over weeks: tests/prewarm/test_pools.py",
    r"alerts (backtest|backfill)": "evaluates hundreds of rules for minutes: tests/backtest",
    r"prewarm apply": "asks a cluster: tests/prewarm/test_apply.py",
    r"size --like": "measures pods that do both phases, and these do one: tests/sizing/test_like.py",
    r"kv (POOL|--store)": "names a pool of the reader's, or reads a fleet of one: tests/kv/test_command.py",
    r"whatif --(store|prometheus)": "plays for minutes: tests/whatif/test_command.py, test_pair.py",
    r"verify (slow-gpu|--list)": "needs a step and a ledger: tests/verify/test_command.py",
}
"""Commands of pages that are parsed only, and why."""

SLOW = ("simulator", "gitops", "one-box", "forecast")
"""Pages whose commands stand on other pages too, with other options, or have tests of their own in `tests`."""
LOOKS_AT_PAGES = ("diagnose", "doctor", "signals")
CODES = {
    "diagnose": (0, 1),
    "signals": (0, 1),
    "probe": (0, 1),
    "audit": (0, 1, 3),
    "baseline": (0, 1),
    "slo": (0, 1, 3),
    "cost": (0,),
    "headroom": (0, 3),
    "canary": (0, 1, 3),
    "diff": (0, 1),
}
"""The codes that are an answer; of all others 0 alone. A live page without a past may also be unknown, and an hour
is too short to suggest an objective or to see what a replica carries."""

FEW_CAUSES = "few-causes.toml"
MODEL = "meta-llama/Llama-3.1-8B-Instruct"
PLACEHOLDERS = {
    "$NS": "llm",
    "$POD": "llama-decode-1",
    "$MODEL": MODEL,
    "prod-llama-decode-h100": "llm-meta-llama-llama-3-1-8b-instruct-decode-a100-80",
    "chat-decode-h100": "load",
    "my-cause.yaml": str(ROOT / "diagnostics" / "slow-gpu.yaml"),
}
"""What a page leaves to the reader, and its value in the fleet."""
DATE = r"\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d)?Z"


@pytest.fixture(scope="module")
def fleet(simulated):
    return simulated.of(FLEET)


@pytest.fixture(scope="module")
def given(fleet, tmp_path_factory) -> Path:
    """The files that the pages take for granted."""
    folder = tmp_path_factory.mktemp("given")
    shutil.copy(fleet.store, folder / "fleet.db")
    today = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)  # a plan is not made of older data
    hours = (today - timedelta(hours=back) for back in range(28 * 24, 0, -1))
    days = (f"{hour:%Y-%m-%dT%H:%M:%SZ},{20000 + 40000 * (8 < hour.hour < 18)}" for hour in hours)
    shutil.copytree(ROOT / "alerts", folder / "alerts")
    shutil.copytree(ROOT / "alerts" / "generated", folder / "tested")  # as inferdoc_dev.rule_tests writes it
    shutil.copytree(ROOT / "alerts", folder / "my-catalogue" / "alerts")
    shutil.copytree(ROOT / "alerts", folder / "mine" / "alerts")
    (folder / "load.csv").write_text("\n".join(["timestamp,value", *days]) + "\n")
    (folder / FEW_CAUSES).write_text(few_causes())
    made.runs(folder, "vllm")
    made.runs(folder, "guidellm")
    made.written(folder, "profile_export_aiperf.json", made.aiperf(4.0))
    record_of(folder, "20261116-1040", "20261123-0912")
    receivers = "".join(f"  - name: {name}\n" for name in ("default", "oncall", "chat"))
    (folder / "alertmanager.yml").write_text(f"route:\n  receiver: default\nreceivers:\n{receivers}")
    (folder / "scaledobject.yaml").write_text(
        "apiVersion: keda.sh/v1alpha1\nkind: ScaledObject\nmetadata: {name: llama}\n"
        "spec: {scaleTargetRef: {name: llama}, minReplicaCount: 1, maxReplicaCount: 40, "
        "triggers: [{type: prometheus, metadata: {serverAddress: http://p, query: q, threshold: '5'}}]}\n"
    )
    (folder / "fleet.yaml").write_text(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: llama}\nspec: {template: {spec: {containers: "
        "[{name: engine, image: vllm/vllm-openai, args: [serve, llama-3.1-8b]}]}}}\n"
    )
    return folder


def record_of(folder: Path, *incidents: str) -> None:
    """An incident record with these incidents, and a capsule."""
    answer = diagnose(open_source(store=folder / "fleet.db"), since="20m")
    kept = Record(folder / "incidents.db", writing=True)
    for number, name in enumerate(incidents):
        at = NOW + number * 7 * 86_400
        entered(kept, alert(starts=at), now=at)
        run, incident = runs.begin(kept, at)
        runs.finish(kept, run, RunOutcome(answer), at, ())
        entered(kept, alert(starts=at, ends=at + 600), now=at + 600)
        run, incident = runs.begin(kept, at + 600)
        runs.finish(kept, run, RunOutcome(answer), at + 600, ())
        with kept.writing() as connection:
            connection.execute("PRAGMA defer_foreign_keys = ON")
            for table, column in (("incident", "id"), ("alert", "incident"), ("look", "incident")):
                connection.execute(f"UPDATE {table} SET {column} = ? WHERE {column} = ?", (name, incident.id))
    kept.close()


@pytest.fixture(scope="module")
def servers(fleet, tmp_path_factory) -> Iterator[dict[str, str]]:
    """Host of the pages -> address in the tests: an engine, and a Prometheus where its program is there."""
    hosts: dict[str, str] = {}
    with ExitStack() as running:
        live = Live(load_scenario("control-steady"), 0, 1.0)
        live.start()
        running.callback(live.stop)
        engine = f"http://127.0.0.1:{live.servers[0].server_address[1]}"
        hosts |= dict.fromkeys(("http://vllm:8000", "http://10.0.0.7:8000", "http://127.0.0.1:8000"), engine)
        if prometheus_server.available():
            folder = tmp_path_factory.mktemp("prometheus")
            write_file(record(fleet.scenario).targets, folder / "fleet.om.gz")
            address = running.enter_context(prometheus_server.running([folder / "fleet.om.gz"], folder))
            hosts |= dict.fromkeys(("http://prometheus:9090", "http://mimir/prometheus"), address)
        yield hosts


def runnable(one: Shown, servers: dict[str, str], onset: float) -> list[str]:
    """The words of a command with the hosts, places and times of the tests."""
    words = [PLACEHOLDERS.get(word, word) for word in one.words]
    for host, address in servers.items():
        words = [word.replace(host, address) for word in words]
    words = [word.replace("/var/lib/node_exporter/", "") for word in words]
    minutes = [f"{datetime.fromtimestamp(onset + s, UTC):%Y-%m-%dT%H:%M:%SZ}" for s in (-600, -120, 0)]
    words = [re.sub(rf"^{DATE}\.\.{DATE}$", f"{minutes[0]}..{minutes[1]}", word) for word in words]
    places = {"--from": minutes[0], "--until": minutes[1]}
    befores = ["", *words]
    words = [re.sub(rf"^{DATE}$", places.get(b, minutes[2]), w) for b, w in zip(befores, words, strict=False)]
    name, at_a_page = (
        one.name,
        any(word.startswith("http") and words[i] != "--prometheus" for i, word in enumerate(words[1:])),
    )
    if name == "collect":
        words = without(words, "--duration") + ["--once"] * ("--once" not in words)
    elif name in LOOKS_AT_PAGES and at_a_page:
        words = [*without(without(words, "--for"), "--interval"), "--for", "2s", "--interval", "0.5s"]
    elif name in ("diagnose", "audit", "cost") or "save" in words:
        words += ["--until", "latest"] * (not {"--until", "--around"} & set(words))
    elif name == "alerts" and "build" in words:
        words = ["--config", FEW_CAUSES, *words]
    elif name == "simulate" and "--scenario" in words:
        words = [*without(words, "--duration"), "--duration", "3m"]
    return words


def without(words: list[str], option: str) -> list[str]:
    """The words without an option and its value."""
    if option not in words:
        return words
    place = words.index(option)
    return words[:place] + words[place + 2 :]


def problem(one: Shown, given: Path, servers: dict[str, str], onset: float) -> str | None:
    """Run a command in the current folder: None where it answers, else what is wrong. What it cannot run is parsed."""
    parsed_only = any(re.search(pattern, " ".join(one.words)) for pattern in NOT_RUN)
    if parsed_only or (one.sentence and one.page not in STEPS):
        done = call(*one.words, "--help")
        return None if done.code == 0 else done.err
    writer = one.name in ("collect", "import", "simulate")
    for file in given.iterdir():
        for old in Path().glob(f"{file.name}-*"):  # what a store keeps beside itself
            old.unlink()
        if file.is_dir():
            shutil.copytree(file, file.name, dirs_exist_ok=True)
        elif not (writer and file.suffix == ".db"):
            Path(file.name).unlink(missing_ok=True)  # a reader may still have the one of the last command
            shutil.copy(file, file.name)
    words = runnable(one, servers, onset)
    with pytest.MonkeyPatch.context() as patch:
        if not {"--store", "--prometheus", "--input"} & set(words) and "http" not in " ".join(words):
            patch.setenv("INFERDOC_STORE", "fleet.db")
        if one.reads:
            patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(Path(one.reads).read_bytes())))
        done = call(*words)
    if one.writes:
        Path(one.writes).write_text(done.out, "utf-8")
    return wrong(one, done, words)


def wrong(one: Shown, done: Done, words: list[str]) -> str | None:
    allowed = CODES.get(one.name, (0,)) + (3,) * ("--for" in words)
    traceback = "Traceback" in done.err or "fault in inferdoc itself" in done.err
    if done.code in allowed and not traceback:
        return None
    return f"{one.page}: {one.text}\n  run as {words}\n  exit {done.code}: {done.err or done.out}"


def problems(commands: Iterable[Shown], given: Path, fleet: Simulated, servers: dict[str, str]) -> list[str]:
    """What is wrong with commands, one after the other in the current folder."""
    commands = list(dict.fromkeys(commands))
    if any("--prometheus" in one.words for one in commands) and "http://prometheus:9090" not in servers:
        pytest.skip(prometheus_server.MISSING)
    onset = fleet.scenario.start + fleet.scenario.expect.onset
    return [result for one in commands if (result := problem(one, given, servers, onset))]


@pytest.mark.takes_long("a page shows up to twenty commands")
@pytest.mark.parametrize(
    "page",
    [pytest.param(p, marks=pytest.mark.slow if p.stem in SLOW else ()) for p in PAGES],
    ids=lambda page: page.stem,
)
def test_every_command_of_a_page_answers(page, given, fleet, servers):
    assert problems(shown(page), given, fleet, servers) == []


def test_every_command_of_a_runbook_answers(given, fleet, servers):
    of_words = {" ".join(without([*one.words], "--since")): one for page in RUNBOOKS for one in shown(page)}
    assert len(of_words) > 10
    assert problems(of_words.values(), given, fleet, servers) == []


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("```sh\ninferdoc diagnose --store fleet.db --sinse 1h\n```", "--sinse"),
        ("```\n$ x\ninferdoc store info --store fleet.db && inferdoc doctr\n```", "doctr"),
        ("```sh\ninferdoc diagnose \\\n  --store none.db\n```", "none.db"),
        ("```sh\ninferdoc simulate --scenario control-steady --live --sped 2\n```", "--sped"),
        ("ask `inferdoc signals --healthy` first", "--healthy"),
    ],
)
def test_a_command_that_does_not_answer_is_seen(text, result, tmp_path, given, fleet, servers):
    page = tmp_path / "page.md"
    page.write_text(f"# A page\n\n{text}\n", "utf-8")
    (found,) = problems(shown(page), given, fleet, servers)
    assert result in found


def test_what_is_not_run_is_still_shown_somewhere():
    texts = [" ".join(one.words) for page in (*PAGES, *RUNBOOKS) for one in shown(page)]
    assert len(NOT_RUN) < 13
    assert [pattern for pattern in NOT_RUN if not any(re.search(pattern, text) for text in texts)] == []


def test_commands_are_read_as_a_shell_reads_them():
    line = "inferdoc import a.om --store b.db && inferdoc forecast --input - -o 'c d' < e > f  # not: inferdoc g"
    first, second = of_line("page", line)
    assert first.words == ("import", "a.om", "--store", "b.db")
    assert second.words == ("forecast", "--input", "-", "-o", "c d")
    assert (second.reads, second.writes) == ("e", "f")

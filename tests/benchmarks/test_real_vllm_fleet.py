"""The parts of the fleets of `make real-vllm` that need no vLLM: loads, routes, names, deeds, and who is hurt."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import cast

import pytest

from benchmarks.real_vllm.__main__ import rewritten
from benchmarks.real_vllm.fleet import record as recording
from benchmarks.real_vllm.fleet.deeds import DEEDS, Deed, Stage
from benchmarks.real_vllm.fleet.harm import Yardstick, summary
from benchmarks.real_vllm.fleet.incidents import CONTROLS, FAULTS, INCIDENTS
from benchmarks.real_vllm.fleet.live import FleetRun
from benchmarks.real_vllm.fleet.members import Members
from benchmarks.real_vllm.fleet.page import FLEET_HEADING, RECORDED_HEADING, fleet_page, recorded
from benchmarks.real_vllm.fleet.pods import Pod
from benchmarks.real_vllm.fleet.record import DROPPED
from benchmarks.real_vllm.fleet.starts import Starts
from benchmarks.real_vllm.fleet.traffic import HUNG_UP, Attempt, Clients, Load, Router
from inferdoc.catalogue.load import load_catalogue
from tests.vllm_flags import serve_flags

SERVER = """\
import http.server, sys
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
    def log_message(self, *words): pass
http.server.HTTPServer(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])), Page).serve_forever()
"""


class Plain:
    """Starts a small HTTP server where vLLM would be, in a group of its own."""

    def serve(self, arguments: list[str], environment: dict[str, str], log: Path) -> int:
        command = [sys.executable, "-c", SERVER, *arguments]
        return subprocess.Popen(command, start_new_session=True, stderr=subprocess.DEVNULL).pid


@pytest.fixture
def members(tmp_path: Path):
    # As in the nursery: nobody waits for the children, the kernel buries them.
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    starts = cast(Starts, Plain())
    group = Members("test", tmp_path, starts, tmp_path, tmp_path / "targets.json")
    yield group
    group.end()
    signal.signal(signal.SIGCHLD, before)


def pod(folder: Path, name: str, ready: bool = True) -> Pod:
    return Pod(name, "10.0.0.1", [], folder, cast(Starts, None), folder, ready=ready)


def test_incidents_name_what_exists() -> None:
    causes, flags = load_catalogue().recipes, serve_flags()
    assert len({incident.name for incident in INCIDENTS}) == len(INCIDENTS)
    assert len(FAULTS) >= 12 and len(CONTROLS) >= 4
    for incident in INCIDENTS:
        assert {*incident.expected, *incident.edge_accepts} <= {*causes, "unexplained-anomaly", "none"}
        assert {deed.do for deed in incident.deeds} <= set(DEEDS)
        assert all(0 <= number < incident.pods for deed in incident.deeds for number in deed.pods)
        asked = [*incident.flags, *(f for d in incident.deeds for f in d.values.get("flags", []))]
        assert {word for word in asked if word.startswith("--")} <= flags
        assert bool(incident.edge) == bool(incident.edge_accepts)


def is_innocent(deed: Deed) -> bool:
    """A rollout of the same release."""
    return deed.do == "rollout" and not deed.values


def test_a_fault_has_a_baseline_before_it_and_time_after_it() -> None:
    for incident in FAULTS:
        assert incident.onset is not None and incident.onset >= 150 and incident.end - incident.onset >= 120
        changes = [second for load in incident.loads for second, _ in load.rate if second > 0]
        changes += [deed.at for deed in incident.deeds if deed.at > 0 and not is_innocent(deed)]
        assert changes and min(changes) == incident.onset, f"{incident.name}: the onset is what is done first"
    assert all(incident.onset is None for incident in CONTROLS)


def test_rates_are_joined_by_straight_lines() -> None:
    load = Load(((0.0, 2.0), (10.0, 2.0), (20.0, 6.0)))
    assert [load.rate_at(second) for second in (-5.0, 0.0, 10.0, 15.0, 20.0, 99.0)] == [2.0, 2.0, 2.0, 4.0, 6.0, 6.0]


def test_the_router_knows_its_policies(tmp_path: Path) -> None:
    pods = [pod(tmp_path, name) for name in "abc"]
    router = Router("turn", "seed")
    assert Counter(router.pick(pods, None).name for _ in range(30)) == {"a": 10, "b": 10, "c": 10}  # type: ignore[union-attr]
    router.policy = "prefix"
    assert all(router.pick(pods, 4) is pods[1] for _ in range(5))
    router.policy = "hot"
    assert Counter(router.pick(pods, None).name for _ in range(300))["a"] > 200  # type: ignore[union-attr]
    router.policy, pods[1].in_flight = "least", -1
    assert router.pick(pods, None) is pods[1]
    pods[1].ready = False
    assert all(router.pick(pods, None) is not pods[1] for _ in range(20))
    assert router.pick([pod(tmp_path, "d", ready=False)], None) is None


def test_prompts_share_their_beginning_unless_something_stands_before_it() -> None:
    clients = Clients([], Router("turn", "seed"), "seed")
    shared = Load(((0.0, 1.0),), prompt=(10, 20), prefixes=1, prefix_tokens=50)
    (_, one), (_, other) = clients._prompt(shared), clients._prompt(shared)
    assert one[:50] == other[:50] and one[50:60] != other[50:60] and 60 <= len(one) <= 70
    _, third = clients._prompt(Load(((0.0, 1.0),), prompt=(10, 20), prefixes=1, prefix_tokens=50, unstable=True))
    assert third[8:58] == one[:50] and third[:8] != one[:8]


def test_a_client_that_hangs_up_tries_again_at_once(tmp_path: Path) -> None:
    """The server takes the connection and never answers."""

    async def main() -> list[Attempt]:
        async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()
            writer.close()

        server = await asyncio.start_server(silent, "127.0.0.1", 0)
        only = pod(tmp_path, "a")
        only.port = server.sockets[0].getsockname()[1]
        clients = Clients([only], Router("turn", "seed"), "seed")
        await clients._work(Load(((0.0, 1.0),), timeout=0.05, retries=2))
        assert only.in_flight == 0
        server.close()
        return clients.attempts

    attempts = asyncio.run(main())
    assert [attempt.status for attempt in attempts] == [HUNG_UP] * 3
    assert summary(attempts) == {"hung_up": 3}


def test_a_rollout_gives_new_names_and_leaves_the_targets_current(members: Members) -> None:
    router = Router("turn", "seed")

    async def main() -> tuple[list[str], list[str]]:
        await asyncio.gather(members.add([]), members.add([]))
        before = [p.name for p in members.pods]
        await DEEDS["rollout"](Stage(members, router, []), Deed(0.0, "rollout"))
        return before, [p.name for p in members.pods]

    before, after = asyncio.run(main())
    assert len(set(before) | set(after)) == 4 and members.all_names == [*before, *after]
    assert len({name.rsplit("-", 1)[0] for name in before}) == 1
    assert {name.rsplit("-", 1)[0] for name in before} != {name.rsplit("-", 1)[0] for name in after}
    listed = json.loads(members.targets.read_text("utf-8"))
    assert [entry["labels"]["pod"] for entry in listed] == after
    assert [entry["targets"] for entry in listed] == [[f"127.0.0.1:{p.port}"] for p in members.pods]
    assert all(p.runs() and p.ready for p in members.pods)


def test_a_killed_pod_stays_a_target_and_leaves_no_process(members: Members) -> None:
    async def main() -> None:
        await members.add([])
        await DEEDS["kill"](Stage(members, Router("turn", "s"), []), Deed(0.0, "kill", (0,)))

        limit = time.monotonic() + 10
        while members.pods[0].runs() and time.monotonic() < limit:
            await asyncio.sleep(0.01)

    asyncio.run(main())
    assert not members.pods[0].runs() and len(json.loads(members.targets.read_text("utf-8"))) == 1


def attempts(begin: float, end: float, first: float, status: int = 200) -> list[Attempt]:
    """One attempt a second of 11 tokens at 0.02 s each."""
    return [
        Attempt(second, second + first + 0.2, "a", status, first if status == 200 else None, 11)
        for second in map(float, range(int(begin), int(end)))
    ]


def test_clients_are_hurt_by_late_tokens_and_by_failures() -> None:
    before = attempts(0, 100, 0.1)
    yardstick = Yardstick(before)
    assert yardstick.share(before) == 0.0 and yardstick.since(before, 0, 100) is None
    assert yardstick.since([*before, *attempts(100, 160, 0.5)], 60, 160) == 100.0
    assert yardstick.since([*before, *attempts(100, 160, 0.1, status=0)], 60, 160) == 100.0
    assert yardstick.since([*before, *attempts(100, 110, 0.5), *attempts(110, 160, 0.1)], 60, 160) is None
    with pytest.raises(ValueError, match="no request was answered"):
        Yardstick(attempts(0, 10, 0.1, status=500))


@pytest.mark.parametrize(
    ("line", "gone"),
    [
        (b"# TYPE python_gc_objects_collected counter", True),
        (b'python_info{pod="a"} 1 2', True),
        (b'process_cpu_seconds_total{pod="a"} 1 2', True),
        (b'process_start_time_seconds{pod="a"} 1 2', False),
        (b'vllm:prompt_tokens_created{pod="a"} 1 2', True),
        (b"# TYPE vllm:prompt_tokens counter", False),
        (b'vllm:prompt_tokens_total{pod="a"} 1 2', False),
        (b'http_request_size_bytes_count{pod="a"} 1 2', True),
        (b'http_requests_total{pod="a"} 1 2', False),
        (b'up{pod="a"} 1 2', False),
        (b"# EOF", False),
    ],
)
def test_only_what_tells_no_cause_is_dropped(line: bytes, gone: bool) -> None:
    assert bool(DROPPED.match(line)) is gone


def played(name: str, *findings: dict[str, object]) -> FleetRun:
    """A run of an incident with these findings for the whole recording, silent before and a minute late."""
    incident = next(incident for incident in INCIDENTS if incident.name == name)
    entry = {
        "affected_pods": ["a"],
        "clients": {"before": {"ttft_p50": 0.1}, "after": {}, "hurt_before": 0.01, "hurt_after": 0.5},
    }
    quiet: dict[str, object] = {"verdict": "healthy", "findings": []}
    whole = {"verdict": "degraded" if findings else "healthy", "findings": list(findings)}
    return FleetRun(incident, entry, quiet, whole, quiet)


def said(cause: str, *pods: str) -> dict[str, object]:
    return {"id": cause, "certainty": "likely", "scope": {"pods": list(pods)}}


def test_a_run_is_right_by_cause_and_pods() -> None:
    assert played("slow-replica", said("slow-gpu", "a")).right
    assert not played("slow-replica", said("slow-gpu", "b")).right
    assert not played("slow-replica", said("engine-hung", "a")).right
    assert not played("slow-replica").right
    assert played("control-steady").right and not played("control-steady", said("slow-gpu", "a")).right


def test_the_page_keeps_the_part_that_was_not_run() -> None:
    entry = {
        "file": "x.om.gz",
        "control": False,
        "done": "something",
        "expected": ["slow-gpu"],
        "edge_accepts": [],
        "cpu_wait_before": 0.05,
        "clients": {"before": {"ttft_p50": 0.1}, "after": {"failed": 3}, "hurt_before": 0.0, "hurt_after": 1.0},
    }
    fleet = fleet_page([played("slow-replica", said("slow-gpu", "a")), played("engine-killed")], "here")
    assert "1 of 2 right" in fleet and fleet.count("| WRONG |") == 1
    table = recorded([entry])
    assert "| x | something | `slow-gpu` | 0% → 100% | 0.10 → no answer | 5% |" in table
    whole = rewritten("# Server\n", {"fleet": fleet, "recorded": table})
    assert [line for line in whole.splitlines() if line.startswith("#")] == [
        "# Server",
        FLEET_HEADING.strip(),
        RECORDED_HEADING.strip(),
    ]
    assert rewritten(whole, {"server": "# Other\n", "recorded": table}) == whole.replace("# Server", "# Other")
    short = rewritten(whole, {"fleet": FLEET_HEADING + "short\n", "recorded": table})
    assert short == f"# Server\n\n{FLEET_HEADING}short\n\n{table}"


def test_no_server_is_left_when_a_run_is_cancelled_twice(members: Members, monkeypatch: pytest.MonkeyPatch) -> None:
    """As asyncio.run does it: the second cancellation comes while the first is being dealt with."""
    monkeypatch.setattr(recording, "Members", lambda *others: members)
    incident = dataclasses.replace(CONTROLS[0], pods=2, deeds=())
    places = recording.Places(members.starts, members.model, members.folder)

    async def main() -> None:
        task = asyncio.create_task(recording.record(incident, places))
        while len(members.pods) < 2 or not all(p.ready for p in members.pods):
            await asyncio.sleep(0.02)
        await asyncio.sleep(0.2)
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(main())
    assert len(members.pods) == 2 and not any(p.runs() for p in members.pods)

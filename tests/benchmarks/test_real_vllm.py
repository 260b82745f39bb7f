"""The parts of `make real-vllm` that need no vLLM: nothing is left running, loads are exact, verdicts are checked."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.real_vllm.load import Clients, Stream
from benchmarks.real_vllm.page import page
from benchmarks.real_vllm.play import Run, Seen, preempted
from benchmarks.real_vllm.scenarios import CHAT, SCENARIOS, expected
from benchmarks.real_vllm.server import counters, serving
from tests.vllm_flags import serve_flags

FAKE = """\
#!{python}
# Stands in for vllm: a child that ignores SIGTERM, as an engine in a long step does, and an API that answers.
import http.server, os, signal, subprocess, sys
child = subprocess.Popen([sys.executable, "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(600)"],
    stdout=subprocess.PIPE)
child.stdout.readline()
open({pids!r}, "w").write(f"{{os.getpid()}} {{child.pid}}")
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'# TYPE a counter\\na_total{{engine="0"}} 1.5\\na_total{{engine="1"}} 2\\nb 3\\n')
    def log_message(self, *words): pass
http.server.HTTPServer(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])), Page).serve_forever()
"""


def script(path: Path, text: str) -> Path:
    path.write_text(text, "utf-8")
    path.chmod(0o755)
    return path


def running(pid: int) -> bool:
    """Whether a process runs; one that only waits for its parent to take note does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="reads /proc")
@pytest.mark.parametrize("end", [None, KeyboardInterrupt, RuntimeError])
def test_no_process_is_left_however_the_run_ends(tmp_path: Path, end: type[BaseException] | None) -> None:
    pids = tmp_path / "pids"
    fake = script(tmp_path / "vllm", FAKE.format(python=sys.executable, pids=str(pids)))
    seen: list[int] = []

    def body() -> None:
        with serving(fake, tmp_path, [], tmp_path / "log") as url:
            assert counters(url) == {"a_total": 3.5, "b": 3.0}
            seen.extend(int(word) for word in pids.read_text().split())
            assert all(running(pid) for pid in seen)
            if end is not None:
                raise end

    if end is None:
        body()
    else:
        with pytest.raises(end):
            body()
    assert len(seen) == 2 and not any(running(pid) for pid in seen)


def test_a_server_that_does_not_start_says_why(tmp_path: Path) -> None:
    fake = script(tmp_path / "vllm", "#!/bin/sh\necho 'ValueError: too few blocks' >&2\nexit 3\n")
    with (
        pytest.raises(SystemExit, match="ended with 3: ValueError: too few blocks"),
        serving(fake, tmp_path, [], tmp_path / "log"),
    ):
        pass


def served(handle: Callable[[dict[str, object]], bytes], drive: Callable[[str], object]) -> list[dict[str, object]]:
    """Run a coroutine function against a server of one answer per connection. Returns the bodies it was sent."""
    bodies: list[dict[str, object]] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = next(int(line.split(":")[1]) for line in head.splitlines() if line.startswith("Content-Length"))
        bodies.append(json.loads(await reader.readexactly(length)))
        writer.write(handle(bodies[-1]))
        await writer.drain()
        writer.close()

    async def main() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with server:
            await drive(f"http://127.0.0.1:{port}")  # type: ignore[misc]

    asyncio.run(main())
    return bodies


def streamed(body: dict[str, object]) -> bytes:
    events = b"".join(b'data: {"choices": []}\n\n' for _ in range(int(str(body["max_tokens"]))))
    return b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + events + b"data: [DONE]\n\n"


def test_requests_have_exact_lengths_and_every_token_is_counted() -> None:
    stream = Stream(prompt=(30, 40), output=(5, 9), repeat=4, temperature=1.0)
    made: list[Clients] = []

    async def drive(url: str) -> None:
        made.append(Clients(url, vocabulary=100))
        for _ in range(8):
            await made[0].request(stream)

    bodies = served(streamed, drive)
    assert len(bodies) == 8 and made[0].failed == 0
    for body, (_, tokens) in zip(bodies, made[0].ended, strict=True):
        prompt = body["prompt"]
        assert isinstance(prompt, list) and 30 <= len(prompt) <= 40
        assert prompt[:4] == prompt[4:8] and all(3 <= token < 100 for token in prompt)
        assert body["max_tokens"] == tokens and 5 <= tokens <= 9
        assert body["ignore_eos"] is True and body["temperature"] == 1.0


def test_arrivals_of_an_open_loop_follow_the_rate_and_not_the_answers() -> None:
    """Poisson with a fixed seed: the number of arrivals is that of the schedule even where the server lags behind."""
    made: list[Clients] = []

    async def drive(url: str) -> None:
        made.append(Clients(url, vocabulary=100, seed=3))
        await made[0].open_loop(CHAT, rate=100.0, seconds=0.5)
        while made[0]._open:
            await asyncio.sleep(0.01)

    bodies = served(streamed, drive)
    assert 35 <= len(bodies) <= 65 and len(made[0].ended) == len(bodies)


def test_a_refusal_is_counted_and_is_no_answer() -> None:
    made: list[Clients] = []

    async def drive(url: str) -> None:
        made.append(Clients(url, vocabulary=100))
        await made[0].request(CHAT)

    served(lambda body: b"HTTP/1.1 503 Service Unavailable\r\n\r\n", drive)
    assert made[0].failed == 1 and not made[0].ended


def test_the_clients_that_join_need_more_than_the_cache() -> None:
    pressure = next(s for s in SCENARIOS if s.more is not None)
    assert pressure.more is not None
    live = sum(pressure.more.prompt) / 2 + sum(pressure.more.output) / 4
    assert 1.4 * pressure.cache_tokens < pressure.clients * live < 1.8 * pressure.cache_tokens
    assert pressure.clients < pressure.seqs, "the KV cache must be the limit, not the number of places"


def test_usual_loads_leave_room_and_the_overload_does_not() -> None:
    assert all(s.share <= 0.5 for s in SCENARIOS)
    assert [s.name for s in SCENARIOS if s.then_share > 1.5] == ["overload"]


def test_the_mechanism_decides_what_pressure_on_the_cache_must_be_called() -> None:
    pressure = next(s for s in SCENARIOS if len(s.causes) > 1)
    assert expected(pressure, 0.1) == "kv-preemption-thrash" and expected(pressure, 0.0) == "kv-capacity-bound"


def test_preemptions_count_from_the_moment_at_which_the_cache_is_full() -> None:
    filling = [Seen(0.0, 0.2, 5, 0), Seen(10.0, 0.5, 10, 0)]
    full = [Seen(20.0, 0.95, 20, 1), Seen(30.0, 0.7, 20, 11), Seen(40.0, 1.0, 20, 41)]
    assert preempted([*filling, *full]) == pytest.approx(40 / 20 / 20)
    assert preempted(filling) == 0.0


def test_flags_exist_in_vllm() -> None:
    known = serve_flags()
    for scenario in SCENARIOS:
        assert {word for word in scenario.flags if word.startswith("--")} <= known


def ran(verdict: str, *found: tuple[str, float]) -> Run:
    """A run whose fault struck at 1000 s. found: ids and seconds of their onsets."""
    stamps = [f"1970-01-01T00:{int(second) // 60:02}:{int(second) % 60:02}Z" for _, second in found]
    findings = [
        {"id": cause, "certainty": "proven", "onset": stamp} for (cause, _), stamp in zip(found, stamps, strict=True)
    ]
    before = {
        "verdict": verdict,
        "findings": [] if verdict == "healthy" else findings,
        "exit": int(verdict != "healthy"),
    }
    after = {"verdict": "critical" if found else "healthy", "findings": findings}
    return Run(SCENARIOS[0], 4.0, 0.0, "demand-beyond-capacity", 1000.0, before, after, 300.0)


def test_wrong_is_another_cause_or_a_word_before_the_fault() -> None:
    right = ran("healthy", ("demand-beyond-capacity", 1004))
    assert right.silent and right.named
    assert not ran("degraded", ("demand-beyond-capacity", 1004)).silent
    assert not ran("unknown").silent
    assert not ran("healthy").named
    assert not ran("healthy", ("slow-gpu", 1004), ("demand-beyond-capacity", 1004)).named


def test_the_page_shows_what_was_wrong() -> None:
    text = page([ran("healthy", ("demand-beyond-capacity", 1004)), ran("healthy", ("slow-gpu", 1004))], "here", 600.0)
    assert "3 of 4 answers right" in text and text.count("| WRONG |") == 1 and text.count("| right |") == 3
    assert "| +4 |" in text


def test_a_far_onset_is_told() -> None:
    assert "onset lies -100 s off" in page([ran("healthy", ("demand-beyond-capacity", 900))], "here", 300.0)
    assert "its onset lies" not in page([ran("healthy", ("demand-beyond-capacity", 1004))], "here", 300.0)

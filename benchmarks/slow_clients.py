"""Whether `inferdoc serve` answers /healthz, /readyz and a webhook beside thousands of connections of slow clients.

    python benchmarks/slow_clients.py [--connections 5000] [--hosts 1] [--only KIND]...

The service is the command itself, in a process of its own, without a token. A client opens connections as fast as it
can; with --hosts they come from so many addresses of the loopback network. Each connection stops at one point of a
request. Meanwhile the three routes are asked in turn, each by a new connection, at least sixty times.
"""

from __future__ import annotations

import argparse
import selectors
import socket
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import requests
from measured import measured_line

from inferdoc.store import Store
from tests.serve.running import Hook, firing, webhook
from tests.serve.test_process import serving

WHOLE = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
BODY = (
    b"POST /alertmanager HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 999\r\n\r\n{"
)
KINDS = {
    "sends nothing": b"",
    "begins a head": WHOLE[:-2],
    "begins a body": BODY,
    "one byte of a second request": WHOLE + b"G",
    "reads no response": WHOLE * 300,
}
LIMIT, LEAST = 10.0, 60
"""Seconds for a response: the timeout of a probe of Kubernetes is set by the user, often so long."""


@dataclass
class Asked:
    """What was asked meanwhile. slowest: seconds; failed: what came instead of a response of 200."""

    tries: int = 0
    slowest: float = 0.0
    failed: list[str] = field(default_factory=list)


def ask(address: str, ending: threading.Event, asked: Asked) -> None:
    """Ask the three routes in turn until the end."""
    while not ending.is_set():
        for route in ("/healthz", "/readyz", "/alertmanager"):
            began = time.monotonic()
            try:
                if route == "/alertmanager":
                    alert = webhook(firing(model_name=f"m{asked.tries % 5}"))
                    answer = requests.post(address + route, json=alert, timeout=LIMIT)
                else:
                    answer = requests.get(address + route, timeout=LIMIT)
                if answer.status_code != 200:
                    asked.failed.append(f"{route}: {answer.status_code}")
            except requests.RequestException as error:
                asked.failed.append(f"{route}: {type(error).__name__}")
            asked.tries += 1
            asked.slowest = max(asked.slowest, time.monotonic() - began)
        ending.wait(0.05)


def attack(port: int, begin: bytes, connections: int, hosts: int) -> selectors.BaseSelector:
    """Open so many connections. Those that the service has not closed."""
    chosen = selectors.DefaultSelector()
    for number in range(connections):
        with suppress(OSError):
            raw = socket.create_connection(("127.0.0.1", port), LIMIT, (f"127.0.0.{2 + number % hosts}", 0))
            raw.setblocking(False)
            chosen.register(raw, selectors.EVENT_READ)
            with suppress(OSError):
                raw.send(begin)
        for key, _ in chosen.select(0) if number % 64 == 0 else ():
            connection = key.fileobj
            assert isinstance(connection, socket.socket)
            with suppress(BlockingIOError, ConnectionResetError):
                if begin == KINDS["reads no response"] or connection.recv(65_536):
                    continue
            chosen.unregister(connection)
            connection.close()
    return chosen


def close(opened: selectors.BaseSelector) -> None:
    """Close the connections."""
    for key in list(opened.get_map().values()):
        connection = key.fileobj
        assert isinstance(connection, socket.socket)
        connection.close()


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--connections", type=int, default=5000)
    parser.add_argument("--hosts", type=int, default=1, help="addresses that the connections come from, at most 250")
    parser.add_argument("--only", choices=KINDS, action="append")
    wanted = parser.parse_args()
    print(
        "| each connection | connections | requests meanwhile | failed | slowest |\n| --- | ---: | ---: | ---: | ---: |"
    )
    for kind in wanted.only or KINDS:
        with tempfile.TemporaryDirectory() as name:
            folder, hook = Path(name), Hook()
            Store.open(folder / "fleet.db", "w").close()
            with serving(folder, folder / "fleet.db", hook) as (_, address):
                ending, asked = threading.Event(), Asked()
                asking = threading.Thread(target=ask, args=(address, ending, asked))
                asking.start()
                opened = attack(int(address.rpartition(":")[2]), KINDS[kind], wanted.connections, wanted.hosts)
                while asked.tries < LEAST:
                    time.sleep(0.1)
                ending.set()
                close(opened)
                asking.join()
            hook.stop()
        failed = len(asked.failed)
        print(
            f"| {kind} | {wanted.connections:,} | {asked.tries} | {failed} | {1000 * asked.slowest:.0f} ms |",
            flush=True,
        )
        if asked.failed:
            print(f"{kind}: {asked.failed[:5]}", file=sys.stderr)
    print(f"\n{measured_line()}")


if __name__ == "__main__":
    main()

"""What a store does under damage: one flipped byte at a time, and a collector that is killed.

    python benchmarks/reliability.py [--flips 1000] [--truncations 300] [--kills 100] [--seed 1]

A flip: a store with pages, column chunks, churning layouts and late scrapes gets one byte replaced and is read whole.
`same`: every sample and type as before; `named`: a one-line error; `wrong`: anything else, which must not happen. Then
it is read as a diagnosis reads it: `left out`: some samples are not there, each of them in a scrape that is named as
damaged, and every other one is as before.

A truncation: the same store is cut off at a random length, as a copy that broke off.

A kill: the command line collects every 0.2 s from a page server; another process reads what is stored; the collector
gets SIGKILL at a random moment. What was readable before the kill must be there after it, with the same values.
"""

from __future__ import annotations

import argparse
import itertools
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from http.server import ThreadingHTTPServer
from pathlib import Path
from unittest.mock import patch

import numpy as np

from benchmarks.measured import measured_line
from benchmarks.process_cost import INFERDOC
from inferdoc.collect.samples import Layout, Page, Series
from inferdoc.store import Block, Store, StoreError, absent, compact
from inferdoc.store.damage import Damage, DamageLog
from tests.page_server import answering

HOUR_MS = 3_600_000
START_MS = 1_700_000_400_000 // HOUR_MS * HOUR_MS
TYPES = {"up": "gauge", "tokens": "counter", "latency": "histogram", "lora": "info"}

Samples = dict[tuple[str, tuple[tuple[str, str], ...], int], int]
"""Series with all its labels and the time in milliseconds -> bits of the value."""


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flips", type=int, default=1000)
    parser.add_argument("--truncations", type=int, default=300)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print("| damage | read | same | named | left out | of the samples | wrong |\n|---|---|---|---|---|---|---|")
        cases = [("one byte", flipped, asked.flips), ("cut off", truncated, asked.truncations)]
        for (what, damage, count), read in itertools.product(cases, (content, intact_content)):
            outcomes, share = damaged_stores(Path(folder), count, asked.seed, damage, read)
            cells = [what, read.__doc__ or "", *(str(outcomes[name]) for name in ("same", "named", "left out"))]
            cells += [f"{share:.1%}", str(outcomes["wrong"])]
            print(f"| {' | '.join(cells)} |")
        print()
        seen, lost = kills(Path(folder), asked.kills, asked.seed)
        print("| kills | scrapes seen before a kill | lost after it |\n|---|---|---|")
        print(f"| {asked.kills} | {seen} | {lost} |\n\n{measured_line()}")


Content = tuple[Samples, dict[str, str], int | None, int | None, list[Damage]]
"""Samples, types, first and latest time, and what was left out as damaged."""


def flipped(whole: bytes, chance: random.Random) -> bytes:
    """One byte is another."""
    place, change = chance.randrange(len(whole)), chance.randrange(1, 256)
    damaged = bytearray(whole)
    damaged[place] ^= change
    return bytes(damaged)


def truncated(whole: bytes, chance: random.Random) -> bytes:
    """The end is missing."""
    return whole[: chance.randrange(len(whole))]


def damaged_stores(
    folder: Path,
    count: int,
    seed: int,
    damage: Callable[[bytes, random.Random], bytes],
    read: Callable[[Path], Content],
) -> tuple[Counter[str], float]:
    """How many damaged stores read the same, were named as damaged, were read in part, or read wrong; and which share
    of the samples those read in part lack, on average."""
    path = folder / "fleet.db"
    fill(path)
    whole, expected = path.read_bytes(), read(path)
    chance = random.Random(seed)
    outcomes: Counter[str] = Counter()
    lacking = []
    for number in range(count):
        path.write_bytes(damage(whole, chance))
        for left in folder.glob(f"{path.name}-*"):
            left.unlink()
        try:
            found = read(path)
            outcome = "same" if found == expected else "left out" if is_part(found, expected) else "wrong"
            if outcome == "left out":
                lacking.append(1 - len(found[0]) / len(expected[0]))
        except StoreError:
            outcome = "named"
        if outcome == "wrong":
            print(f"wrong: {damage.__name__}, seed {seed}, number {number}", file=sys.stderr)
        outcomes[outcome] += 1
    path.unlink()
    return outcomes, float(np.mean(lacking)) if lacking else 0.0


def is_part(found: Content, expected: Content) -> bool:
    """Whether what was read is right as far as it goes, and what is not there is named."""
    (samples, types, first, latest, damages), (every, all_types, oldest, newest, _) = found, expected
    times = {time_ms for _, _, time_ms in samples}
    if not damages or types != all_types or not samples.items() <= every.items():
        return False
    if first not in (oldest, min(times)) or latest not in (newest, max(times)):
        return False
    missing = every.keys() - samples.keys()
    gone = Counter(pod for pod, _ in {(dict(labels)["pod"], time_ms) for _, labels, time_ms in missing})
    return all(count <= named_scrapes(pod, damages) for pod, count in gone.items())


def named_scrapes(pod: str, damages: list[Damage]) -> float:
    """How many scrapes of a pod are named as damaged. Where labels are damaged nobody can tell whose."""
    own = [each for each in damages if each.target == pod or each.span_ms is None]
    return sum(np.inf if each.scrapes is None else each.scrapes for each in own)


def fill(path: Path) -> None:
    """A store of two hours in chunks and some minutes in pages: four pods, adapters that come and go, late scrapes."""
    chance = np.random.default_rng(3)
    late = []
    with Store.open(path, "w") as store:
        for scrape in range(300):
            if scrape == 250:
                compact(store, START_MS + 2 * HOUR_MS)
            with store.writer.round() as writer:
                for pod in range(4):
                    series = [Series("up", ()), Series("tokens_total", (("engine", str(pod)),))]
                    series += [Series("latency_bucket", (("le", str(bound)),)) for bound in range(12)]
                    series += [Series("lora_info", (("adapter", f"a{scrape // 9 + each}"),)) for each in range(pod)]
                    values = np.cumsum(chance.random(len(series)) * scrape)
                    values[2:14] = np.floor(values[2:14])
                    labels = {"job": "vllm", "instance": f"10.0.0.{pod}:8000", "pod": f"vllm-{pod}"}
                    row = (labels, START_MS + scrape * 30_000 + pod, Page(Layout(series, TYPES), values))
                    if scrape % 50 == 49:
                        late.append(row)
                    else:
                        writer.append(*row)
        with store.writer.round() as writer:
            for row in late:
                writer.append(*row)


def content(path: Path) -> Content:
    """whole or not at all"""
    with Store.open(path) as store:
        first, latest = store.first_ms(), store.latest_ms()
        blocks = store.blocks(START_MS - HOUR_MS, START_MS + 10 * HOUR_MS)
        return samples_of(blocks), store.types(), first, latest, []


def intact_content(path: Path) -> Content:
    """as a diagnosis reads"""
    with Store.open(path) as store:
        store.damages = log = DamageLog()
        first, latest = store.first_ms(), store.latest_ms()
        blocks = store.blocks(START_MS - HOUR_MS, START_MS + 10 * HOUR_MS)
        return samples_of(blocks), store.types(), first, latest, list(log.found.values())


def samples_of(blocks: list[Block]) -> Samples:
    """Every sample of some blocks."""
    held: Samples = {}
    for block in blocks:
        missing, bits = absent(block.values), np.asarray(block.values).view(np.uint64)
        for column, (name, labels) in enumerate(zip(block.names, block.labels, strict=True)):
            every = tuple(sorted({**block.target, **labels}.items()))
            there = ~missing[:, column]
            times, values = np.asarray(block.times_ms)[there].tolist(), bits[there, column].tolist()
            held.update(((name, every, time_ms), value) for time_ms, value in zip(times, values, strict=True))
    return held


def kills(folder: Path, count: int, seed: int, pods: int = 5) -> tuple[int, int]:
    """Kill `inferdoc collect --interval 0.2s` so often. Returns the scrapes that were read before some kill, and how
    many of them were gone or other after it."""
    path = folder / "killed.db"
    chance = random.Random(seed)
    numbers = itertools.count(1)

    def page(_: str) -> str:
        number = next(numbers)
        return "".join(f'm{each}{{engine="0"}} {number * each}\n' for each in range(200))

    seen: dict[tuple[str, int], bytes] = {}
    lost = 0
    # A collector that was killed hangs up, which is no error of the server.
    with answering(page) as address, patch.object(ThreadingHTTPServer, "handle_error", lambda *_: None):
        command = [*INFERDOC, "collect", "--interval", "0.2s", "--store", str(path)]
        command += [part for pod in range(pods) for part in ("--target", f"{address}/metrics,pod=p{pod}")]
        for _ in range(count):
            before = len(seen)
            with subprocess.Popen(command, stderr=subprocess.DEVNULL) as collector:
                end = time.monotonic() + 30
                while len(seen) < before + pods and time.monotonic() < end:
                    seen |= stored(path)
                end = time.monotonic() + chance.random() * 0.4
                while time.monotonic() < end:
                    seen |= stored(path)
                collector.send_signal(signal.SIGKILL)
            after = stored(path)
            lost += sum(after.get(scrape) != values for scrape, values in seen.items())
    return len(seen), lost


def stored(path: Path) -> dict[tuple[str, int], bytes]:
    """The scrapes in a store: pod and time -> the bytes of its values."""
    if not path.exists():
        return {}
    try:
        with Store.open(path) as store:
            blocks = store.blocks(0, 2**62)
    except StoreError as error:
        if "not an inferdoc store" in str(error):  # it is just being created
            return {}
        raise
    found = {}
    for block in blocks:
        for row, ts_ms in enumerate(block.times_ms.tolist()):
            there = ~absent(block.values[row])
            names = [name for name, kept in zip(block.names, there.tolist(), strict=True) if kept]
            found[block.target["pod"], ts_ms] = repr((names, block.values[row][there].tolist())).encode()
    return found


if __name__ == "__main__":
    main()

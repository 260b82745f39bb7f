"""A writer killed at any moment loses at most the round in flight."""

from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
import time

from inferdoc.store import Store
from tests.store.pages import bits_of, samples_of

WRITER = """
import sys
import numpy as np
from inferdoc.collect.samples import Layout, Page, Series
from inferdoc.store import Store, prune

pods = [{"job": "vllm", "pod": f"vllm-{number}"} for number in range(8)]
layouts = [Layout([Series(f"m{number}", ()) for number in range(width)]) for width in (60, 61, 62)]
with Store.open(sys.argv[1], "w") as store:
    number = (store.latest_ms() or 0) + 1
    while True:
        with store.writer.round() as writer:
            for pod in pods:
                layout = layouts[number // 7 % 3]
                writer.append(pod, number, Page(layout, np.arange(len(layout)) * float(number)))
        print(number, flush=True)
        if number % 50 == 0:
            prune(store, max_age_ms=400)
        number += 1
"""
KILLS = 15


def test_killed_at_random_moments(tmp_path):
    path = tmp_path / "fleet.db"
    chance = random.Random(8)
    for _ in range(KILLS):
        writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True)
        acknowledged = int(writer.stdout.readline())
        with Store.open(path) as store:
            assert store.latest_ms() >= acknowledged and len(store.blocks(acknowledged, acknowledged)) == 8
        time.sleep(chance.random() * 0.25)
        writer.kill()
        rest = writer.stdout.read().split("\n")
        writer.wait()
        acknowledged = max([acknowledged, *(int(line) for line in rest[:-1])])
        with Store.open(path) as store:
            latest = store.latest_ms()
            assert acknowledged <= latest <= acknowledged + 1
            blocks = store.blocks(latest - 300, latest)
        rounds = range(max(1, latest - 300), latest + 1)
        for block in blocks:
            assert block.times_ms.tolist() == list(rounds)
            for (name, _, ts_ms), bits in samples_of([block]).items():
                assert bits == bits_at(name, ts_ms)
        assert len(blocks) == 8
        with sqlite3.connect(path) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def bits_at(name: str, ts_ms: int) -> int:
    return bits_of(int(name[1:]) * float(ts_ms))

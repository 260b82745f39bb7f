"""CPU and memory of a process with the processes that it starts."""

from __future__ import annotations

import subprocess
import sys

from process_cost import ProcessCost, Spent, in_new_process, run_command

MEGABYTES = 80
HOLD = f"""
import time
held, start = b'x' * ({MEGABYTES} << 20), time.process_time()
while time.process_time() - start < 0.15:
    pass
"""
"""Takes 80 MB and 0.15 s of CPU."""
START = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {HOLD!r}], check=True)"
"""Lets a child do so."""


def test_a_child_that_was_waited_for_counts():
    with ProcessCost() as cost:
        subprocess.run([sys.executable, "-c", HOLD], check=True)
    assert 0.15 <= cost.cpu <= cost.wall + 0.5
    assert cost.memory.mb >= cost.memory.others_mb + 10
    assert cost.memory.others_mb >= MEGABYTES
    assert cost.memory.root_mb > 10


def test_a_command_counts_with_its_children():
    cost = run_command([sys.executable, "-c", START])
    assert cost.code == 0
    assert cost.peak_mb >= MEGABYTES + 2 * 5  # of two interpreters
    assert run_command([sys.executable, "-c", "print('a'); raise SystemExit(3)"]).output == "a\n"


def test_a_new_process_does_not_inherit_the_peak_of_this_one():
    held = b"x" * (300 << 20)
    assert in_new_process(peak_of_nothing) < 200
    assert held


def peak_of_nothing() -> float:
    with ProcessCost() as cost:
        pass
    return cost.memory.mb


def test_blocks_are_summed():
    spent = Spent()
    for _ in range(2):
        with spent:
            subprocess.run([sys.executable, "-c", "sum(range(2_000_000))"], check=True)
    once = Spent()
    with once:
        subprocess.run([sys.executable, "-c", "sum(range(2_000_000))"], check=True)
    assert spent.cpu > 1.2 * once.cpu
    assert str(once).endswith("s CPU)")

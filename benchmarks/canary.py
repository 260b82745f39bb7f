"""How often the rollout gate passes, fails or waits, for candidates whose truth is known.

    python benchmarks/canary.py [--seeds N] [--only CANDIDATE]...

Half an hour of three stable pods and a candidate, four requests a second each, latencies drawn afresh for each seed,
busier minutes shared by all. The table goes into docs/canary.md.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from pathlib import Path

from measured import measured_line

from inferdoc.canary.request import canary_for_request
from inferdoc.catalogue.load import load_catalogue
from inferdoc.config import Config
from inferdoc.source.open import open_source
from tests.canary.made import fleet, store

SECONDS = 1800
FIRST_SEED = 100
"""Others than those of the tests."""
CANDIDATES: dict[str, dict[str, float]] = {
    "alike": {},
    "alike, half the traffic": {"rate": 2.0},
    "alike, twice the traffic": {"rate": 8.0},
    "1.05 times as slow": {"slower": 1.05},
    "1.1 times as slow": {"slower": 1.1},
    "1.2 times as slow": {"slower": 1.2},
    "1.4 times as slow": {"slower": 1.4},
    "0.2 % fail": {"failing": 0.002},
    "1 % fail": {"failing": 0.01},
}
ASKED = {"candidate": "llama-canary-*", "since": "1h", "until": "latest", "warmup": "10m", "looks": 1}


def decisions(candidate: dict[str, float], seeds: int) -> Counter[str]:
    """What the gate says of a candidate, seed by seed."""
    catalogue, counted = load_catalogue(()), Counter[str]()
    for seed in range(FIRST_SEED, FIRST_SEED + seeds):
        with tempfile.TemporaryDirectory() as folder:
            path = store(Path(folder) / "fleet.db", fleet(3, **candidate), seconds=SECONDS, seed=seed)
            source = open_source(store=str(path))
            counted[canary_for_request(source, Config(), catalogue, ASKED).decision] += 1
    return counted


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=12)
    parser.add_argument("--only", action="append", choices=CANDIDATES, metavar="CANDIDATE")
    given = parser.parse_args()
    print("| candidate | pass | fail | not known yet |\n| --- | --- | --- | --- |")
    for name in given.only or CANDIDATES:
        seen = decisions(CANDIDATES[name], given.seeds)
        print(f"| {name} | {seen['pass']} | {seen['fail']} | {seen['unknown']} |", flush=True)
    print(f"\n{measured_line()}")


if __name__ == "__main__":
    main()

"""What a scan saves: a fleet of many pools, of which one is sick, read in full and in two stages.

python benchmarks/scan.py --pools 16 --pods 32 --sick 1
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import tempfile
import time
from pathlib import Path

from benchmarks.fleets import pools_store
from inferdoc import diagnose, open_source
from inferdoc.catalogue.load import load_catalogue
from inferdoc.judging.api import Options


def measure(store: Path, deep: bool) -> dict[str, object]:
    """One diagnosis by one process: its CPU time, peak memory and what it came to."""
    assert load_catalogue().recipes
    source = open_source(store=store, parallel=1)
    began = time.process_time()
    answer = diagnose(source, since="1h", options=Options(deep=deep))
    spent = time.process_time() - began
    source.close()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return {
        "way": "deep" if deep else "two stages",
        "cpu_s": round(spent, 1),
        "peak_mb": peak,
        "samples": answer.timing.samples,
        "findings": [(finding.id, len(finding.scope.pods)) for finding in answer.findings],
        "read": answer.coverage.depth or "all",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pools", type=int, default=16)
    parser.add_argument("--pods", type=int, default=32, help="of each pool, a multiple of 16")
    parser.add_argument("--sick", type=int, default=1, help="pools with sick pods")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "pools.db"
        pools_store(store, asked.pools, asked.pods, asked.sick, minutes=120)
        for deep in (True, False):  # in processes of their own: the peak is that of a process
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                print(pool.apply(measure, (store, deep)), flush=True)


if __name__ == "__main__":
    main()

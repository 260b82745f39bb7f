"""Count the samples that a diagnosis decodes from a store, and those of signals that a verdict looks at.

    python benchmarks/decoded.py STORE [--since 1h] [--rows 12]

Decoded: values of a series over all scrapes that were read. Looked at: those of pods whose signal a condition, a
finding or a persistent state asked for; a signal that is compared across pods counts for all of them. A series of
several signals counts once, for the signal that is looked at on most pods.
"""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path
from typing import Any
from unittest.mock import patch

from measured import measured_line

from inferdoc import diagnose, open_source
from inferdoc.catalogue.load import load_catalogue
from inferdoc.judging.session import needed_signals
from inferdoc.judging.view import View
from inferdoc.source.plan import series_names
from inferdoc.store.reader import Reader

OTHER = "(labels, info metrics, scrapes)"


def measure(store: Path, since: str) -> tuple[Counter[str], dict[str, float]]:
    """Samples decoded by series name, and the share of the pods on which each signal was looked at."""
    decoded = Counter[str]()
    pods: dict[str, set[object]] = {}
    units = 1
    blocks, get, stack, gpus = Reader.blocks, View.get, View.stack, View.gpus

    def blocks_counted(reader: Reader, *given: Any) -> Any:
        found = blocks(reader, *given)
        for block in found:
            for name, many in Counter(block.names).items():
                decoded[name] += many * len(block.times_ms)
        return found

    def noted(view: View, unit: Any, signal: str) -> Any:
        pods.setdefault(signal, set()).add(unit.member.key)
        return get(view, unit, signal)

    def noted_gpus(view: View, unit: Any, signal: str) -> Any:
        pods.setdefault(signal, set()).add(unit.member.key)
        return gpus(view, unit, signal)

    def noted_stack(view: View, signal: str) -> Any:
        nonlocal units
        units = max(units, len({unit.member.key for unit in view.units}))
        return stack(view, signal)

    with (
        patch.object(Reader, "blocks", blocks_counted),
        patch.object(View, "get", noted),
        patch.object(View, "gpus", noted_gpus),
        patch.object(View, "stack", noted_stack),
    ):
        source = open_source(store=store, parallel=1)
        diagnose(source, since=since)
        source.close()
    return decoded, {signal: min(1.0, len(each) / units) for signal, each in pods.items()}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", type=Path)
    parser.add_argument("--since", default="1h")
    parser.add_argument("--rows", type=int, default=12)
    asked = parser.parse_args()
    decoded, shares = measure(asked.store, asked.since)
    catalogue = load_catalogue()
    owner = dict.fromkeys(decoded, OTHER)
    for signal in sorted(needed_signals(catalogue), key=lambda each: shares.get(each, 0.0)):
        owner |= dict.fromkeys(series_names([signal], catalogue.signals, catalogue.aliases) & decoded.keys(), signal)
    by_signal = Counter[str]()
    for name, count in decoded.items():
        by_signal[owner[name]] += count
    looked = {signal: count * shares.get(signal, 0.0) for signal, count in by_signal.items()}
    print("| signal | decoded, thousands | looked at, thousands | share |\n| --- | ---: | ---: | ---: |")
    shown = by_signal.most_common(asked.rows)
    rest = len(by_signal) - len(shown)
    others = (
        sum(by_signal.values()) - sum(count for _, count in shown),
        sum(looked.values()) - sum(looked[signal] for signal, _ in shown),
    )
    lines = [(signal, count, looked[signal]) for signal, count in shown]
    lines += [(f"{rest} others", *others), ("all", sum(by_signal.values()), sum(looked.values()))]
    for signal, count, used in lines:
        print(f"| {signal} | {count / 1000:,.0f} | {used / 1000:,.0f} | {used / max(count, 1):.2f} |")
    unused = Counter({signal: count for signal, count in by_signal.items() if not looked[signal]})
    print(f"\nDecoded for nothing that was looked at: {', '.join(name for name, _ in unused.most_common(8))}.")
    print(measured_line())


if __name__ == "__main__":
    main()

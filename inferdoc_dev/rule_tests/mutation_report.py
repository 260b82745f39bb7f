"""`python -m inferdoc_dev.generate mutate`: which mistakes in the rules their unit tests notice."""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Iterable
from pathlib import Path

from inferdoc.catalogue.content import content_root
from inferdoc.errors import InferdocError
from inferdoc.times import length_of
from inferdoc_dev.rule_tests.mutants import OPERATORS
from inferdoc_dev.rule_tests.mutation import PARTS, Mistake, Score, mistakes, run

BAR = 30
PASSES = 0.95


def main(arguments: list[str] | None = None) -> int:
    """Exit code 1 where the score is below --least, 2 where nothing can be tried."""
    parser = argparse.ArgumentParser(prog="python -m inferdoc_dev.generate mutate", description=__doc__)
    parser.add_argument("--out", type=Path, help="folder of the rules (default: alerts/generated)")
    parser.add_argument("--alert", action="append", default=[], metavar="NAME", help="only this one; may be repeated")
    parser.add_argument(
        "--operator",
        action="append",
        default=[],
        metavar="KIND",
        help=f"one of {', '.join(OPERATORS)}; may be repeated",
    )
    parser.add_argument(
        "--part",
        action="append",
        default=[],
        choices=PARTS,
        help="only mistakes in records of signals, in records of observations, in alerts about causes, or in other"
        " alerts; may be repeated",
    )
    parser.add_argument("--sample", type=int, metavar="N", help="so many mistakes, drawn by --seed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--time", default="1h", metavar="D", help="begin no further test file after so long (default: 1h)"
    )
    parser.add_argument("--least", type=float, default=PASSES, metavar="SHARE", help=f"the bar (default: {PASSES})")
    options = parser.parse_args(arguments)
    generated = options.out or content_root() / "alerts" / "generated"
    try:
        found = mistakes(generated, options.alert, options.operator, options.part)
        if options.sample is not None:
            found = random.Random(options.seed).sample(found, min(options.sample, len(found)))
        score = run(generated, found, seconds=length_of(options.time), shown=_bar)
    except (InferdocError, ValueError) as error:
        print(f"inferdoc: {error}", file=sys.stderr)
        return 2
    for line in lines(score):
        print(line)
    return 1 if score.share < options.least else 0


def lines(score: Score) -> Iterable[str]:
    """The figures per kind of mistake and per part of the rules, then what passed unnoticed, then the score."""
    for name in (*OPERATORS, *PARTS):
        noticed, missed = (_of(name, each) for each in (score.noticed, score.missed))
        if noticed or missed:
            shown = f"in {name}" if name in PARTS else name
            yield f"{shown:<24} {len(noticed):>5} of {len(noticed) + len(missed):>5} noticed"
    for each in sorted(score.missed, key=lambda each: (each.rule, each.mutant.operator)):
        yield f"  {each.rule}: {each.mutant.operator}: {each.mutant.place}"
    if score.untried:
        yield f"{score.untried} not tried: the time was up"
    yield f"mutation score {score.share:.1%}: {len(score.noticed)} of {score.tried} mistakes noticed"


def _of(name: str, tried: Iterable[Mistake]) -> list[Mistake]:
    """Those of a kind or in a part."""
    return [each for each in tried if name in (each.mutant.operator, each.part)]


def _bar(done: int, of: int) -> None:
    """A bar on stderr, on a terminal only."""
    if sys.stderr.isatty() and of:
        full = round(BAR * done / of)
        print(f"\r[{'#' * full}{' ' * (BAR - full)}] {done} of {of}", end="\n" if done == of else "", file=sys.stderr)

"""Series that a matcher leaves out, beside those that it takes: a rule that lost the matcher counts them too."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from inferdoc.generate.promql_words import Selector
from inferdoc.source.reads import matches
from inferdoc_dev.rule_tests.cases import Case
from inferdoc_dev.rule_tests.raw_series import Key, Raw, World

OTHER = "decoy"
FAR = 1000.0
"""How much larger than its neighbour a decoy is: whatever it is added to, no limit holds as before."""


def with_decoys(case: Case, read: Mapping[str, Sequence[Selector]]) -> Case:
    """The case with a decoy for every label that distinguishes its series from others.

    read: `selectors` of all expressions that the alert rests on; what any of them takes is no decoy.
    """
    found: dict[Key, Raw] = {}
    for (metric, match), each in case.world.raw.items():
        taken = read.get(metric, [()])
        for label, _ in match if each.kind in ("gauge", "counter") else ():
            for value in (OTHER, *left_out(label, taken)):
                other = tuple((name, value if name == label else own) for name, own in match)
                if not any(matches(dict(other), selector) for selector in taken):
                    far = FAR * max(each.healthy, each.fault, 1.0)
                    found[metric, other] = Raw(each.kind, far, far)
                    break
    return replace(case, world=World(case.world.catalogue, {**case.world.raw, **found})) if found else case


def left_out(label: str, taken: Iterable[Selector]) -> Iterator[str]:
    """Values of a label that selectors exclude by name."""
    for selector in taken:
        for name, op, value in selector:
            if name == label and op in ("!=", "!~"):
                yield from value.split("|")

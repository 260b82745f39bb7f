"""Series that a matcher leaves out, beside those that it takes: a rule that lost the matcher counts them too."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from inferdoc.generate.cases import Case
from inferdoc.generate.promql_words import Word, closing, words
from inferdoc.generate.world import Key, Raw, World
from inferdoc.source.matching import matches
from inferdoc.source.reads import Matcher

Selector = tuple[Matcher, ...]
OTHER = "decoy"
FAR = 1000.0
"""How much larger than its neighbour a decoy is: whatever it is added to, no limit holds as before."""


def with_decoys(case: Case, read: Mapping[str, Sequence[Selector]]) -> Case:
    """The case with a decoy for every label that tells its series from others.

    read: `selectors` of all expressions that the alert rests on; what any of them takes is no decoy.
    """
    found: dict[Key, Raw] = {}
    for (metric, match), each in case.world.raw.items():
        taken = read.get(metric, [()])
        for label, _ in match if each.kind in ("gauge", "counter") else ():
            for value in (OTHER, *left_out(label, taken)):
                other = tuple((name, value if name == label else own) for name, own in match)
                if not any(matches(dict(other), selector) for selector in taken):
                    far = FAR * max(each.calm, each.fault, 1.0)
                    found[metric, other] = Raw(each.kind, far, far)
                    break
    return replace(case, world=World(case.world.catalogue, {**case.world.raw, **found})) if found else case


def left_out(label: str, taken: Iterable[Selector]) -> Iterator[str]:
    """Values of a label that selectors exclude by name."""
    for selector in taken:
        for name, op, value in selector:
            if name == label and op in ("!=", "!~"):
                yield from value.split("|")


def selectors(exprs: Iterable[str]) -> dict[str, list[Selector]]:
    """By metric the selectors that name it."""
    found: dict[str, list[Selector]] = {}
    for expr in exprs:
        told = words(expr)
        for number, word in enumerate(told):
            if word.kind == "name" and not word.in_selector:
                opens = number + 1 < len(told) and told[number + 1].text == "{"
                inside = told[number + 2 : closing(told, number + 1)] if opens else []
                found.setdefault(word.text, []).append(tuple(_matchers(inside)))
    return found


def _matchers(inside: Sequence[Word]) -> Iterator[Matcher]:
    for name, op, value in zip(inside[0::4], inside[1::4], inside[2::4], strict=False):
        yield name.text, op.text, _unquoted(value.text)  # type: ignore[misc]


def _unquoted(text: str) -> str:
    return text[1:-1].replace('\\"', '"').replace("\\\\", "\\")

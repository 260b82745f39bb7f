"""Tables of how far an answer may be trusted: by look, by what surrounds a fleet, by certainty, by source."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from looks import Look
from scoreboard_tables import Outcome, share, table, visible

CERTAIN = ("proven", "likely", "possible")
BINS = tuple(i / 10 for i in range(11))


@dataclass(frozen=True)
class Claim:
    """One finding and whether it is right. chance: its probability, None where the document has none."""

    source: str
    certainty: str
    right: bool
    first: bool
    chance: float | None = None


def looks(o: Outcome) -> Iterable[tuple[str, Look, bool]]:
    """Every look at an outcome, and whether users are hurt in it."""
    for name, look, hurts in (
        ("in time", o.whole, o.harmful),
        ("late", o.late, o.late_hurts),
        ("old", o.old, o.old_hurts),
    ):
        if look is not None:
            yield name, look, hurts


def claims(outcomes: Iterable[Outcome]) -> list[Claim]:
    """Every finding of every look. In a control each is wrong; on a fault that hurts nobody none is counted."""
    listed = []
    for o in outcomes:
        for name, look, hurts in looks(o):
            if o.cause is not None and (not hurts or o.not_visible):
                continue
            for place, (cause, sure, chance) in enumerate(zip(look.causes, look.sure, look.chance, strict=True)):
                right = cause in o.expected or (o.group in ("control", "pair") and cause in o.accepts)
                source = o.source if name == "in time" else f"{o.source}, {name}"
                listed.append(Claim(source, sure, right, place == 0, chance))
    return listed


def looks_table(outcomes: Sequence[Outcome]) -> list[str]:
    """How often each look is right, and how often it calls a fleet healthy whose users are hurt."""
    rows = []
    for wanted in ("in time", "late", "old"):
        hurting = [
            (o, look) for o in outcomes if not o.not_visible and o.group == "cause"
            for name, look, hurts in looks(o) if name == wanted and hurts
        ]  # fmt: skip
        right = sum(look.right(o.expected) for o, look in hurting)
        third = sum(any(i in o.expected for i in look.causes[:3]) for o, look in hurting)
        verdicts = Counter(look.verdict for _, look in hurting)
        named = [(o, look) for o, look in hurting if not o.absent]
        full = sum(look.right(o.expected) for o, look in named)
        rows.append(
            [
                wanted,
                str(len(hurting)),
                share(right, len(hurting)),
                share(third, len(hurting)),
                share(full, len(named)),
                str(verdicts["healthy"]),
                str(verdicts["unknown"]),
                str(sum(bool(look.blamed) for _, look in hurting)),
            ]
        )
    head = ["look", "faults with impact", "top-1", "in the top 3", "top-1 with all witnesses", "HEALTHY", "UNKNOWN"]
    return table([*head, "blames a healthy pod"], rows)


def traits_table(outcomes: Sequence[Outcome]) -> list[str]:
    """Top-1 with and without each thing that may surround a fleet."""
    faults = visible([o for o in outcomes if o.group == "cause"])
    rows = []
    for trait in sorted({t for o in faults for t in o.traits}):
        own = [o for o in faults if trait in o.traits]
        late = [o for o in own if o.late is not None and o.late_hurts]
        rows.append(
            [
                trait,
                str(len(own)),
                share(sum(o.first_right for o in own), len(own)),
                str(sum(o.whole is not None and o.whole.verdict == "healthy" for o in own)),
                str(sum(o.whole is not None and o.whole.verdict == "unknown" for o in own)),
                share(sum(o.late is not None and o.late.right(o.expected) for o in late), len(late)),
                str(sum(o.late is not None and o.late.verdict == "healthy" for o in late)),
            ]
        )
    return table(["surroundings", "faults", "top-1", "HEALTHY", "UNKNOWN", "late top-1", "late HEALTHY"], rows)


def innocent_table(controls: Sequence[Outcome]) -> list[str]:
    """False findings in controls by what happened in them; UNKNOWN is no finding, and no answer either."""
    rows = []
    kinds = sorted({h for o in controls for h in o.happened if h != "nothing"})
    for what in ("nothing", *kinds, None):
        if what == "nothing":
            own = [o for o in controls if not set(o.happened) - {"nothing"}]
        else:
            own = [o for o in controls if what is None or what in o.happened]
        wrong = [i for o in own for i in o.found if i not in o.accepts]
        called = ", ".join(f"`{i}` {n}" for i, n in Counter(wrong).most_common())
        unknown = sum(o.whole is not None and o.whole.verdict == "unknown" for o in own)
        if own:
            hours = f"{sum(o.hours for o in own):.1f}"
            name = "**all**" if what is None else what
            rows.append([name, str(len(own)), hours, str(len(wrong)), str(unknown), called or "-"])
    return table(["what happened", "runs", "hours", "findings", "UNKNOWN", "which"], rows)


def certainty_table(listed: Sequence[Claim]) -> list[str]:
    """Of the findings that are called proven, likely, possible: the share that is right, by source and look."""
    rows = []
    for source in (*dict.fromkeys(c.source for c in listed), None):
        own = [c for c in listed if source in (c.source, None)]
        cells = [f"{share(*_right(own, lambda c, w=w: c.first and c.certainty == w))}" for w in CERTAIN]
        counts = [str(_right(own, lambda c, w=w: c.first and c.certainty == w)[1]) for w in CERTAIN]
        every = [share(*_right(own, lambda c, w=w: c.certainty == w)) for w in CERTAIN]
        first = [f"{cell} of {n}" if n != "0" else "-" for cell, n in zip(cells, counts, strict=True)]
        rows.append(["**all**" if source is None else source, *first, *every])
    head = [f"first, {w}" for w in CERTAIN] + [f"any, {w}" for w in CERTAIN]
    return table(["source", *head], rows)


def _right(own: Iterable[Claim], chosen: Callable[[Claim], bool]) -> tuple[int, int]:
    """How many of the chosen claims are right, and how many there are."""
    kept = [c for c in own if chosen(c)]
    return sum(c.right for c in kept), len(kept)


def left_out_table(listed: Sequence[Claim]) -> list[str]:
    """Each source against all others: the share that the others make one expect of its certainties, and its own. What a
    word is worth elsewhere is all that a reader of a new fleet can know."""
    rows = []
    sources = list(dict.fromkeys(c.source.split(", ")[0] for c in listed))
    for source in sources:
        own = [c for c in listed if c.source.split(", ")[0] == source and c.first]
        others = [c for c in listed if c.source.split(", ")[0] != source and c.first]
        cells, errors = [], []
        for word in CERTAIN:
            right, count = _right(own, lambda c, w=word: c.certainty == w)
            elsewhere, of = _right(others, lambda c, w=word: c.certainty == w)
            cells += [share(elsewhere, of), f"{right / count:.2f} of {count}" if count else "-"]
            if of:
                errors += [(elsewhere / of - c.right) ** 2 for c in own if c.certainty == word]
        rows.append([source, *cells, f"{np.mean(errors):.2f}" if errors else "-"])
    head = [part for word in CERTAIN for part in (f"{word} elsewhere", f"{word} here")]
    return table(["source left out", *head, "Brier score"], rows)


def reliability_table(listed: Sequence[Claim]) -> list[str]:
    """Stated and true, by tenths of the probability; empty where no finding has one."""
    rated = [c for c in listed if c.chance is not None]
    rows = []
    for low, high in pairwise(BINS):
        own = [c for c in rated if c.chance is not None and low <= c.chance < (high if high < 1.0 else 1.01)]
        if own:
            stated = float(np.mean([c.chance for c in own if c.chance is not None]))
            rows.append(
                [f"{low:.1f} to {high:.1f}", str(len(own)), f"{stated:.2f}", share(*_right(own, lambda c: True))]
            )
    if not rows:
        return ["No finding carries a probability.", ""]
    return table(["probability", "findings", "stated", "right"], rows)


def sources_table(outcomes: Sequence[Outcome]) -> list[str]:
    """Each source by itself: faults that hurt, looked at in time and late; its controls."""
    rows = []
    grouped: dict[str, list[Outcome]] = defaultdict(list)
    for o in outcomes:
        if o.group != "pair":
            grouped[o.source].append(o)
    for source, own in grouped.items():
        faults, controls = visible([o for o in own if o.group == "cause"]), [o for o in own if o.group == "control"]
        late = [o for o in own if o.group == "cause" and not o.not_visible and o.late is not None and o.late_hurts]
        healthy = [
            sum(o.whole is not None and o.whole.verdict == "healthy" for o in faults),
            sum(o.late is not None and o.late.verdict == "healthy" for o in late),
        ]
        rows.append(
            [
                source,
                str(len(faults)),
                share(sum(o.first_right for o in faults), len(faults)),
                str(healthy[0]),
                str(len(late)),
                share(sum(o.late is not None and o.late.right(o.expected) for o in late), len(late)),
                str(healthy[1]),
                str(sum(o.whole is not None and bool(o.whole.blamed) for o in faults)),
                f"{sum(bool([i for i in o.found if i not in o.accepts]) for o in controls)} of {len(controls)}",
            ]
        )
    head = ["source", "faults", "top-1", "HEALTHY", "looked at late", "top-1 late", "HEALTHY late"]
    return table([*head, "blames a healthy pod", "controls with a finding"], rows)

"""The tables of the scoreboard, from the outcomes of its runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from looks import Look

from inferdoc.catalogue.load import Catalogue
from inferdoc.catalogue.recipe import CERTAINTIES, RANK_AT_MOST, Rank

RANKS: tuple[Rank, ...] = ("P", "P+", "L", "X")


@dataclass
class Outcome:
    """One incident or control. found: ids, best first; sure: the certainty of each; load_changes: the load change
    that stands as the change of each; root: what stands first by design where the cause is a load change or another
    reading of the same harm; traffic: load changes that the scenario did set going, whatever its cause; detected:
    minutes after the onset, NaN where never; scrape: s between scrapes; whole, late, old: the looks of somebody who
    looks in time, late, and when the fault is older than the window, with whether users are hurt in it; absent:
    witnesses of the cause that the recording does not hold; traits, happened: what surrounds it, and what happened
    besides; source: where it comes from."""

    kind: str
    seed: int
    cause: str | None
    accepts: tuple[str, ...]
    found: list[str]
    harmful: bool
    hours: float
    scrape: float = 15.0
    sure: list[str] = field(default_factory=list)
    scope: float = float("nan")
    onset_error: float = float("nan")
    detected: float = float("nan")
    where: str = ""
    group: str = "cause"
    not_visible: bool = False
    root: str | None = None
    load_changes: list[str | None] = field(default_factory=list)
    traffic: tuple[str, ...] = ()
    whole: Look | None = None
    late: Look | None = None
    late_hurts: bool = False
    old: Look | None = None
    old_hurts: bool = False
    absent: list[str] = field(default_factory=list)
    traits: list[str] = field(default_factory=list)
    happened: list[str] = field(default_factory=list)
    source: str = "simulator"

    @property
    def expected(self) -> tuple[str, ...]:
        """What may come first by the label, the preferred one first."""
        return tuple(dict.fromkeys(i for i in (self.root, self.cause, *self.accepts) if i is not None))

    def named(self, within: int | None = None) -> bool:
        """Whether the cause is among the findings (the first so many), or is a load change and stands as the change of
        one that the label accepts."""
        behind = (d for i, d in zip(self.found[:within], self.load_changes[:within], strict=True) if i in self.expected)
        return self.cause in self.found[:within] or self.cause in behind

    @property
    def said(self) -> list[tuple[str, bool]]:
        """Every cause that the answer claims, its findings and the load changes behind them, and whether it is so."""
        behind = [(d, d in self.expected or d in self.traffic) for d in self.load_changes if d is not None]
        return [*((i, i in self.expected) for i in self.found), *behind]

    @property
    def first_right(self) -> bool:
        """The first finding is one that the label accepts."""
        return bool(self.found) and self.found[0] in self.expected

    @property
    def first_preferred(self) -> bool:
        """The first finding is the one that the label prefers, and the cause is named."""
        return self.found[:1] == list(self.expected[:1]) and self.named()


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A Markdown table."""
    return [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}", *(f"| {' | '.join(row)} |" for row in rows), ""]


def share(part: float, whole: float) -> str:
    return f"{part / whole:.2f}" if whole else "-"


def middle(values: Iterable[float], form: str = "{:.0f}") -> str:
    kept = [v for v in values if np.isfinite(v)]
    return form.format(float(np.median(kept))) if kept else "-"


def tail(values: Iterable[float], form: str = "{:.0f}") -> str:
    kept = [v for v in values if np.isfinite(v)]
    return form.format(float(np.quantile(kept, 0.9))) if kept else "-"


def precision(everything: Sequence[Outcome]) -> dict[str, float]:
    """Of the findings and load changes with an id, the share that the label accepts, over incidents and controls."""
    named = Counter(i for o in everything for i, _ in o.said)
    right = Counter(i for o in everything for i, good in o.said if good)
    return {cause: right[cause] / count for cause, count in named.items()}


def f1(own: Sequence[Outcome], exact: float) -> float:
    """The harmonic mean of recall and precision. own: harmful incidents of one cause."""
    recall = sum(o.named() for o in own) / max(len(own), 1)
    return 2 * recall * exact / (recall + exact) if recall + exact else 0.0


def visible(incidents: Sequence[Outcome]) -> list[Outcome]:
    """Those that hurt, and that metrics can show."""
    return [o for o in incidents if o.harmful and not o.not_visible]


def ranks_table(outcomes: Sequence[Outcome], catalogue: Catalogue) -> list[str]:
    """The figures by what metrics can show of a cause."""
    exact = precision(outcomes)
    incidents = [o for o in outcomes if o.group == "cause"]
    rows = []
    for names in (("P", "P+"), ("P",), ("P+",), ("L",), ("X",)):
        chosen = {r.id for r in catalogue.recipes.values() if r.rank in names}
        own = visible([o for o in incidents if o.kind in chosen])
        kinds = sorted({o.kind for o in own})
        scores = [f1([o for o in own if o.kind == k], exact.get(k, 0.0)) for k in kinds]
        limit = CERTAINTIES.index(max((RANK_AT_MOST[r] for r in RANKS if r in names), key=CERTAINTIES.index))
        bold = sum(
            CERTAINTIES.index(c) > limit for o in own for i, c in zip(o.found, o.sure, strict=True) if i in chosen
        )
        seen = [o for o in own if o.named()]
        rows.append(
            [
                " and ".join(names),
                str(len(kinds)),
                str(len(own)),
                share(sum(o.first_right for o in own), len(own)),
                share(sum(o.first_preferred for o in own), len(own)),
                share(sum(o.named(3) for o in own), len(own)),
                f"{np.mean(scores):.2f}" if scores else "-",
                share(sum(o.scope == 1.0 for o in seen), len(seen)),
                middle((abs(o.onset_error) / o.scrape for o in own), "{:.1f}"),
                str(bold),
            ]
        )
    head = ["rank", "causes", "incidents", "top-1", "preferred first", "in the top 3", "macro-F1", "scope exact"]
    return table([*head, "onset error, scrapes", "surer than the rank allows"], rows)


def _cause_row(name: str, own: Sequence[Outcome], exact: float | None) -> list[str]:
    bad, mild = visible(own), [o for o in own if not o.harmful]
    seen = [o for o in bad if o.named()]
    return [
        name,
        str(len(bad)),
        share(len(seen), len(bad)),
        share(sum(o.first_right for o in bad), len(bad)),
        share(sum(o.first_preferred for o in bad), len(bad)),
        "-" if exact is None else f"{exact:.2f}",
        middle((o.scope for o in seen), "{:.2f}"),
        share(sum(o.scope == 1.0 for o in seen), len(seen)),
        middle(abs(o.onset_error) for o in bad),
        middle((abs(o.onset_error) / o.scrape for o in bad), "{:.1f}"),
        middle(o.detected for o in bad),
        tail(o.detected for o in bad),
        f"{sum(bool(o.found) for o in mild)}/{len(mild)}" if mild else "-",
    ]


def causes_table(outcomes: Sequence[Outcome], kinds: Iterable[str]) -> list[str]:
    """One row per cause."""
    exact = precision(outcomes)
    incidents = [o for o in outcomes if o.group == "cause"]
    rows = []
    for cause in kinds:
        own = [o for o in incidents if o.kind == cause]
        if own:
            rows.append(_cause_row(f"`{cause}`", own, exact.get(cause)))
    said = [good for o in outcomes if o.group != "pair" for _, good in o.said]
    rows.append(_cause_row("**all**", incidents, sum(said) / max(len(said), 1)))
    head = ["cause", "incidents", "recall", "top-1", "preferred first", "precision", "scope (median overlap)"]
    head += ["scope exact", "onset error, s", "in scrapes", "detected after, min", "p90, min", "spoke on harmless"]
    return table(head, rows)


def controls_table(controls: Sequence[Outcome], kinds: Iterable[str]) -> list[str]:
    """One row per kind of control, and what was found there."""
    rows = []
    for kind in kinds:
        own = [o for o in controls if o.kind == kind]
        wrong = [i for o in own for i in o.found if i not in o.accepts]
        tallied = ", ".join(f"`{i}` {n}" for i, n in Counter(wrong).most_common())
        if own:
            rows.append([kind, str(len(own)), f"{sum(o.hours for o in own):.1f}", str(len(wrong)), tallied or "-"])
    wrong_all = sum(i not in o.accepts for o in controls for i in o.found)
    days = max(sum(o.hours for o in controls) / 24, 1e-9)
    rows.append(
        ["**all**", str(len(controls)), f"{days * 24:.1f}", str(wrong_all), f"{30 * wrong_all / days:.1f} per 30 days"]
    )
    return table(["control", "runs", "hours", "false findings", "which"], rows)


def look_alikes(catalogue: Catalogue) -> list[tuple[str, str]]:
    """Pairs of causes of which one names the other as its look-alike."""
    known = catalogue.recipes
    pairs = {tuple(sorted((r.id, other))) for r in known.values() for other in r.look_alikes if other in known}
    return sorted((a, b) for a, b in pairs)


def pairs_table(outcomes: Sequence[Outcome], catalogue: Catalogue) -> list[str]:
    """Look-alikes that were taken for each other, and the share of pairs in which both were right."""
    by_kind: Mapping[str, dict[int, Outcome]] = {}
    for o in visible([o for o in outcomes if o.group == "cause"]):
        by_kind.setdefault(o.kind, {})[o.seed] = o
    rows, both, met = [], 0, 0
    for a, b in look_alikes(catalogue):
        of_a, of_b = by_kind.get(a, {}), by_kind.get(b, {})
        for seed in of_a.keys() & of_b.keys():
            met += 1
            both += of_a[seed].first_right and of_b[seed].first_right
        taken_a = sum(o.found[:1] == [b] and b not in o.expected for o in of_a.values())
        taken_b = sum(o.found[:1] == [a] and a not in o.expected for o in of_b.values())
        if taken_a or taken_b:
            rows.append([f"`{a}`", f"`{b}`", f"{taken_a}/{len(of_a)}", f"{taken_b}/{len(of_b)}"])
    said = f"{met} draws of {len(look_alikes(catalogue))} pairs, both incidents called right (as their label"
    said += f" accepts): {share(both, met)}. Taken for each other:"
    return [said, "", *table(["A", "B", "A called B", "B called A"], rows or [["-", "-", "-", "-"]])]


def together_table(pairs: Sequence[Outcome], kinds: Iterable[str]) -> list[str]:
    """Two faults in one fleet: how often both were named as roots."""
    rows = []
    for kind in kinds:
        own = [o for o in pairs if o.kind == kind]
        if own:
            both = sum(all(c in o.found for c in o.accepts) for o in own)
            one = sum(any(c in o.found for c in o.accepts) for o in own)
            wrong = Counter(i for o in own for i in o.found if i not in o.accepts)
            also = ", ".join(f"`{i}` {n}" for i, n in wrong.items()) or "-"
            rows.append([f"`{kind}`", str(len(own)), str(both), str(one), also])
    return table(["faults", "runs", "both named", "at least one", "also named"], rows)


def missed_list(incidents: Sequence[Outcome]) -> list[str]:
    """Every harmful incident whose first finding its label does not accept, or of which the cause is not named."""
    lines = []
    for o in visible(incidents):
        if not o.first_right or not o.named():
            behind = [f" (load change `{d}`)" if d else "" for d in o.load_changes]
            called = ", ".join(f"`{i}`{d}" for i, d in zip(o.found, behind, strict=True)) or "nothing found"
            lines.append(f"- `{o.kind}` seed {o.seed} ({o.where}): {called}")
    return [*(lines or ["- none"]), ""]

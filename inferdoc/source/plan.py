"""Which reads a set of signals needs, and which series names can supply them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from inferdoc.catalogue.aliases import Aliases
from inferdoc.catalogue.signal import Level, Reading, Signal, Term
from inferdoc.source.reads import Aggregation, Function, Matcher, Read

SHARED = ("cluster", "namespace", "node", "pod", "instance", "job", "role", "tier")
BY: Mapping[Level, tuple[str, ...]] = {
    "engine": (*SHARED, "model_name", "engine"),
    "target": SHARED,
    "gpu": (
        *SHARED,
        "Hostname",
        "hostname",
        "gpu",
        "UUID",
        "GPU_I_ID",
        "GPU_I_PROFILE",
        "modelName",
        "serial_number",
        "card_series",
        "nvswitch",
    ),
    "router": (*SHARED, "name", "model_name", "target_model_name"),
    "tenant": (*SHARED, "model_name", "target_model_name", "fairness_id", "priority"),
    "namespace": SHARED,
}
"""Labels kept by level; an absent label is empty, so keeping one costs nothing where it does not exist."""

WIDTHS = (1, 2, 4)
OVER: Mapping[str, Function] = {"last": "last", "max": "max", "mean": "mean"}


def matchers(match: Mapping[str, str]) -> tuple[Matcher, ...]:
    """`{reason: capacity, le: "~1|2", code: "!~4.."}` of the YAML as label matchers."""
    found: list[Matcher] = []
    for label, value in sorted(match.items()):
        if value.startswith("!~"):
            found.append((label, "!~", value[2:]))
        elif value.startswith("~"):
            found.append((label, "=~", value[1:]))
        elif value.startswith("!"):
            found.append((label, "!=", value[1:]))
        else:
            found.append((label, "=", value))
    return tuple(found)


@dataclass(frozen=True)
class Operand:
    """One term that reads series: the same read under each name it may stand under, newest first."""

    name: str
    fn: Function
    by: tuple[str, ...]
    match: tuple[Matcher, ...]
    agg: Aggregation

    def reads(self, aliases: Aliases, present: set[str] | None, width: int = 1) -> list[Read]:
        """The reads of this operand, restricted to names that the source holds (None: all spellings). Their labels
        stand in the order of `by`, under the names that the exporter gives them."""
        names = aliases.of(self.name)
        kept = [n for n in names if present is None or n in present]
        return [Read(n, self.fn, self._by(n, aliases), self.match, self.agg, width) for n in kept]

    def _by(self, name: str, aliases: Aliases) -> tuple[str, ...]:
        return tuple(aliases.label(name, label) for label in self.by)


def operand(part: Reading | Term, level: Level) -> Operand | None:
    """The operand of a single-term reading or of a formula's term; None where it names a signal or has many terms."""
    by, match = BY[level], matchers(part.match)
    if part.gauge is not None:
        return Operand(part.gauge, OVER[part.over], by, match, part.agg)
    if part.rate is not None:
        return Operand(part.rate, "rate", by, match, part.agg)
    if part.increase is not None:
        return Operand(part.increase, "increase", by, match, part.agg)
    if part.change is not None:
        return Operand(part.change, "change", by, match, part.agg)
    return None


def buckets(reading: Reading, level: Level) -> Operand:
    """The cumulative bucket rates of a quantile reading."""
    return Operand(f"{reading.quantile}_bucket", "rate", (*BY[level], "le"), matchers(reading.match), "sum")


def observations(histogram: str, reading: Reading, level: Level) -> Operand:
    """How many observations fell into the window."""
    return Operand(f"{histogram}_count", "increase", BY[level], matchers(reading.match), "sum")


def sum_over_count(reading: Reading, level: Level) -> tuple[Operand, Operand]:
    """The two rates of a mean reading."""
    match = matchers(reading.match)
    return (
        Operand(f"{reading.mean}_sum", "rate", BY[level], match, "sum"),
        Operand(f"{reading.mean}_count", "rate", BY[level], match, "sum"),
    )


def closure(selected: Iterable[str], signals: Mapping[str, Signal]) -> list[str]:
    """The requested signals and those their formulas name, operands before users."""
    order: dict[str, None] = {}

    def visit(name: str, path: tuple[str, ...]) -> None:
        if name in order:
            return
        if name in path:
            raise ValueError(f"signal {name} is defined by itself: {' -> '.join((*path, name))}")
        for reading in signals[name].readings:
            if reading.of is not None:
                visit(reading.of, (*path, name))
            for term in reading.terms.values():
                if term.signal is not None:
                    visit(term.signal, (*path, name))
        order[name] = None

    for name in selected:
        visit(name, ())
    return list(order)


def operands(signal: Signal) -> Iterator[Operand]:
    """Every operand of a signal that is read at one window width."""
    for reading in signal.readings:
        single = operand(reading, signal.level)
        if single:
            yield single
        if reading.mean:
            yield from sum_over_count(reading, signal.level)
            yield observations(reading.mean, reading, signal.level)
        for term in reading.terms.values():
            part = operand(term, signal.level)
            if part:
                yield part


def series_names(selected: Iterable[str], signals: Mapping[str, Signal], aliases: Aliases) -> set[str]:
    """Every series name, in all its spellings, that these signals are made of."""
    order = closure(selected, signals)
    made = plan(order, signals, aliases, None)
    cells = (buckets(r, signals[name].level) for name in order for r in signals[name].readings if r.quantile)
    return {
        *(read.name for read in (*made.reads, *made.counts)),
        *(read.name for part in cells for read in part.reads(aliases, None)),
        *made.infos,
    }


@dataclass
class Plan:
    """What to evaluate first: reads at one width, the observation counts that choose the widths of the quantiles, and
    info metrics by name."""

    reads: list[Read] = field(default_factory=list)
    counts: list[Read] = field(default_factory=list)
    infos: list[str] = field(default_factory=list)


def plan(order: Iterable[str], signals: Mapping[str, Signal], aliases: Aliases, present: set[str] | None) -> Plan:
    """The first round of reads for these signals."""
    made = Plan()
    for name in order:
        signal = signals[name]
        for part in operands(signal):
            made.reads += part.reads(aliases, present)
        for reading in signal.readings:
            if reading.quantile:
                count = observations(reading.quantile, reading, signal.level)
                for width in WIDTHS:
                    made.counts += count.reads(aliases, present, width)
            if reading.info:
                made.infos += [n for n in aliases.of(reading.info) if present is None or n in present]
    made.reads = list(dict.fromkeys(made.reads))
    made.counts = list(dict.fromkeys(made.counts))
    made.infos = list(dict.fromkeys(made.infos))
    return made

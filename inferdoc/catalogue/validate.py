"""Cross checks of the catalogue: what no schema of one file can see.

Every function returns problems, one line each with the path inside the document; an empty list means sound.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from inferdoc.catalogue.document import Steps, dotted, nearest
from inferdoc.catalogue.signal import REQUIRED_TIER, Band, Exporter, Figure, Metric, Reading, Signal, Term, Tiers
from inferdoc.catalogue.span import FormulaError, names_in

READING_KINDS = ("gauge", "rate", "increase", "change", "quantile", "mean", "formula", "info", "telemetry", "cohort")
TERM_KINDS = ("gauge", "rate", "increase", "change", "signal")
SUFFIXES = {"_bucket": ("histogram",), "_sum": ("histogram", "summary"), "_count": ("histogram", "summary")}
READS: dict[str, tuple[str, ...]] = {
    "gauge": ("gauge", "counter"),
    "change": ("gauge",),
    "rate": ("counter",),
    "increase": ("counter",),
    "quantile": ("histogram",),
    "mean": ("histogram", "summary"),
    "info": ("info",),
}
TIER_FIGURES = (
    *("memory_gib", "memory_gbps", "bf16_tflops", "fp8_tflops", "fp4_tflops"),
    *("link_gbps", "host_gbps", "nic_gbits", "cold_start_s"),
)
UNLISTED_LABELS = frozenset({"le", "quantile", "job", "instance", "pod", "namespace", "container", "cluster", "node"})

_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|s|m|h|d|w))+")


@dataclass(frozen=True)
class Problem:
    """What is wrong, and the steps from the top of its document to the place."""

    steps: Steps
    message: str

    def __str__(self) -> str:
        return f"{dotted(self.steps)}: {self.message}" if self.steps else self.message


@dataclass(frozen=True)
class Spelling:
    """One name under which a metric may appear: its exporter, its current name and declaration."""

    exporter: str
    current: str
    metric: Metric


def spellings(exporters: Mapping[str, Exporter]) -> dict[str, Spelling]:
    """Every name an exporter's metrics have or had. The current name of a metric wins over a former name of another."""
    known: dict[str, Spelling] = {}
    for former in (False, True):
        for exporter in exporters.values():
            for current, metric in exporter.metrics.items():
                names = [old.name for old in metric.formerly] if former else [current]
                spelling = Spelling(exporter.exporter, current, metric)
                for name in names:
                    known.setdefault(name, spelling)
    return known


# --- signals -------------------------------------------------------------------------------------------------------


def check_signals(signals: Mapping[str, Signal], exporters: Mapping[str, Exporter]) -> dict[str, list[Problem]]:
    """Problems by signal id: readings of exactly one kind, names that an exporter declares, formulas that parse."""
    known = spellings(exporters)
    added = {name for exporter in exporters.values() for name in exporter.signals}
    problems = {}
    for name, signal in signals.items():
        found = []
        if not signal.readings and name not in added:
            found.append(Problem(("signals", name, "readings"), "a signal needs at least one reading"))
        for index, reading in enumerate(signal.readings):
            found += _check_reading(reading, ("signals", name, "readings", index), signals, known)
        if _reaches(name, name, signals, set()):
            found.append(Problem(("signals", name), "a signal cannot be read from itself"))
        problems[name] = found
    return {name: found for name, found in problems.items() if found}


def check_readings(
    exporter: Exporter, signals: Mapping[str, Signal], exporters: Mapping[str, Exporter]
) -> Iterator[Problem]:
    """What is wrong with the readings that an exporter adds to signals, which are declared elsewhere."""
    known = spellings(exporters)
    for name, readings in exporter.signals.items():
        yield from check_signal_name(name, ("signals", name), signals)
        for index, reading in enumerate(readings):
            yield from _check_reading(reading, ("signals", name, index), signals, known)


def _check_reading(
    reading: Reading, at: Steps, signals: Collection[str], known: Mapping[str, Spelling]
) -> Iterator[Problem]:
    kinds = [kind for kind in READING_KINDS if getattr(reading, kind) is not None]
    if len(kinds) != 1:
        yield Problem(at, exactly_one(READING_KINDS, kinds))
        return
    kind = kinds[0]
    yield from _check_options(reading, kind, at)
    if kind == "formula":
        yield from _check_formula(reading, at, signals, known)
    elif kind == "cohort":
        yield from check_signal_name(reading.of or "", (*at, "of"), signals)
    elif kind != "telemetry":
        yield from _check_name(kind, getattr(reading, kind), reading.match, at, known)


def _check_options(reading: Reading, kind: str, at: Steps) -> Iterator[Problem]:
    """Keys that belong to another kind of reading, and those this kind needs."""
    if kind == "quantile" and (reading.q is None or not 0 < reading.q < 1):
        yield Problem((*at, "q"), "a quantile needs q between 0 and 1")
    if kind != "quantile" and reading.q is not None:
        yield Problem((*at, "q"), "q belongs to a quantile")
    if kind != "formula" and reading.terms:
        yield Problem((*at, "terms"), "terms belong to a formula")
    read_as = [reading.label, reading.count_distinct, reading.moved, reading.identity]
    if (kind == "info") != (sum(map(bool, read_as)) == 1):
        yield Problem(at, "info goes with exactly one of label, count_distinct, moved, identity, and they with info")
    if (kind == "cohort") != bool(reading.of):
        yield Problem(at, "cohort goes with `of`, and `of` with cohort")
    if reading.scale == 0:
        yield Problem((*at, "scale"), "a scale of 0 loses the value")


def _check_formula(
    reading: Reading, at: Steps, signals: Collection[str], known: Mapping[str, Spelling]
) -> Iterator[Problem]:
    try:
        used = names_in(reading.formula or "")
    except FormulaError as error:
        yield Problem((*at, "formula"), str(error))
        used = frozenset(reading.terms)
    for name in sorted(used - reading.terms.keys()):
        yield Problem((*at, "formula"), f'"{name}" is no term{nearest(name, reading.terms)}')
    for name in sorted(reading.terms.keys() - used):
        yield Problem((*at, "terms", name), "the formula does not use this term")
    if reading.match:
        yield Problem((*at, "match"), "a formula matches in its terms")
    for name, term in reading.terms.items():
        yield from _check_term(term, (*at, "terms", name), signals, known)


def _check_term(term: Term, at: Steps, signals: Collection[str], known: Mapping[str, Spelling]) -> Iterator[Problem]:
    kinds = [kind for kind in TERM_KINDS if getattr(term, kind) is not None]
    if len(kinds) != 1:
        yield Problem(at, exactly_one(TERM_KINDS, kinds))
    elif kinds[0] == "signal":
        yield from check_signal_name(term.signal or "", (*at, "signal"), signals)
    else:
        yield from _check_name(kinds[0], getattr(term, kinds[0]), term.match, at, known)


def _check_name(
    kind: str, name: str, match: Mapping[str, str], at: Steps, known: Mapping[str, Spelling]
) -> Iterator[Problem]:
    """The metric exists, is of a type this kind can read, and has the labels it is matched on."""
    spelling, suffix = known.get(name), ""
    if spelling is None:
        suffix = next((end for end in SUFFIXES if name.endswith(end)), "")
        spelling = known.get(name.removesuffix(suffix)) if suffix else None
    if spelling is None:
        yield Problem((*at, kind), f'no exporter has a metric "{name}"{nearest(name, known)}')
        return
    types = READS[kind] if not suffix else SUFFIXES[suffix] if "counter" in READS[kind] else ()
    if spelling.metric.type not in types:
        what = f"{spelling.metric.type}'s {suffix}" if suffix else spelling.metric.type
        yield Problem((*at, kind), f'{kind} reads a {" or ".join(READS[kind])}; "{name}" is a {what}')
    for label, value in match.items():
        body = value.removeprefix("!")
        if body.startswith("~"):
            yield from check_pattern(body[1:], (*at, "match", label))
        declared = spelling.metric.labels
        if name == spelling.current and declared and label not in declared and label not in UNLISTED_LABELS:
            yield Problem((*at, "match", label), f'"{name}" has no label "{label}"{nearest(label, declared)}')


def check_pattern(pattern: str, at: Steps) -> Iterator[Problem]:
    """A regular expression that does not compile."""
    try:
        re.compile(pattern)
    except re.error as error:
        yield Problem(at, f'"{pattern}" is not a regular expression: {error}')


def check_known(name: str, names: Iterable[str], at: Steps, what: str) -> Iterator[Problem]:
    """A name that nothing declares. what: the kind of thing it names."""
    known = list(names)
    if name not in known:
        yield Problem(at, f'no such {what} "{name}"{nearest(name, known)}')


def _reaches(start: str, name: str, signals: Mapping[str, Signal], seen: set[str]) -> bool:
    """Whether following the terms of `name` leads back to `start`."""
    if name in seen or name not in signals:
        return False
    seen.add(name)
    used = {term.signal for reading in signals[name].readings for term in reading.terms.values() if term.signal}
    return start in used or any(_reaches(start, other, signals, seen) for other in used)


def check_signal_name(name: str, at: Steps, signals: Collection[str]) -> Iterator[Problem]:
    """A signal that is not declared."""
    yield from check_known(name, signals, at, "signal")


def exactly_one(kinds: Iterable[str], given: list[str]) -> str:
    """The message if exactly one of several keys is needed."""
    return f"exactly one of {', '.join(kinds)} is needed; given: {', '.join(given) or 'none'}"


# --- exporters and tiers -------------------------------------------------------------------------------------------


def check_exporter(exporter: Exporter) -> list[Problem]:
    """Former names that are current or claimed twice (a split is no rename), log patterns that do not compile."""
    problems = []
    claimed: dict[str, str] = {}
    if exporter.page == "engine" and not exporter.family:
        problems.append(Problem(("family",), "an engine needs the first word of its series"))
    for index, unneeded in enumerate(exporter.unneeded):
        problems += check_pattern(unneeded.names, ("unneeded", index, "names"))
    for name, metric in exporter.metrics.items():
        for index, old in enumerate(metric.formerly):
            at: Steps = ("metrics", name, "formerly", index)
            if old.name in exporter.metrics:
                problems.append(Problem(at, f'"{old.name}" is a metric of its own here'))
            if old.name in claimed:
                problems.append(Problem(at, f'"{old.name}" is the former name of "{claimed[old.name]}" already'))
            claimed[old.name] = name
    for name, line in exporter.log_lines.items():
        where: Steps = ("log_lines", name, "pattern")
        wrong = list(check_pattern(line.pattern, where))
        if not wrong and not re.compile(line.pattern).groupindex:
            wrong.append(Problem(where, "needs at least one named group"))
        problems += wrong
    return problems


def check_tiers(tiers: Tiers, signals: Collection[str]) -> list[Problem]:
    """Bands of known signals in order, positive figures, thresholds that have a default, a tier for the unknown."""
    problems = [*_check_bands(tiers.bands, ("bands",), signals)]
    if REQUIRED_TIER not in tiers.tiers:
        problems.append(Problem(("tiers",), f'a tier "{REQUIRED_TIER}" with cautious figures is needed'))
    if not tiers.storage:
        problems.append(Problem(("storage",), "expected at least one path that weights are read over"))
    for path, rate in tiers.storage.items():
        if rate.value <= 0:
            problems.append(Problem(("storage", path, "value"), f"expected more than 0, got {rate.value:g}"))
    for name, tier in tiers.tiers.items():
        at: Steps = ("tiers", name)
        for index, pattern in enumerate(tier.names):
            problems += check_pattern(pattern, (*at, "names", index))
        for key in TIER_FIGURES:
            figure: Figure | None = getattr(tier, key)
            if figure is not None and figure.value <= 0:
                problems.append(Problem((*at, key, "value"), f"expected more than 0, got {figure.value:g}"))
        for key in tier.thresholds:
            if key not in tiers.thresholds:
                hint = nearest(key, tiers.thresholds)
                problems.append(Problem((*at, "thresholds", key), f"no default threshold of this name{hint}"))
        problems += _check_bands(tier.bands, (*at, "bands"), signals)
    return problems


def _check_bands(bands: Mapping[str, Band], at: Steps, signals: Collection[str]) -> Iterator[Problem]:
    for name, band in bands.items():
        yield from check_signal_name(band.signal, (*at, name, "signal"), signals)
        if band.low is not None and band.high is not None and band.low > band.high:
            yield Problem((*at, name, "low"), f"low {band.low:g} lies above high {band.high:g}")
        if all(limit is None for limit in (band.low, band.high, band.warn, band.bad)):
            yield Problem((*at, name), "a band needs at least one of low, high, warn, bad")


def check_duration(text: str | None, at: Steps) -> Iterator[Problem]:
    """What is no duration."""
    if text is not None and not _DURATION.fullmatch(text):
        yield Problem(at, f'expected a duration such as 90s, 15m or 1h, got "{text}"')

"""The events of an objective as PromQL: all and bad ones per second, by model and by the tier and role of the pods."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from inferdoc.catalogue.load import Catalogue
from inferdoc.catalogue.record_names import INFO
from inferdoc.catalogue.signal import WIDE
from inferdoc.catalogue.slo import OF_PODS, Audience, Slo, events_of, narrower
from inferdoc.generate.pod_info import POD, joined, joined_to_engines, joined_where_known
from inferdoc.judging.conditions.render import ENGINES, clause, number
from inferdoc.source.plan import matchers
from inferdoc.source.reads import Matcher, selector

BY = ("cluster", "namespace", "model_name", "tier", "role")
SHOWN_BY = ("cluster", "namespace", "pod", "model_name")
"""What engines are told apart by before the tier and role of their pod are joined."""
ABOVE = ("cluster", "namespace", "model_name")
LABELS = {"cluster": "cluster", "namespace": "namespace", "model": "model_name", "tier": "tier", "role": "role"}
"""What a scope names, and the label that holds it: of the series, or (OF_PODS) of the info series of their pods."""


def events(slo: Slo, catalogue: Catalogue, recorded: str, window: str) -> tuple[str, str]:
    """All and bad events per second, without those that a narrower objective speaks for. recorded: the name under which
    all are recorded first."""
    parts, rate = [other.scope for other in narrower(slo, catalogue.slos)], f"rate({{}}[{window}])"
    above = catalogue.signals_of_rules[slo.signal].level in WIDE
    histogram = slo.histogram(catalogue.signals_of_rules)
    if histogram is not None:
        match = matchers(catalogue.signals_of_rules[slo.signal].readings[0].match)
        every = _of_scope(f"{histogram}_count", match, slo.scope, parts, above, rate)
        good = (*match, ("le", "=~", _le(in_buckets(slo, catalogue))))
        return every, f"{recorded}\n- {_of_scope(f'{histogram}_bucket', good, slo.scope, [], above, rate)}"
    counted = events_of(catalogue.signals_of_rules[slo.signal])
    assert counted is not None
    bad, total = counted
    every = _of_scope(str(total.rate), matchers(total.match), slo.scope, parts, above, rate)
    wrong = _of_scope(str(bad.rate), matchers(bad.match), slo.scope, [], above, rate)
    return every, f"{clause(f'{wrong}{chr(10)}and {recorded}')}\nor 0 * {recorded}"


def of_latency(slo: Slo, catalogue: Catalogue, reading: str) -> tuple[str, str]:
    """What the events of a latency take together, and how many there are: by pod, of what is counted above the pods by
    model. reading: what is done with a series, which stands where {} does."""
    signal, parts = catalogue.signals_of_rules[slo.signal], [other.scope for other in narrower(slo, catalogue.slos)]
    took, every = (
        _each(name, match, slo.scope, parts, signal.level in WIDE, reading) for name, match in _parts(slo, catalogue)
    )
    return took, every


def of_engines(slo: Slo, catalogue: Catalogue, reading: str) -> tuple[str, str]:
    """The same of every engine with this histogram by pod, without what tells whom the objective is promised to."""
    took, every = (_counted(name, match, slo.scope, False, reading) for name, match in _parts(slo, catalogue))
    return took, every


def _parts(slo: Slo, catalogue: Catalogue) -> Iterator[tuple[str, tuple[Matcher, ...]]]:
    match = matchers(catalogue.signals_of_rules[slo.signal].readings[0].match)
    yield from ((f"{slo.histogram(catalogue.signals_of_rules)}_{part}", tuple(match)) for part in ("sum", "count"))


def _each(
    name: str, match: Sequence[Matcher], scope: Audience, without: list[Audience], above: bool, reading: str
) -> str:
    """Events of what is in a scope, and not in one of its parts."""
    text = _shown(name, match, scope, above, reading)
    for other in without:
        text = f"{clause(text)}\nunless {clause(_shown(name, match, other, above, reading))}"
    return text


def _of_scope(
    name: str, match: Sequence[Matcher], scope: Audience, without: list[Audience], above: bool, reading: str
) -> str:
    """The same by what the rules split: of engines by the tier and role of their pod."""
    text = _each(name, match, scope, without, above, reading)
    return text if above else f"sum by ({', '.join(BY)}) {clause(text)}"


def _counted(name: str, match: Sequence[Matcher], scope: Audience, above: bool, reading: str) -> str:
    own: list[Matcher] = [*match, *((label, "=", value) for label, value in scope.tenant)]
    own += [(LABELS[key], "=", value) for key, value in scope.fields.items() if key not in OF_PODS]
    return f"sum by ({', '.join(ABOVE if above else SHOWN_BY)}) ({reading.format(selector(name, tuple(own)))})"


def _shown(name: str, match: Sequence[Matcher], scope: Audience, above: bool, reading: str) -> str:
    """Events of engines by pod, with its tier and role; of what is counted above the pods by model."""
    inner = _counted(name, match, scope, above, reading)
    if above:
        return inner
    pool: list[Matcher] = [(LABELS[key], "=", value) for key, value in scope.fields.items() if key in OF_PODS]
    if not pool:
        return joined_to_engines(inner) if name.startswith(ENGINES) else joined_where_known(inner)
    return f"{clause(joined(inner))}\nand on ({', '.join(POD)}) {selector(INFO, tuple(pool))}"


def in_buckets(slo: Slo, catalogue: Catalogue) -> float:
    """The target in the unit of the histogram's bounds."""
    return slo.target / catalogue.signals_of_rules[slo.signal].readings[0].scale


def _le(bound: float) -> str:
    """Go writes le="1", Python le="1.0"."""
    text = number(bound)
    return f"{text}|{text}[.]0" if float(bound).is_integer() else text.replace(".", "[.]")

"""The events of an objective as PromQL: all and bad ones per second, by model and by the tier and role of the pods."""

from __future__ import annotations

from collections.abc import Sequence

from inferdoc.catalogue.load import Catalogue
from inferdoc.catalogue.signal import WIDE
from inferdoc.catalogue.slo import Audience, Slo, events_of, narrower
from inferdoc.generate.pod_info import INFO, POD, joined, joined_to_engines, joined_where_known
from inferdoc.judging.conditions.render import clause, number
from inferdoc.source.plan import matchers
from inferdoc.source.reads import Matcher, selector

BY = ("cluster", "namespace", "model_name", "tier", "role")
SHOWN_BY = ("cluster", "namespace", "pod", "model_name")
"""What engines are told apart by before the tier and role of their pod are joined."""
ABOVE = ("cluster", "namespace", "model_name")
LABELS = {"model": "model_name", "tier": "tier", "role": "role"}
"""What a scope names, and the label of the info series of pods that holds it."""
ENGINES = "vllm:"
"""Series that only engines have."""


def events(slo: Slo, catalogue: Catalogue, recorded: str, window: str) -> tuple[str, str]:
    """All and bad events per second, without those that a narrower objective speaks for. recorded: the name under which
    all are recorded first."""
    parts = [other.scope for other in narrower(slo, catalogue.slos)]
    above = catalogue.signals[slo.signal].level in WIDE
    histogram = slo.histogram(catalogue.signals)
    if histogram is not None:
        match = matchers(catalogue.signals[slo.signal].readings[0].match)
        every = _of_scope(f"{histogram}_count", match, slo.scope, parts, above, window)
        good = (*match, ("le", "=~", _le(in_buckets(slo, catalogue))))
        return every, f"{recorded}\n- {_of_scope(f'{histogram}_bucket', good, slo.scope, [], above, window)}"
    counted = events_of(catalogue.signals[slo.signal])
    assert counted is not None
    bad, total = counted
    every = _of_scope(str(total.rate), matchers(total.match), slo.scope, parts, above, window)
    wrong = _of_scope(str(bad.rate), matchers(bad.match), slo.scope, [], above, window)
    return every, f"{clause(f'{wrong}{chr(10)}and {recorded}')}\nor 0 * {recorded}"


def seconds(slo: Slo, catalogue: Catalogue, window: str) -> str:
    """What the events of a latency take together, per second."""
    signal = catalogue.signals[slo.signal]
    parts = [other.scope for other in narrower(slo, catalogue.slos)]
    name, match = f"{slo.histogram(catalogue.signals)}_sum", matchers(signal.readings[0].match)
    return _of_scope(name, match, slo.scope, parts, signal.level in WIDE, window)


def _of_scope(
    name: str, match: Sequence[Matcher], scope: Audience, without: list[Audience], above: bool, window: str
) -> str:
    """Events per second of what is in a scope, and not in one of its parts."""
    text = _rate(name, match, scope, above, window)
    for other in without:
        text = clause(f"{text}\nunless {_rate(name, match, other, above, window)}")
    return text


def _rate(name: str, match: Sequence[Matcher], scope: Audience, above: bool, window: str) -> str:
    """Events per second by what the rules split: of engines with the tier and role of their pod, of what is counted
    above the pods by model."""
    own: list[Matcher] = [*match, *((label, "=", value) for label, value in scope.tenant)]
    if scope.model is not None:
        own.append((LABELS["model"], "=", scope.model))
    inner = f"sum by ({', '.join(SHOWN_BY)}) (rate({selector(name, tuple(own))}[{window}]))"
    if above:
        return inner.replace(f"({', '.join(SHOWN_BY)})", f"({', '.join(ABOVE)})", 1)
    pool: list[Matcher] = [(LABELS[key], "=", value) for key, value in scope.fields.items() if key != "model"]
    known = joined_to_engines(inner) if name.startswith(ENGINES) else joined_where_known(inner)
    text = joined(inner) if pool else known
    if pool:
        text = f"{clause(text)}\nand on ({', '.join(POD)}) {selector(INFO, tuple(pool))}"
    return f"sum by ({', '.join(BY)}) {clause(text)}"


def in_buckets(slo: Slo, catalogue: Catalogue) -> float:
    """The target in the unit of the histogram's bounds."""
    return slo.target / catalogue.signals[slo.signal].readings[0].scale


def _le(bound: float) -> str:
    """Go writes le="1", Python le="1.0"."""
    text = number(bound)
    return f"{text}|{text}[.]0" if float(bound).is_integer() else text.replace(".", "[.]")

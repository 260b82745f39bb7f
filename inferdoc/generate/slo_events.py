"""The events of an objective as PromQL: all and bad ones per second, by model and by the tier and role of the pods."""

from __future__ import annotations

import re

from inferdoc.catalogue.load import Catalogue
from inferdoc.catalogue.record_names import INFO
from inferdoc.catalogue.signal import WIDE
from inferdoc.catalogue.slo import OF_PODS, Audience, Slo, events_of, narrower
from inferdoc.generate.every_engine import Series, any_of, series_of, with_ray
from inferdoc.generate.pod_info import POD, joined, joined_to_engines, joined_where_known
from inferdoc.judging.conditions.render import ENGINES, clause, number
from inferdoc.source.plan import matchers
from inferdoc.source.reads import Matcher, selector

BY = ("cluster", "namespace", "model_name", "tier", "role")
SHOWN_BY = ("cluster", "namespace", "pod", "model_name")
"""What distinguishes engines before the tier and role of their pod are joined."""
ABOVE = ("cluster", "namespace", "model_name")
MEANS = {"ttft": "ttft_mean", "tpot_request": "itl_mean"}
"""The signal whose histograms show a latency first, of every engine: a gap between two tokens is counted as soon as it
is over, the time per token of a request when it ends, which may be never."""
TOKENS = "vllm:generation_tokens_total"
"""vLLM counts a gap per step, which gives several tokens under speculative decoding: its tokens are counted."""
GAPS = 20
"""Tokens that weigh as one event: own choice. Streams of one batch have the same gaps."""
PERCENTILE = re.compile(r"_p\d+$")
LABELS = {"cluster": "cluster", "namespace": "namespace", "model": "model_name", "tier": "tier", "role": "role"}
"""What a scope names, and the label that holds it: of the series, or (OF_PODS) of the info series of their pods."""


def events(slo: Slo, catalogue: Catalogue, recorded: str, reading: str) -> tuple[str, str]:
    """All and bad events, without those that a narrower objective speaks for. recorded: the name under which all are
    recorded first; reading: what is done with a series, which stands where {} does."""
    parts = [other.scope for other in narrower(slo, catalogue.slos)]
    above = catalogue.signals_of_rules[slo.signal].level in WIDE
    histogram = slo.histogram(catalogue.signals_of_rules)
    if histogram is not None:
        match = tuple(matchers(catalogue.signals_of_rules[slo.signal].readings[0].match))
        every = _of_scope(_named(f"{histogram}_count", match), slo.scope, parts, above, reading)
        good = _named(f"{histogram}_bucket", (*match, ("le", "=~", _le(in_buckets(slo, catalogue)))))
        return every, f"{recorded}\n- {_of_scope(good, slo.scope, [], above, reading)}"
    counted = events_of(catalogue.signals_of_rules[slo.signal])
    assert counted is not None
    bad, total = counted
    every = _of_scope(_named(str(total.rate), tuple(matchers(total.match))), slo.scope, parts, above, reading)
    wrong = _of_scope(_named(str(bad.rate), tuple(matchers(bad.match))), slo.scope, [], above, reading)
    return every, f"{clause(f'{wrong}{chr(10)}and {recorded}')}\nor 0 * {recorded}"


def of_latency(slo: Slo, catalogue: Catalogue, reading: str) -> tuple[str, str]:
    """What the events of a latency take together, and how many there are: by pod, of what is counted above the pods by
    model. reading: what is done with a series, which stands where {} does."""
    signal, parts = catalogue.signals_of_rules[slo.signal], [other.scope for other in narrower(slo, catalogue.slos)]
    took, every = (
        _each(series, slo.scope, parts, signal.level in WIDE, reading) for series in mean_series(slo, catalogue)
    )
    return _in_events(slo, took), _in_events(slo, every)


def of_engines(slo: Slo, catalogue: Catalogue, reading: str) -> tuple[str, str]:
    """The same of every engine with this histogram by pod, without the labels of those whom the objective covers."""
    took, every = (_in_events(slo, _counted(each, slo.scope, False, reading)) for each in mean_series(slo, catalogue))
    return took, every


def counted_as(slo: Slo) -> str:
    """What its mean is of: gaps between tokens, which are known before the request ends, or its own events."""
    return "gaps" if _base(slo) in MEANS and _base(slo) != "ttft" else "all"


def mean_series(slo: Slo, catalogue: Catalogue) -> tuple[list[Series], list[Series]]:
    """The counters that the mean of a latency is made of, of every engine that has one: seconds, and events."""
    base, signal = _base(slo), catalogue.signals_of_rules[slo.signal]
    histograms = [(str(slo.histogram(catalogue.signals_of_rules)), tuple(matchers(signal.readings[0].match)))]
    if base in MEANS:
        histograms = list(series_of(catalogue, MEANS[base]))
    counts = [(f"{name}_count", match) for name, match in histograms]
    if counted_as(slo) == "gaps":
        counts = [*_named(TOKENS, ()), *(each for each in counts if "vllm" not in each[0])]
    return [(f"{name}_sum", match) for name, match in histograms], counts


def _base(slo: Slo) -> str:
    return PERCENTILE.sub("", slo.signal)


def _in_events(slo: Slo, text: str) -> str:
    return text if counted_as(slo) == "all" else f"{number(1 / GAPS)} * {clause(text)}"


def _named(name: str, match: tuple[Matcher, ...]) -> list[Series]:
    return [(each, match) for each in with_ray(name)]


def _each(series: list[Series], scope: Audience, without: list[Audience], above: bool, reading: str) -> str:
    """Events of what is in a scope, and not in one of its parts."""
    text = _shown(series, scope, above, reading)
    for other in without:
        text = f"{clause(text)}\nunless {clause(_shown(series, other, above, reading))}"
    return text


def _of_scope(series: list[Series], scope: Audience, without: list[Audience], above: bool, reading: str) -> str:
    """The same by what the rules split: of engines by the tier and role of their pod."""
    text = _each(series, scope, without, above, reading)
    return text if above else f"sum by ({', '.join(BY)}) {clause(text)}"


def _counted(series: list[Series], scope: Audience, above: bool, reading: str) -> str:
    own: list[Matcher] = [(label, "=", value) for label, value in scope.tenant]
    own += [(LABELS[key], "=", value) for key, value in scope.fields.items() if key not in OF_PODS]
    events = any_of(reading.format(selector(name, (*match, *own))) for name, match in series)
    return f"sum by ({', '.join(ABOVE if above else SHOWN_BY)}) ({events})"


def _shown(series: list[Series], scope: Audience, above: bool, reading: str) -> str:
    """Events of engines by pod, with its tier and role; of what is counted above the pods by model."""
    inner = _counted(series, scope, above, reading)
    if above:
        return inner
    pool: list[Matcher] = [(LABELS[key], "=", value) for key, value in scope.fields.items() if key in OF_PODS]
    if not pool:
        return joined_to_engines(inner) if series[0][0].startswith(ENGINES) else joined_where_known(inner)
    return f"{clause(joined(inner))}\nand on ({', '.join(POD)}) {selector(INFO, tuple(pool))}"


def in_buckets(slo: Slo, catalogue: Catalogue) -> float:
    """The target in the unit of the histogram's bounds."""
    return slo.target / catalogue.signals_of_rules[slo.signal].readings[0].scale


def _le(bound: float) -> str:
    """Go writes le="1", Python le="1.0"."""
    text = number(bound)
    return f"{text}|{text}[.]0" if float(bound).is_integer() else text.replace(".", "[.]")


UNKNOWN = "unexplained-anomaly"
"""The cause of an alert about impact whose cause it does not know."""
NOW = "2m"
"""The newest window: two minutes have samples enough where pages are read every 30 s. Those of an hour come later."""


def record_name(slo: Slo, what: str, operation: str) -> str:
    """The record of an objective by model."""
    return f"model:inferdoc_slo_{slo.id.replace('-', '_')}_{what}:{operation}"


def alert_name(ending: str) -> str:
    """The alert of all objectives: InferdocSloOutage. The label `slo` names the objective."""
    return f"InferdocSlo{ending}"

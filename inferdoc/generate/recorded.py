"""Signals under the names of recording rules, which rules then share instead of repeating long expressions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

import msgspec

from inferdoc.catalogue.conditions import Condition, OfSignal, Presence
from inferdoc.catalogue.load import Catalogue
from inferdoc.catalogue.observation import Dictionary
from inferdoc.catalogue.record_names import (
    EXPORTERS_RECORD,
    INFO,
    OF_OBSERVATIONS,
    PREFIX,
    ROUTERS_RECORD,
    SEEN_RECORD,
    fact,
    observations,
)
from inferdoc.catalogue.signal import Level, Reading
from inferdoc.fleet.members import Assignment
from inferdoc.generate.baseline_rules import PODS_ALONE, UsualPast
from inferdoc.generate.every_engine import expanded
from inferdoc.generate.pod_info import CARDS, POD, joined, joined_where_known, pod_records
from inferdoc.judging.conditions.render import (
    BY_IN_RULES,
    ENGINES,
    FEWEST_EVENTS,
    JOIN,
    LIKE,
    MIN_OBSERVATIONS,
    POOL,
    Expression,
    Rendering,
    clause,
    owner,
)
from inferdoc.source.reads import Matcher, selector

INTERVAL = "30s"
"""How often what may page is judged."""

SEEN_EXPR = "group by (cluster, namespace, job, instance, pod, model_name) (present_over_time(<running>[1d]))"

ROUTER_PAGES = '{__name__=~"llm_d_epp_request_total|inference_objective_request_total|inference_model_request_total"}'
ROUTERS_EXPR = f"group by (cluster, namespace, job, instance, pod) (present_over_time({ROUTER_PAGES}[1d]))"

WORKLOADS = f'{{__name__=~"{CARDS}|kube_pod_container_status_restarts_total|container_cpu_cfs_periods_total"}}'
"""Series by which exporters beside the engines report pods: one of each kind is enough."""
GPUS_RECORD, LOST_RECORD = "pod:inferdoc_gpus:count", "pod:inferdoc_lost_gpus:count"
SERVED_RECORD = "model:inferdoc_served:rate2m"
SERVED_EXPR = "sum by (cluster, namespace, model_name) (rate(<request_rate>[2m]))"

BEHIND = (
    ("exported_namespace", "(.+)"),
    ("destination_service", "[^.]+[.]([^.]+)[.]svc([.].*)?"),
    ("envoy_cluster_name", "(?:httproute/|outbound[|].*[|][^.]+[.])([^/.]+)(?:/.*|[.]svc.*)"),
)
"""The labels by which an ingress controller, Istio and Envoy name the namespace behind them, beside their own."""
WITH_ENGINES = f"and on (cluster, namespace) {SEEN_RECORD}"


def _of_gateways(text: str) -> str:
    for label, pattern in BEHIND:
        text = f'label_replace({text}, "namespace", "$1", "{label}", "{pattern}")'
    return f"sum by (cluster, namespace, job) ({text})"


def _share(failed: str, every: str, window: str) -> str:
    events = _of_gateways(f"increase({every}[{window}])")
    return f"{_of_gateways(f'increase({failed}[{window}])')}\n/ ({events} >= 20)"


def _times_usual(latency: str, window: str, limit: float) -> str:
    took, every = (_of_gateways(f"increase({latency}_{part}[{window}])") for part in ("sum", "count"))
    before = [_of_gateways(f"last_over_time({latency}_{part}[5m] offset {window})") for part in ("sum", "count")]
    return f"({took} / ({every} >= 10) > {limit:g})\n/ ({before[0]} / ({before[1]} >= 1000))"


GATEWAY_RECORDS = {
    "router:inferdoc_gateway_failed:ratio2m": f"""\
(
  {_share("envoy_cluster_upstream_rq_timeout", "envoy_cluster_upstream_rq_total", "2m")} > 0.1
  or {_share("<router_errors>", "<router_request_rate>", "2m")}
  or {_share("<router_errors>", "<router_request_rate>", "5m")} > 0.5
)
unless on (cluster, namespace, job) {ROUTER_PAGES}
{WITH_ENGINES}""",
    "router:inferdoc_gateway_unended:ratio5m": """\
1 - sum by (cluster, namespace, job) (rate(<router_unended_share>[5m]))
/ (sum by (cluster, namespace, job) (min_over_time(<router_running>[5m])) >= 10)
and sum by (cluster, namespace, job) (min_over_time(<router_running>[2m] offset 5m)) >= 0""",
    "router:inferdoc_gateway_slower:ratio10m": f"""\
(
  {_times_usual("<router_ttft_mean>", "2m", 1)}
  or {_times_usual("<router_e2e_mean>", "10m", 10)}
)
{WITH_ENGINES}""",
}
"""Of at least 20 requests the share that fails at any gateway but a router whose errors separate bad requests, or that
Envoy cuts at its timeout; of at least 10 in flight the share that does not end; and how many times longer 10 requests
take than all since the gateway started: first tokens beyond 1 s, above which people lose their flow of thought (Nielsen
1993), or whole requests beyond 10 s, four times the target in alerts/slo.yaml."""
GATEWAY_FAILED, GATEWAY_UNENDED, GATEWAY_SLOWER = GATEWAY_RECORDS


def exported_pods(offset: str = "") -> str:
    """The pods that exporters report, each with the target that does. offset: PromQL, ` offset 1h`."""
    labels = (*POD, "exported_namespace", "exported_pod", "job", "instance")
    found = owner(f"group by ({', '.join(labels)}) ({WORKLOADS}{offset})")
    return f"group by ({', '.join((*POD, 'job', 'instance'))}) ({found})"


JOINED: Mapping[Level, tuple[str, ...]] = {"engine": POOL, "target": ("model_name", *POOL), "gpu": POOL}
"""Labels that the info series gives it."""
RECORDED_LABELS = {level: (*labels, *JOINED.get(level, ())) for level, labels in PODS_ALONE.items()}

METRIC = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
LEVELS = (
    *(("engine", BY_IN_RULES["engine"]), ("gpu", BY_IN_RULES["gpu"]), ("router", BY_IN_RULES["router"])),
    *(("pod", JOIN["target"]), ("model", ("cluster", "namespace", "model_name"))),
)
"""What is about so much, the closest first, by the labels that it keeps."""


@dataclass
class Records:
    """Recording rules by name, in the order in which one needs the other: what pods are, signals now, then their usual
    values, then observations: series of those for whom one holds, with the value of its signal. beyond: by the name of
    a usual value its text for those beyond half of their usual swing; None where a reader needs it of all."""

    pods: dict[str, str] = field(default_factory=dict)
    now: dict[str, str] = field(default_factory=dict)
    usual: dict[str, str] = field(default_factory=dict)
    observations: dict[str, str] = field(default_factory=dict)
    beyond: dict[str, str | None] = field(default_factory=dict)

    @property
    def all(self) -> dict[str, str]:
        """All of them."""
        return {**self.pods, **self.now, **self.usual, **self.observations}


@dataclass(frozen=True)
class _Plain(Rendering):
    """Says signals by raw series. former: by the name of a series, those it had before."""

    former: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def however_spelled(self, term: str, certain: Sequence[str]) -> str:
        """If nothing beside it shows another spelling, the default stands for what is under none of the names."""
        known = any(self.former.get(word) for text in certain for word in METRIC.findall(text))
        return term if known else " or ".join(dict.fromkeys([term, *spelled(term, self.former)]))


@dataclass(frozen=True)
class Recorded(Rendering):
    """Says signals by recorded names, and remembers in `records` what has to be recorded for them.

    extra: matchers on the recorded series, such as the role a cause is about. former: by the name of a series, those it
    had before. observed: names of observations by their condition. texts: by window and signal, the name and text of
    its record, None if PromQL cannot express it: as far as they were used, by whatever rendering of the catalogue.
    """

    records: Records = field(default_factory=Records)
    former: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    observed: Mapping[Condition, str] = field(default_factory=dict)
    texts: dict[tuple[str, str], tuple[str, str] | None] = field(default_factory=dict)

    def once(self, condition: Condition, render: Callable[[Rendering], Expression | None]) -> Expression | None:
        """An observation by the name of its record; what has no name of its own, as it is."""
        name = self.observed.get(fact(condition))
        if name is None or isinstance(condition, Presence):
            return render(self)
        expression = render(replace(self, extra=()))
        if expression is None:
            return None
        name = f"{self._level_of(condition, expression)}{PREFIX}{name}{OF_OBSERVATIONS}"
        record = _once(self.records.observations, name, expression.text)
        return Expression(selector(record, self.extra), expression.by)

    def _level_of(self, condition: Condition, expression: Expression) -> str:
        """The level of an observation's record: whom it is about."""
        if isinstance(condition, OfSignal) and condition.scope == "own":
            return self.level(condition.signal)
        return next((level for level, labels in LEVELS if set(labels) <= set(expression.by)), "namespace")

    def signal(self, name: str) -> str | None:
        record = self._record(name)
        return None if record is None else selector(record, self.extra)

    def present(self, name: str) -> str | None:
        text = self._any_reading(name, lambda plain: plain.present(name))
        return None if text is None else self._keep(self.records.now, name, "present", self._joined(name, text))

    def over(self, name: str, length: str) -> str | None:
        now = self.signal(name)
        return None if now is None else f"{now}[{length}]"

    def usual(self, name: str, beyond: bool | None = None) -> str | None:
        past = self._past(name)
        if past is None:
            return None
        if past.state:  # a mean is cheap, and a record of it a series of each GPU that has no fault
            return clause(past.middle)
        if past.has_peers:
            self.records.usual.setdefault(past.peers_record, past.peers)
        text = None if beyond is None else past.middle_beyond(beyond, self._swing(name, past, beyond))
        record = _once(self.records.usual, self._name(name, f"median{self.history}"), past.middle)
        self.records.beyond[record] = text if self.records.beyond.get(record, text) == text else None
        return selector(record, self.extra)

    def _swing(self, name: str, past: UsualPast, up: bool) -> str:
        record = f"{past.alike_level}:inferdoc_{name}:{'rise' if up else 'fall'}{self.history}"
        return _once(self.records.usual, record, past.swing(up))

    def edge(self, name: str, up: bool) -> str | None:
        """The usual value and how far like members usually swing from theirs: that is a matter of their work, so it is
        recorded once for all of them. What is on or off does not swing."""
        past, usual = self._past(name), self.usual(name, up)
        if past is None or usual is None or past.state:
            return None
        swing = selector(self._swing(name, past, up), self.extra)
        return f"{usual} {'+' if up else '-'} on ({', '.join(past.alike)}) group_left () {swing}"

    def _past(self, name: str) -> UsualPast | None:
        record = self._record(name)
        stand_in = self.tiers.stand_ins.get(name)
        figure = None if stand_in is None else stand_in.value
        reading = self._plain.reading(name)
        if record is None or reading is None:
            return None
        signal, past = self.signals[name], UsualPast(record, self.level(name), self.history, self.lag, figure)
        return replace(past, harm=signal.harm, fills=_fills(reading), state=signal.unit == "bool")

    def peers(self, name: str) -> str | None:
        """Not recorded: one more series of each member, where a few rules read it."""
        record, like = self._record(name), ", ".join(LIKE[self.level(name)])
        return record and clause(
            f"(sum by ({like}) ({record}) - on ({like}) group_right () {record})\n"
            f"/ on ({like}) group_left () ((count by ({like}) ({record}) > 1) - 1)"
        )

    def few(self, name: str, limit: float) -> str | None:
        if self.signals[name].unit != "ratio" or limit * MIN_OBSERVATIONS >= FEWEST_EVENTS:
            return None
        volume = self._any_reading(name, lambda plain: plain.volume(name))
        if volume is None:
            return None
        events = self._keep(self.records.now, name, f"events{self.window}", self._joined(name, volume))
        return f"{self.signal(name)} * {events} >= {FEWEST_EVENTS}"

    def by_limit(self, value: float | str, name: str) -> list[tuple[Rendering, float]]:
        """Tiers that have a limit of their own, those of the same together, and all others."""
        own = self.tiers.own_limits(value) if isinstance(value, str) and self.level(name) in JOINED else {}
        rest = (("tier", "!~", "|".join(own)),) if own else ()
        (_, limit), *_ = super().by_limit(value, name)
        alike: dict[float, list[str]] = {}
        for tier, figure in own.items():
            alike.setdefault(figure, []).append(tier)
        of_tiers = [
            (self._narrowed(("tier", "=~" if len(tiers) > 1 else "=", "|".join(tiers))), figure)
            for figure, tiers in alike.items()
        ]
        return [*of_tiers, (self._narrowed(*rest), limit)]

    def _narrowed(self, *match: Matcher) -> Rendering:
        return replace(self, extra=(*self.extra, *match)) if match else self

    @property
    def _plain(self) -> Rendering:
        plain = _Plain(
            self.signals, self.tiers, window=self.window, smooth=True, called=self.called, former=self.former
        )
        return replace(plain, engines=SEEN_RECORD, lost=LOST_RECORD, kept=PODS_ALONE)

    def _joined(self, name: str, text: str) -> str:
        """The signal with role and tier of its pod; exporters beside the engines name other pods too, of whose GPUs no
        cause names."""
        level = self.level(name)
        if level not in JOINED:
            return text
        if level != "target":
            return joined(text)
        return joined(text, JOINED[level]) if self.of_engines(name) else joined_where_known(text, JOINED[level])

    def of_engines(self, name: str) -> bool:
        """Whether no other pods than those of engines can show a signal: each of its readings needs series that are
        their own."""
        return all(map(self._of_engines, self.signals[name].readings))

    def _of_engines(self, reading: Reading) -> bool:
        if reading.telemetry:
            return True
        needed = [term for term in reading.terms.values() if term.default is None]
        nested = (term.signal for term in needed if term.signal)
        series = [part.gauge or part.rate or part.increase or part.change or "" for part in needed]
        own = (each.startswith(ENGINES) for each in (series if reading.terms else reading.series))
        return any(own) or any(map(self.of_engines, nested))

    def _record(self, name: str) -> str | None:
        """The name under which the signal is recorded; None where PromQL cannot say it."""
        key = self.window, name
        if key not in self.texts:
            self.texts[key] = self._text(name)
        named = self.texts[key]
        return None if named is None else _once(self.records.now, *named)

    def _text(self, name: str) -> tuple[str, str] | None:
        text, reading = self._any_reading(name, lambda plain: plain.sound(name)), self._plain.reading(name)
        if text is None or reading is None:
            return None
        return self._name(self._without_mean(name), self._operation(name, reading)), self._joined(name, text)

    def _without_mean(self, name: str) -> str:
        """The signal with the same readings without `over: mean`, else the signal: gauges are recorded as means."""
        signal = self.signals[name]
        plain = tuple(
            msgspec.structs.replace(one, over="last" if one.over == "mean" else one.over) for one in signal.readings
        )
        if plain == signal.readings:
            return name
        same = (other for other, one in self.signals.items() if one.readings == plain and one.level == signal.level)
        return next(same, name)

    def _any_reading(self, name: str, render: Callable[[Rendering], str | None]) -> str | None:
        """The signal, or what it rests on, by the first of its readings that is there, under current names, then under
        former ones: one series that an exporter lacks or spells in another way silences nothing."""
        signal = self.signals[name]
        texts = []
        for reading in signal.readings:
            alone = {**self.signals, name: msgspec.structs.replace(signal, readings=(reading,))}
            text = render(replace(self._plain, signals=alone))
            if text is not None:
                texts += [text, *spelled(text, self.former)]
        return "\nor ".join(dict.fromkeys(texts)) or None

    def _keep(self, records: dict[str, str], name: str, operation: str, text: str) -> str:
        return selector(_once(records, self._name(name, operation), text), self.extra)

    def _name(self, name: str, operation: str) -> str:
        return f"{self.level(name)}{PREFIX}{name}:{operation}"

    def _operation(self, name: str, reading: Reading) -> str:
        if self.signals[name].unit == "bool" or reading.telemetry:
            return "last"
        if reading.gauge:
            return f"{'max' if reading.over == 'max' else 'avg'}{self.window}"
        return f"{'increase' if reading.increase else 'rate'}{self.window}"


def spelled(text: str, former: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    """An expression under former names of its metrics, newest first. A name beside which its former ones stand already
    has been seen to."""
    words = set(METRIC.findall(text))
    older = {word: former.get(word, ()) for word in words if words.isdisjoint(former.get(word, ()))}
    for place in range(max(map(len, older.values()), default=0)):

        def name(found: re.Match[str], place: int = place) -> str:
            names = older.get(found[0], ())
            return names[min(place, len(names) - 1)] if names else found[0]

        yield METRIC.sub(name, text)


def _once(records: dict[str, str], name: str, text: str) -> str:
    """The name under which a text is recorded: what two names say alike is recorded under the first of them."""
    if name not in records:
        name = next((other for other, recorded_text in records.items() if recorded_text == text), name)
        records.setdefault(name, text)
    return name


def _fills(reading: Reading) -> bool:
    """Whether a reading grows until its window is full: events per second and sums of them, no mean, no share."""
    terms = () if "/" in (reading.formula or "") else reading.terms.values()
    return any(part.rate or part.increase for part in (reading, *terms))


def recorded(catalogue: Catalogue, assignments: Sequence[Assignment] = ()) -> Recorded:
    """A fresh rendering over a catalogue, with the info series of the pods recorded and no signal yet."""
    plain = Rendering(catalogue.signals_of_rules, catalogue.tiers, called=catalogue.aliases.called)
    pods = {
        SEEN_RECORD: expanded(SEEN_EXPR, catalogue),
        ROUTERS_RECORD: ROUTERS_EXPR,
        **pod_records(catalogue.tiers, SEEN_RECORD, assignments),
        EXPORTERS_RECORD: f"group by (cluster, job, instance) ({exported_pods()} and on ({', '.join(POD)}) {INFO})",
        GPUS_RECORD: plain.gpus_of_pods(),
        LOST_RECORD: plain.lost_gpus(GPUS_RECORD),
        SERVED_RECORD: expanded(SERVED_EXPR, catalogue),
        **{name: expanded(text, catalogue) for name, text in GATEWAY_RECORDS.items()},
    }
    return Recorded(
        catalogue.signals_of_rules,
        catalogue.tiers,
        records=Records(pods),
        former=catalogue.aliases.former,
        called=catalogue.aliases.called,
        observed=observations(catalogue),
        texts=_texts(catalogue.dictionary),
    )


@lru_cache(maxsize=4)
def _texts(dictionary: Dictionary) -> dict[tuple[str, str], tuple[str, str] | None]:
    """What the renderings of one catalogue share: each test of each limit has a rendering of its own. dictionary: that
    of the catalogue, which is itself equal to another one whose files were read at another time."""
    return {}

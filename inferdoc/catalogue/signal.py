"""What a signal, an exporter and a hardware tier look like in YAML."""

from __future__ import annotations

import re
from typing import Literal

import msgspec

REQUIRED_TIER = "unknown"
"""Of tiers.yaml: cautious values for hardware that nothing identifies."""
TRANSFER = "transfer_seconds_per_gb"
"""The signal whose band follows from the network of a tier."""
CAUTIOUS_HOST, CAUTIOUS_NIC = 12.5e9, 12.5
"""Bytes/s and Gb/s if not even that tier has them, as a tiers.yaml of another release may not: PCIe Gen3, and the
slowest network of a tier."""

Direction = Literal["up", "down", "either", "info"]
Level = Literal["engine", "target", "gpu", "router", "tenant", "namespace"]
"""What a signal is about. router: what one router says of all its pods; tenant: one class of requests (fairness id and
priority) at a router; namespace: all workloads of a namespace, as a controller sees them."""
WIDE: frozenset[Level] = frozenset({"router", "tenant", "namespace"})
"""Levels above the pod: a signal of theirs speaks for every pod of the namespace that serves the model."""
Over = Literal["last", "max", "mean"]
Telemetry = Literal[
    "lost_signals",
    "duplicate_targets",
    "missing_scrapes",
    "lost_gpus",
    "tokens_per_gpu_hour",
    "fleet_utilisation",
    "process_restarts",
    "recent_restarts",
    "restarts_in_an_hour",
    "router_restarts",
    "router_cpu_throttled",
    "engine_ends",
    "health_probe",
    "service_probe",
    "unread_while_healthy",
    "unhealthy_without_tokens",
]
"""What is worked out from the frame, the scrapes or the configuration, not read."""


class Former(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """An older spelling of a metric. until: last release that exposes it; note: how it was hidden or what differs."""

    name: str
    until: str | None = None
    note: str | None = None


class Metric(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """One metric family of an exporter, under its current name (counters with `_total`, histograms bare). bounds: of
    the buckets of a histogram as the current release ships it, +Inf left out."""

    type: Literal["counter", "gauge", "histogram", "summary", "info"]
    meaning: str
    unit: str | None = None
    labels: tuple[str, ...] = ()
    since: str | None = None
    until: str | None = None
    formerly: tuple[Former, ...] = ()
    bounds: tuple[float, ...] = ()
    needs: str | None = None
    note: str | None = None
    source: str | None = None
    born_at_first_event: bool = False


class Unneeded(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Families that nothing reads. names: a regular expression for whole names; because: why not."""

    names: str
    because: str


class LogLine(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A log line that carries what no metric does; pattern is a regular expression with named groups."""

    pattern: str
    meaning: str
    needs: str | None = None
    since: str | None = None
    source: str | None = None


class Term(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """One operand. Exactly one of gauge, rate, increase, change, signal is set.

    match: label -> value, or regular expression behind `~`, or negated behind `!` (`!~` for both).
    """

    gauge: str | None = None
    rate: str | None = None
    increase: str | None = None
    change: str | None = None
    signal: str | None = None
    match: dict[str, str] = {}
    over: Over = "last"
    agg: Literal["sum", "max", "min"] = "sum"
    default: float | None = None


class Reading(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """One way to read a signal; readings are tried in order for every entity.

    Exactly one of: gauge, rate, increase, change (a single term); quantile (of a histogram, with q); mean (sum over
    count of a histogram); formula (arithmetic over `terms`); label (the number in a label of an info metric, or
    with count_distinct the number of distinct comma-separated names in several labels of the samples stamped within the
    rate window); telemetry (what the judge derives from the scrapes themselves). codes: 1 while
    a gauge shows one of these, else 0 (error codes have no order). moved: of an info metric, how many of these labels
    have another value than when the entity was first seen; identity: a number that stands for the values of these
    labels together. cohort, of: a signal compared with groups the pod belongs to (other hardware tiers of its model,
    the blend over all tiers, the ranks of its deployment, its like).
    """

    gauge: str | None = None
    rate: str | None = None
    increase: str | None = None
    change: str | None = None
    quantile: str | None = None
    q: float | None = None
    mean: str | None = None
    formula: str | None = None
    terms: dict[str, Term] = {}
    codes: tuple[float, ...] = ()
    telemetry: Telemetry | None = None
    cohort: Literal["other-tiers", "over-other-tiers", "blend", "over-ranks", "ranks-skew", "unlike"] | None = None
    of: str | None = None
    info: str | None = None
    label: str | None = None
    moved: tuple[str, ...] = ()
    identity: tuple[str, ...] = ()
    count_distinct: tuple[str, ...] = ()
    match: dict[str, str] = {}
    over: Over = "last"
    agg: Literal["sum", "max", "min"] = "sum"
    scale: float = 1.0

    @property
    def series(self) -> tuple[str, ...]:
        """Names of the series that it is read from."""
        own = (self.gauge, self.rate, self.increase, self.change, self.info)
        parts = (self.quantile and f"{self.quantile}_bucket", self.mean and f"{self.mean}_count")
        terms = (name for t in self.terms.values() for name in (t.gauge, t.rate, t.increase, t.change))
        return tuple(dict.fromkeys(name for name in (*own, *parts, *terms) if name))

    @property
    def signals(self) -> tuple[str, ...]:
        """Names of the signals that it is worked out from."""
        terms = (term.signal for term in self.terms.values())
        return tuple(dict.fromkeys(name for name in (self.of, *terms) if name))


Page = Literal["engine", "part", "router", "beside"]
"""Whose page an exporter's is. engine: that of an engine; part: of something inside the process of an engine, on its
page (a KV connector); router: of what stands before engines and speaks for all of them; beside: of anything else, which
names whom it speaks of."""


class Exporter(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """One exporter: its metrics by current name. family: of a page of an engine, of a part of one or of a router, the
    first word of the series that are its own and nobody else's; prefixes_before: first words of earlier releases;
    whole: its page has every series from the start, but for those that need something or come with their first event;
    hands_on: engines of which its page shows the metrics, as far as the engine in it gives them; called: its own name
    of a label by the usual one; signals: how signals are read from it, after the readings of signals*.yaml, in order;
    flags: its own name of a flag by that of vLLM, which advice names; cannot: what people who know vLLM will look for
    and it does not show; unneeded: families that nothing reads, with the reason."""

    exporter: str
    title: str
    endpoint: str
    metrics: dict[str, Metric]
    page: Page = "beside"
    family: str | None = None
    whole: bool = False
    prefixes_before: tuple[str, ...] = ()
    hands_on: tuple[str, ...] = ()
    called: dict[str, str] = {}
    signals: dict[str, tuple[Reading, ...]] = {}
    flags: dict[str, str] = {}
    cannot: tuple[str, ...] = ()
    unneeded: tuple[Unneeded, ...] = ()
    log_lines: dict[str, LogLine] = {}
    notes: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()

    def why_unneeded(self, family: str) -> str | None:
        """Why nothing reads a family; None for one that nobody called unneeded."""
        return next((each.because for each in self.unneeded if re.fullmatch(each.names, family)), None)


class Signal(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A normalised quantity. floor: the smallest change that can matter, in its unit (below it nothing `rises`);
    top: the most it can be (1 for a share), least: the least: less is no measurement;
    harm: the direction that is bad for users; enable: what to enable if it is absent; feature: it exists only where an
    optional feature is in use (adapters, speculation, a KV connector), so its absence rules out causes of that
    feature; between_roles: it is about what prefill hands to decode, so where the roles run apart its absence is
    blindness; experts: only models with experts have it; unit: `bits` is a mask of
    reasons that hold clocks, `Xid` an error code of a GPU."""

    title: str
    unit: str
    harm: Direction
    level: Level
    readings: tuple[Reading, ...]
    floor: float = 0.0
    enable: str | None = None
    feature: bool = False
    between_roles: bool = False
    experts: bool = False
    note: str | None = None
    source: str | None = None
    top: float | None = None
    least: float = 0.0


class Marker(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What shows that something was changed. kind: config, version, capacity; either labels of an info metric, or a
    signal that moves only when somebody moves it. of_containers: it is of whatever runs, also of what serves nobody."""

    kind: Literal["config", "version", "capacity"]
    source: str
    of_containers: bool = False
    info: str | None = None
    labels: tuple[str, ...] = ()
    signal: str | None = None


class HealthRow(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """One row of the monitoring table. judge: against the band of the tier, the SLO of the configuration, or only its
    own past (trend). shows: observations that make it bad, whatever the bands say; only_with: observations of which one
    must hold on the same pod before a band that is left is more than a note; do: what to do then."""

    title: str
    signals: tuple[str, ...]
    judge: Literal["band", "slo", "trend"]
    says: str
    do: str
    shows: tuple[str, ...] = ()
    only_with: tuple[str, ...] = ()


class Figure(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A number and where it stands."""

    value: float
    source: str


class Band(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A target band of one signal: inside [low, high] is good; warn and bad are the limits beyond which to act."""

    signal: str
    source: str
    low: float | None = None
    high: float | None = None
    warn: float | None = None
    bad: float | None = None
    roles: tuple[str, ...] = ()


class Card(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What DCGM reports of one GPU of a tier. watts: power limit; mhz: highest SM clock."""

    model_name: str
    watts: float
    idle_watts: float
    mhz: float
    memory_mhz: float
    source: str


class Tier(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A hardware tier. names: DCGM `modelName`s or AMD card models that mean it (regular expressions, any case).

    memory_gib, memory_gbps (GB/s), bf16_tflops (dense), link_gbps (GB/s per direction between GPUs, NVLink or PCIe);
    fp8_tflops, fp4_tflops (dense): absent where the hardware has no such arithmetic.
    host_gbps: GB/s that really move one way between a GPU and the memory of its host; nic_gbits: Gb/s one way of the
    network of one GPU; those of the unknown tier where they are left out. cold_start_s: time from pod creation to
    ready, worked out where it is left out (`Tiers.cold_start`). card: for simulated fleets. thresholds: named limits
    that recipes refer to. bands: overrides.
    """

    title: str
    names: tuple[str, ...]
    memory_gib: Figure
    memory_gbps: Figure
    bf16_tflops: Figure
    link_gbps: Figure
    fp8_tflops: Figure | None = None
    fp4_tflops: Figure | None = None
    host_gbps: Figure | None = None
    nic_gbits: Figure | None = None
    cold_start_s: Figure | None = None
    card: Card | None = None
    thresholds: dict[str, Figure] = {}
    bands: dict[str, Band] = {}

    @property
    def pattern(self) -> str:
        """`names` as one regular expression for the whole of a model name, in any case; empty where there are none.

        What GPU feature discovery appends to a product (time slicing, MIG) belongs to it. Source:
        github.com/NVIDIA/k8s-device-plugin, docs/gpu-feature-discovery.
        """
        names = "|".join(name.replace(" ", "[ _-]") for name in self.names)
        return f"({names})(-SHARED|-MIG.*)?" if names else ""


class RoleSigns(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What shows the role of a pod. labels: of its series; pod_labels: of kube_pod_labels; words: role -> regular
    expression for the whole of a label or of the pod's name."""

    labels: tuple[str, ...]
    pod_labels: tuple[str, ...]
    words: dict[Literal["prefill", "decode", "both"], str]


class CardSigns(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Labels that name a GPU. labels: of GPU exporters; node_labels: of kube_node_labels."""

    labels: tuple[str, ...]
    node_labels: tuple[str, ...]


class Tiers(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """tiers.yaml: defaults apply to every tier that does not say otherwise. stand_ins: by signal, what a rule takes for
    usual where nobody recorded anything yet."""

    thresholds: dict[str, Figure]
    bands: dict[str, Band]
    tiers: dict[str, Tier]
    roles: RoleSigns
    cards: CardSigns
    storage: dict[str, Figure]
    engine_start_s: Figure
    stand_ins: dict[str, Figure] = {}

    def limit(self, name: str, tier: str) -> float:
        """A named limit: that of a tier where it has one of its own, else that of all."""
        known = self.tiers.get(tier)
        figure = known.thresholds.get(name) if known else None
        return (figure or self.thresholds[name]).value

    def host_rate(self, tier: str) -> float:
        """Bytes/s between a GPU of a tier and the memory of its host, one way."""
        known = self.tiers.get(tier)
        figure = (known.host_gbps if known else None) or self.tiers[REQUIRED_TIER].host_gbps
        return figure.value * 1e9 if figure else CAUTIOUS_HOST

    def nic_gbits(self, tier: str) -> float:
        """Gb/s of the network of one GPU of a tier, one way."""
        known = self.tiers.get(tier)
        figure = (known.nic_gbits if known else None) or self.tiers[REQUIRED_TIER].nic_gbits
        return figure.value if figure else CAUTIOUS_NIC

    def cold_start(self, tier: str) -> Figure:
        """Seconds from the creation of a pod of a tier to ready: as measured or given for it, else with weights that
        fill one GPU, read over the slowest storage."""
        known = self.tiers.get(tier) or self.tiers[REQUIRED_TIER]
        if known.cold_start_s is not None:
            return known.cold_start_s
        path = min(self.storage, key=lambda name: self.storage[name].value)
        seconds = self.start_seconds(tier, known.memory_gib.value * 2**30, path)
        return Figure(round(seconds), f"{known.memory_gib.value:g} GiB of weights over {path}, and the engine's start")

    def start_seconds(self, tier: str, weights: float, path: str, gpus: int = 1) -> float:
        """Seconds from the creation of a pod to ready. weights: bytes that its GPUs read together; path: of `storage`;
        gpus: that copy them from the memory of their hosts side by side."""
        rate = min(self.storage[path].value * 1e9, gpus * self.host_rate(tier))
        return self.engine_start_s.value + weights / rate

    def bands_of(self, tier: str) -> list[Band]:
        """Target bands on a tier, those that count more first: its own, that of its network, those of all tiers."""
        known = self.tiers.get(tier)
        return [*(known.bands.values() if known else ()), self._transfer_band(tier), *self.bands.values()]

    def _transfer_band(self, tier: str) -> Band:
        """Of seconds that a gigabyte of KV takes over the network of a GPU."""
        fastest = 8.0 / self.nic_gbits(tier)
        return Band(
            TRANSFER,
            "field guide, section 5.6: transfers reach 70 to 90 % of a network; good from half of it on (own choice); "
            "below a tenth they take another path (UCX over TCP)",
            high=fastest / 0.5,
            bad=fastest / 0.1,
        )

    def own_limits(self, name: str) -> dict[str, float]:
        """The tiers that have a limit of this name of their own, with it."""
        return {tier: each.thresholds[name].value for tier, each in self.tiers.items() if name in each.thresholds}

"""The diagnosis as a document: `inferdoc.diagnosis/v1`. The JSON Schema is generated from these classes."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

import msgspec

from inferdoc.catalogue.recipe import Certainty, Phase, ScopeLevel, Severity
from inferdoc.errors import InferdocError
from inferdoc.times import rfc3339

SCHEMA_ID = "inferdoc.diagnosis/v1"
BaselineKind = Literal[
    "calm-before",
    "history",
    "stored",
    "same-hour-yesterday",
    "last-week",
    "predecessors",
    "peers",
    "absolute",
    "chosen",
    "lifetime",
    "none",
]
AbsenceKind = Literal["off", "later", "blind"]
VerdictWord = Literal["healthy", "degraded", "critical", "unknown"]


def stamp(seconds: float) -> str:
    """RFC 3339 in UTC with milliseconds."""
    return rfc3339(round(seconds, 3), "milliseconds")


def seconds(moment: str) -> float:
    """A moment of the document in seconds since the epoch. Raises InferdocError if it is none: the document may be a
    file of somebody else."""
    try:
        return datetime.fromisoformat(moment).timestamp()
    except (ValueError, OverflowError):
        raise InferdocError(f"{moment[:40]!r} in the document is no time; write RFC 3339") from None


class Baseline(msgspec.Struct, rename={"from_": "from"}):
    """The part of the data that the window is compared with. name: of a stored baseline."""

    from_: str | None
    until: str | None
    kind: BaselineKind
    name: str | None = None


class Window(msgspec.Struct, rename={"from_": "from"}):
    """newest: when the newest sample in it was scraped; None without any."""

    from_: str
    until: str
    step_seconds: float
    baseline: Baseline
    newest: str | None = None


class SourceInfo(msgspec.Struct):
    """incomplete: what was not read, one line each; a diagnosis with such a line is never `healthy`."""

    kind: Literal["store", "prometheus"]
    location: str
    warnings: list[str]
    incomplete: list[str] = []


class PhaseSplit(msgspec.Struct):
    """Mean seconds a request spends in one phase, before and now."""

    phase: Phase
    baseline_seconds: float | None
    observed_seconds: float | None
    quantile: float | None = None


class Scope(msgspec.Struct):
    """Where it is. cluster, namespace: empty where no label shows it; of_pods: size of the pool; shared: what all the
    pods have in common and no like pod has (a node, a version, a setting): name -> value."""

    level: ScopeLevel
    model: str
    role: str
    tier: str
    namespace: str
    pods: list[str]
    of_pods: int
    shared: dict[str, str] = {}
    cluster: str = ""

    @property
    def place(self) -> list[tuple[str, str]]:
        """Its cluster and its namespace, each with its word, as far as labels show."""
        return [(word, value) for word, value in (("cluster", self.cluster), ("namespace", self.namespace)) if value]


class EvidenceItem(msgspec.Struct):
    """One observation that speaks for a finding. reference: what it was compared with; shape: whether it left its
    baseline at once or by degrees, times: how often it did in the window (null where that is unknown)."""

    signal: str
    statement: str
    role: Literal["symptom", "harm", "support"]
    entity: str
    baseline: float | None
    observed: float | None
    threshold: float | None
    unit: str
    since: str | None
    query: str | None
    reference: BaselineKind = "absolute"
    shape: Literal["step", "drift"] | None = None
    times: int | None = None


class StageStart(msgspec.Struct):
    index: int
    name: str
    began: str | None


class StageReached(msgspec.Struct):
    """The stage a cause is in, and when each stage that shows started."""

    index: int
    of: int
    name: str
    began: str | None = None
    reached: list[StageStart] = []


class Change(msgspec.Struct):
    """cause: the id of the load change that the change is, where a recipe knows it."""

    at: str
    kind: str
    entity: str
    detail: str
    cause: str | None = None


class RuledOut(msgspec.Struct):
    id: str
    because: str


class PredictedMove(msgspec.Struct):
    """One quantity as it is and as it would be after a step, and where that lies with 90 %."""

    name: str
    title: str
    unit: str
    now: float
    then: float
    low: float
    high: float


class StepPrediction(msgspec.Struct):
    """What a step would bring. changes: of settings, by key; guesses: what of it lies outside of what was measured."""

    changes: dict[str, str]
    moves: list[PredictedMove]
    guesses: list[str]


class NextStep(msgspec.Struct):
    """predicted: with `diagnose --predict`, of a step that names replicas or a setting."""

    do: str
    why: str
    cost: str
    undo: str
    command: str | None
    predicted: StepPrediction | None = None


class DecidedBy(msgspec.Struct):
    """The one observation that would decide between a finding and a candidate, and the command that gets it."""

    observation: str
    command: str


class Rival(msgspec.Struct):
    """Another cause that the observations might speak for. probability: that it is this one; together with that of the
    finding and of the other candidates at most 1."""

    id: str
    probability: float
    speaks_for: list[str]
    speaks_against: list[str]
    not_seen: list[str]
    decided_by: DecidedBy | None


class ClusterFact(msgspec.Struct):
    """What Kubernetes reports about a pod (`diagnose --kubernetes`), or a request to it (`--probe`). detail: in its
    words, secrets masked; sign, says: of `collectors/cluster.yaml`, where it is a known one."""

    pod: str
    kind: Literal["terminated", "waiting", "event", "log", "probe"]
    detail: str
    at: str | None
    sign: str | None
    says: str | None


class TraceLink(msgspec.Struct):
    """A slow request that was traced. pod: the engine, or the model where a router measured; signal: the latency;
    value: of this request, seconds."""

    pod: str
    signal: str
    value: float
    at: str
    trace_id: str
    url: str


class Occurrence(msgspec.Struct, rename={"from_": "from"}):
    """A time in which a cause shows, without a pause that is long enough for a baseline."""

    from_: str
    until: str


class Finding(msgspec.Struct):
    """One root. family: the mechanism that it is a case of; the id is that of the family where its causes cannot be
    distinguished, and members are these causes, whose probabilities sum to that of the finding; request_share: of the
    requests of its model and role, the part that its pods serve. imminent: nothing harms yet; the harm is
    extrapolated, and its evidence says when. probability: how often findings like this one were right on fleets that
    no rule was made on; differential: the next candidates; cost_per_hour: money in the currency of [prices] while it
    lasts, None where it maps to no GPU time, or without a price; cluster: what Kubernetes reports about its pods, with
    `diagnose --kubernetes`; traces: the slowest requests that were traced, with `[links] trace_url`; episodes: the
    times in which it shows, oldest first: more than one raises the severity by one."""

    id: str
    title: str
    severity: Severity
    certainty: Certainty
    score: float
    phase: Phase
    scope: Scope
    onset: str
    onset_uncertainty_seconds: float
    ongoing: bool
    ended: str | None
    evidence: list[EvidenceItem]
    stage: StageReached | None
    effects: list[str]
    change: Change | None
    ruled_out: list[RuledOut]
    next_steps: list[NextStep]
    runbook: str
    runbook_url: str | None
    dashboard_url: str | None
    family: str | None = None
    members: list[Rival] = []
    request_share: float | None = None
    imminent: bool = False
    probability: float | None = None
    differential: list[Rival] = []
    cost_per_hour: float | None = None
    cluster: list[ClusterFact] = []
    traces: list[TraceLink] = []
    episodes: list[Occurrence] = []

    def regrade(self, certainty: Certainty, probability: float | None) -> None:
        """Change how certain it is. What is left to the other candidates changes with it, so that all sum to 1."""
        if probability is not None and self.probability is not None:
            more = (1 - probability) / max(1 - self.probability, 1e-9)
            for rival in self.differential:
                rival.probability = round(rival.probability * more, 3)
            for member in self.members:
                member.probability = round(member.probability * probability / self.probability, 3)
        self.certainty, self.probability = certainty, probability


class NotJudged(msgspec.Struct):
    """A cause that could not be judged. missing: the signals without which it cannot; kind: `off` where they belong to
    a feature that is not in use, `later` where they come with their first event, `blind` where they could be seen."""

    id: str
    missing: list[str]
    enable: str
    kind: AbsenceKind = "blind"


class Gap(msgspec.Struct, rename={"from_": "from"}):
    entity: str
    from_: str
    until: str


class Scanned(msgspec.Struct):
    """Of a large fleet all pods are scanned for impacts, and pools that show any are read in full. pools: all of them;
    pools_read, pods_read: those read in full; by: what all pods were scanned by, their samples or the records of our
    rules."""

    pools: int
    pools_read: int
    pods_read: int
    by: Literal["samples", "records"] = "samples"


class UnreadNames(msgspec.Struct):
    """Families of series that look like those of an engine or a router and are not read. word: the first word of their
    names; families: how many; example: one of them; nearest: the declared family most like it; hidden: whether an
    engine is behind them of which nothing is read."""

    word: str
    families: int
    example: str
    nearest: str | None = None
    hidden: bool = False


class Coverage(msgspec.Struct):
    """What was there to look at. signals, gaps: of the pods that were read in full; scanned: None where all were;
    pods_without_metrics: pods that answer scrapes and show no metric of an engine; pods_without_some_metrics: those
    that lack one which pods of the same job show, or which the source lists; not_understood: names of series that no
    declaration explains; missing_pods: evidence of engine pods without any series, one line each."""

    pods: int
    targets: int
    signals_present: list[str]
    signals_absent: list[str]
    gaps: list[Gap]
    scanned: Scanned | None = None
    pods_without_metrics: list[str] = []
    pods_without_some_metrics: list[str] = []
    not_understood: list[UnreadNames] = []
    missing_pods: list[str] = []

    @property
    def depth(self) -> str:
        """How much of a scanned fleet was read in full, in words; empty where all of it was."""
        read = self.scanned
        if read is None:
            return ""
        by = " by what our rules recorded" if read.by == "records" else ""
        return f"scanned for impacts{by}; read in full: {read.pools_read} of {read.pools} pools, {read.pods_read} pods"


class Timing(msgspec.Struct):
    """What the answer took. split: queries that the server found too large, required in halves; slowest_query: the
    one that took longest, of a server."""

    read_seconds: float
    judge_seconds: float
    queries: int
    samples: int
    split: int = 0
    slowest_query: str | None = None
    slowest_seconds: float | None = None


class Elsewhere(msgspec.Struct):
    """A finding that does not concern the pods in focus."""

    id: str
    pods: list[str]


class FocusInfo(msgspec.Struct):
    """What the report is about, as requested; everything else was read and compared all the same. pods: in focus, of
    `of_pods` in all; elsewhere: what was found on others."""

    model: str | None
    namespace: str | None
    tier: str | None
    role: str | None
    pod: str | None
    pods: list[str]
    of_pods: int
    elsewhere: list[Elsewhere] = []
    cluster: str | None = None


class Rising(msgspec.Struct):
    """What has become worse, too new to be distinguished from a spike, or over too few requests. ask_again: when it can
    be, None where more requests decide; requests: over how many it was seen, None where it is too new."""

    signal: str
    entity: str
    baseline: float
    observed: float
    unit: str
    since: str
    ask_again: str | None = None
    requests: int | None = None


class Persistent(msgspec.Struct):
    """A state of `inferdoc audit` that holds in the window as well: nothing that changed. statement: what shows it;
    affects_users: whether it keeps the verdict from being healthy."""

    id: str
    title: str
    pods: list[str]
    of_pods: int
    statement: str
    affects_users: bool


class Stopped(msgspec.Struct):
    """Traffic of a model that stopped from one minute to the next. before: requests/s that were usual."""

    model: str
    before: float
    since: str


UnknownKind = Literal[
    "container-waiting",
    "scrape-error",
    "target-down",
    "metrics-unread",
    "probe-fails",
    "other-names",
    "no-engine-metrics",
    "idle",
    "no-latency",
]


class Unknown(msgspec.Struct):
    """Why no engine could be evaluated, and the next step. command: for a shell, None where there is none."""

    kind: UnknownKind
    because: str
    do: str
    command: str | None


class Diagnosis(msgspec.Struct):
    """What is wrong, since when, where, how sure, what to do next, and what could not be judged."""

    schema: Literal["inferdoc.diagnosis/v1"]
    inferdoc_version: str
    window: Window
    source: SourceInfo
    verdict: VerdictWord
    summary: str
    phases: list[PhaseSplit]
    findings: list[Finding]
    not_judged: list[NotJudged]
    changes: list[Change]
    coverage: Coverage
    timing: Timing
    focus: FocusInfo | None = None
    rising: Rising | None = None
    stopped: Stopped | None = None
    unknown: Unknown | None = None
    persistent: list[Persistent] = []

    def to_json(self, indent: int = 2) -> str:
        """The document as JSON text (section 3 of the contract)."""
        return msgspec.json.format(msgspec.json.encode(self), indent=indent).decode()


def json_schema() -> dict[str, Any]:
    """JSON Schema of the document."""
    schema = msgspec.json.schema(Diagnosis)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": SCHEMA_ID,
        "title": "inferdoc diagnosis",
        **schema,
    }

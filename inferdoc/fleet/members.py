"""Who is who: pods with their role, hardware tier and pool."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from inferdoc.catalogue.signal import RoleSigns, Tiers
from inferdoc.config_sections import PodSection
from inferdoc.fleet.workloads import workload
from inferdoc.source.frame import Entity, SignalFrame

Role = Literal["prefill", "decode", "both"]
Key = tuple[str, str, str]
"""Cluster, namespace and pod of a member."""
Family = tuple[str, str, str]
"""Cluster, namespace and model: pools that serve one model together."""
NO_ENGINE = "no engine metrics"
UNKNOWN_TIER = "unknown"
COMPUTES_NOTHING = 0.05
"""A pod beside prefill pods that computes at most this share of its prompts continues what they computed."""
COMPUTES_ALL = 0.999
"""Share above which a pod that computes its prompts cannot be distinguished from one of an older release."""
AS_MANY = (0.5, 1.25)
"""Requests that the other pods finish for each that the prefill pods do, where they finish the same ones: a backlog
between the two holds some back, and a few short prompts need no prefill pod (own choice)."""
ONE_TOKEN = 1.01
"""A pod whose requests end after one token on average does prefill only: the decode side continues them."""
TELLING = 20
"""Minimum finished requests to derive a role from their length: the first few of a new engine may all be
short. Rules ask for as many."""
NO_TOKEN = 0.5
"""Requests that end before they have a token failed: they say nothing about what the pod is for."""


@dataclass(frozen=True)
class Pool:
    """Like pods: what may be compared with each other."""

    cluster: str
    namespace: str
    model: str
    role: str
    tier: str

    @property
    def place(self) -> str:
        """Its cluster and namespace in words, empty if no label has them."""
        named = (("cluster", self.cluster), ("namespace", self.namespace))
        return ", ".join(f"{word} {value}" for word, value in named if value)

    @property
    def family(self) -> Family:
        """Pools that serve one model together (prefill and decode, several tiers)."""
        return self.cluster, self.namespace, self.model


@dataclass(frozen=True)
class Member:
    """A pod. key: cluster, namespace, pod (or instance); why: how role and tier were decided; name: how it is called,
    with its namespace and cluster where another pod has the same name."""

    key: tuple[str, str, str]
    instance: str
    node: str
    pool: Pool
    why: tuple[tuple[str, str], ...] = ()
    name: str = ""

    @property
    def shown(self) -> str:
        """How it is called in what people read."""
        return self.name or self.pod

    @property
    def pod(self) -> str:
        """The name of the pod, or its instance where it has no pod label."""
        return self.key[2]

    @property
    def role(self) -> str:
        """prefill, decode or both."""
        return self.pool.role

    @property
    def tier(self) -> str:
        """The id of its hardware tier."""
        return self.pool.tier

    @property
    def shows_engine(self) -> bool:
        """Whether metrics of an engine show it."""
        return ("role", NO_ENGINE) not in self.why

    def __hash__(self) -> int:
        return hash(self.key)

    def owns_gpu(self, entity: Entity) -> bool:
        """Whether a GPU series belongs to this pod."""
        return bool(entity.get("pod")) and entity.member == self.key


@dataclass
class Fleet:
    """members: the engine pods that are diagnosed; former: those that ended before the window, or whose place
    another pod has taken."""

    members: list[Member] = field(default_factory=list)
    former: list[Member] = field(default_factory=list)

    def by_key(self) -> dict[tuple[str, str, str], Member]:
        """Members by cluster, namespace and pod."""
        return {m.key: m for m in self.members}

    @property
    def spread(self) -> bool:
        """Whether it lies in several clusters or namespaces."""
        return len({member.key[:2] for member in self.everyone}) > 1

    def called(self, entity: Entity) -> str:
        """How the pod or the target of a series is called."""
        member = next((m for m in self.everyone if m.key == entity.member), None)
        if member is not None:
            return member.shown
        cluster = entity.get("cluster") if self.spread else ""
        return "/".join(part for part in (cluster, entity.pod or "?") if part)

    @property
    def everyone(self) -> list[Member]:
        """Members and former members."""
        return [*self.members, *self.former]


@dataclass(frozen=True)
class Assignment:
    """Static knowledge from the configuration: pods whose name matches have this role or tier."""

    pod: str
    role: Role | None = None
    tier: str | None = None


def assignments_of(pods: Iterable[PodSection]) -> list[Assignment]:
    """What the configuration says of pods."""
    return [Assignment(each.pod, each.role, each.tier) for each in pods]


@dataclass(frozen=True)
class FleetFilter:
    """The user's selection; None means any."""

    model: str | None = None
    namespace: str | None = None
    tier: str | None = None
    role: str | None = None
    pod: str | None = None
    cluster: str | None = None

    def keeps(self, member: Member) -> bool:
        """Whether a member is selected."""
        pool = member.pool
        return all(
            expected is None or expected == have
            for expected, have in (
                (self.cluster, pool.cluster),
                (self.model, pool.model),
                (self.namespace, pool.namespace),
                (self.tier, pool.tier),
                (self.role, pool.role),
                (self.pod, member.pod),
            )
        )


PROMPTS, COMPUTED = "prompt_tokens_per_request", "computed_tokens_per_request"
ENGINE_SIGNS = (
    "running",
    "waiting",
    "kv_usage",
    "generation_tokens_rate",
    "request_rate",
    "prompt_tokens_rate",
    "step_rate",
)


def resolve(frame: SignalFrame, tiers: Tiers, assignments: Sequence[Assignment] = ()) -> Fleet:
    """The pods that run an engine, or ran one in the window, with role, tier and pool.

    A target is an engine when it shows at least one engine signal; a scrape target without any (a router, a node
    exporter) is not a member of the fleet.
    """
    entities: dict[tuple[str, str, str], list[Entity]] = {}
    models: dict[tuple[str, str, str], str] = {}
    for name in ENGINE_SIGNS:
        if name not in frame:
            continue
        for entity in frame[name].entities:
            entities.setdefault(entity.member, []).append(entity)
            if entity.get("model_name"):
                models.setdefault(entity.member, entity.get("model_name"))
    fleet = Fleet()
    cards, finished = _gpu_models(frame, tiers), _finished(frame)
    outputs = _output_lengths(frame, finished)
    computed = computed_shares(frame)
    for key, seen in sorted(entities.items()):
        role, why_role = _role(key, seen, tiers.roles, outputs, assignments)
        tier, why_tier = _tier(key, seen, tiers, assignments, cards)
        pool = Pool(key[0], key[1], models.get(key, ""), role, tier)
        first = seen[0]
        member = Member(key, first.get("instance"), first.get("node"), pool, (("role", why_role), ("tier", why_tier)))
        fleet.members.append(member)
    fleet.members = _with_decode(fleet.members, computed, finished)
    fleet.members = _like_their_workload(fleet.members)
    fleet.members = _called(fleet.members)
    return fleet


GPU_SIGNS = ("gpu_util", "sm_clock", "gpu_power", "gpu_temp")
ROUTER_SIGNS = ("router_request_rate",)


def resolve_without_engines(frame: SignalFrame, tiers: Tiers) -> Fleet:
    """The pods that GPU exporters name, else the routers: these serve where no engine is scraped."""
    cards = _gpu_models(frame, tiers)
    with_gpus = [entity for entity in _showing(GPU_SIGNS, frame) if entity.get("pod")]
    found = {entity.member: entity for entity in reversed(with_gpus or _showing(ROUTER_SIGNS, frame))}
    members = []
    for key, entity in sorted(found.items()):
        tier, why = _tier(key, [entity], tiers, (), cards)
        pool = Pool(key[0], key[1], "", "both", tier)
        why_both = (("role", NO_ENGINE), ("tier", why))
        members.append(Member(key, entity.get("instance"), entity.get("node"), pool, why_both))
    return Fleet(_called(members))


def _showing(signs: Sequence[str], frame: SignalFrame) -> list[Entity]:
    return [entity for name in signs if name in frame for entity in frame[name].entities]


def _called(members: list[Member]) -> list[Member]:
    """The members with the shortest name that no other has: pod, namespace/pod, cluster/namespace/pod."""
    names = {m.key: [m.pod, "/".join(filter(None, m.key[1:])), "/".join(filter(None, m.key))] for m in members}
    count = Counter(name for tried in names.values() for name in set(tried))
    return [replace(m, name=next((n for n in names[m.key] if count[n] == 1), names[m.key][-1])) for m in members]


def _with_decode(
    members: Sequence[Member], computed: Mapping[Key, float], finished: Mapping[Key, np.ndarray]
) -> list[Member]:
    """The members, with pods of unknown role beside prefill pods as decode pods: if they
    compute no prompts, or, if their metrics do not show that (older releases count every prompt as computed), if they
    finish as many requests as the prefill pods hand on."""
    prefills = {member.pool.family for member in members if member.role == "prefill"}
    beside = {m.key for m in members if m.pool.family in prefills and dict(m.why)["role"] == "default"}
    handed = {family for family in prefills if _hand_on([m for m in members if m.pool.family == family], finished)}
    placed = []
    for member in members:
        share = computed.get(member.key, 1.0)
        if member.key in beside and share <= COMPUTES_NOTHING:
            member = _decoding(member, "its prompts are computed by prefill pods")
        elif member.key in beside and share >= COMPUTES_ALL and member.pool.family in handed:
            member = _decoding(member, "it finishes what prefill pods hand on")
        placed.append(member)
    return placed


def _hand_on(family: Sequence[Member], finished: Mapping[Key, np.ndarray]) -> bool:
    """Whether the pods beside the prefill pods of a model finish as many requests as those do, over most of the
    time: every request of a prefill pod ends after its first token, and another pod goes on with it."""
    rates: dict[bool, list[np.ndarray]] = {True: [], False: []}
    for member in family:
        if member.key in finished:
            rates[member.role == "prefill"].append(np.nan_to_num(finished[member.key]))
    if not all(rates.values()):
        return False
    first, then = (np.sum(rates[side], axis=0) for side in (True, False))
    busy = first > 0
    low, high = AS_MANY
    return bool(busy.any()) and low <= float(np.median(then[busy] / first[busy])) <= high


def _finished(frame: SignalFrame) -> dict[Key, np.ndarray]:
    """Requests per second that each pod finishes, of all its engines: float64[times]."""
    rates: dict[Key, np.ndarray] = {}
    if "request_rate" in frame:
        for entity, row in zip(frame["request_rate"].entities, frame["request_rate"].values, strict=True):
            rates[entity.member] = rates.get(entity.member, 0.0) + np.nan_to_num(row)
    return rates


def _decoding(member: Member, why: str) -> Member:
    return replace(member, pool=replace(member.pool, role="decode"), why=(("role", why), *member.why[1:]))


def _like_their_workload(members: Sequence[Member]) -> list[Member]:
    """A pod of unknown role has the role of its workload, if the other pods agree: replicas come
    of one template, and one that fails from its first request on shows nothing else."""
    roles: dict[tuple[str, str, str], set[str]] = {}
    for member in members:
        if dict(member.why)["role"] != "default":
            roles.setdefault(_workload_key(member), set()).add(member.role)
    placed = []
    for member in members:
        roles_seen = roles.get(_workload_key(member), set())
        if dict(member.why)["role"] == "default" and len(roles_seen) == 1:
            pool = replace(member.pool, role=next(iter(roles_seen)))
            member = replace(member, pool=pool, why=(("role", "its workload"), *member.why[1:]))
        placed.append(member)
    return placed


def _workload_key(member: Member) -> tuple[str, str, str]:
    return member.key[0], member.key[1], workload(member.pod)[0]


def computed_shares(frame: SignalFrame) -> dict[tuple[str, str, str], float]:
    """The share of its prompt tokens that each pod computes itself: median over time."""
    if COMPUTED not in frame or PROMPTS not in frame:
        return {}
    queried = dict(zip(frame[PROMPTS].entities, frame[PROMPTS].values, strict=True))
    shares: dict[tuple[str, str, str], float] = {}
    for entity, row in zip(frame[COMPUTED].entities, frame[COMPUTED].values, strict=True):
        if entity in queried:
            there = np.isfinite(row) & (np.nan_to_num(queried[entity]) > 0)
            if there.any():
                shares.setdefault(entity.member, float(np.median(row[there] / queried[entity][there])))
    return shares


def _role(
    key: tuple[str, str, str],
    seen: Sequence[Entity],
    signs: RoleSigns,
    outputs: Mapping[tuple[str, str, str], np.ndarray],
    assignments: Sequence[Assignment],
) -> tuple[Role, str]:
    for label in signs.labels:
        for entity in seen:
            role = _role_word(entity.get(label), signs)
            if role:
                return role, f"label {label}"
    for assignment in assignments:
        if assignment.role and re.fullmatch(assignment.pod, key[2]):
            return assignment.role, "configuration"
    named = _role_word(key[2], signs)
    if named:
        return named, "name"
    lengths = outputs.get(key)
    if lengths is not None and NO_TOKEN <= float(np.nanmedian(lengths)) <= ONE_TOKEN:
        return "prefill", "every request ends after one token"
    return "both", "default"


def _role_word(text: str, signs: RoleSigns) -> Role | None:
    """The role in the words of a label or a pod name; None if there is none or several."""
    roles_seen: list[Role] = [role for role, words in signs.words.items() if re.fullmatch(words, text, re.IGNORECASE)]
    return roles_seen[0] if len(roles_seen) == 1 else None


def _output_lengths(frame: SignalFrame, finished: Mapping[Key, np.ndarray]) -> dict[tuple[str, str, str], np.ndarray]:
    """The mean length of answers of each pod that finished some, in tokens: float64[times], of its first engine that
    has any."""
    found: dict[tuple[str, str, str], np.ndarray] = {}
    seconds = frame.grid.step_ms / 1000
    few = {key for key, rates in finished.items() if float(rates.sum()) * seconds < TELLING}
    if "output_len_mean" in frame:
        matrix = frame["output_len_mean"]
        seen = np.isfinite(matrix.values).any(axis=1).tolist()
        for entity, row, any_value in zip(matrix.entities, matrix.values, seen, strict=True):
            if any_value and entity.member not in few:
                found.setdefault(entity.member, row)
    return found


Place = tuple[str, ...]
"""Cluster, namespace and pod, or cluster and node."""


def _gpu_models(frame: SignalFrame, tiers: Tiers) -> dict[Place, str]:
    """Pod or node -> GPU model name, as the GPU exporter labels them."""
    found: dict[Place, str] = {}
    for signal in ("gpu_util", "gpu_power", "sm_clock", "tensor_active", "gpu_temp"):
        for entity in frame[signal].entities if signal in frame else []:
            model = next((name for label in tiers.cards.labels if (name := entity.get(label))), "")
            nodes = [entity.get(label) for label in ("Hostname", "hostname", "node")]
            places: list[Place] = [(entity.get("cluster"), node) for node in nodes if node]
            if entity.get("pod"):
                places.append(entity.member)
            for place in places if model else ():
                found.setdefault(place, model)
    return found


def _tier(
    key: tuple[str, str, str],
    seen: Sequence[Entity],
    tiers: Tiers,
    assignments: Sequence[Assignment],
    cards: Mapping[Place, str],
) -> tuple[str, str]:
    for assignment in assignments:
        if assignment.tier and re.fullmatch(assignment.pod, key[2]):
            return assignment.tier, "configuration"
    for entity in seen:
        if entity.get("tier"):
            return entity.get("tier"), "label tier"
    for place in (key, *((key[0], entity.get("node")) for entity in seen if entity.get("node"))):
        model = cards.get(place)
        tier = tier_of_model(model, tiers) if model else None
        if tier:
            return tier, f"GPU model {model}"
    return UNKNOWN_TIER, "no label or exporter shows it"


def tier_of_model(model: str, tiers: Tiers) -> str | None:
    """The first tier whose `names` take a GPU model name."""
    for name, tier in tiers.tiers.items():
        if tier.names and re.fullmatch(tier.pattern, model, re.IGNORECASE):
            return name
    return None

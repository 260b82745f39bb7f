"""Apply a change of settings to a calibrated pool or pair, and list what was not measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace as with_fields

from inferdoc.capacity.memory import GIB
from inferdoc.capacity.step_time import DRAFT_COST, DRAFT_HEAD_COSTS
from inferdoc.catalogue.document import nearest
from inferdoc.errors import InferdocError
from inferdoc.simulate.scenario import StepParts
from inferdoc.simulate.workload import scaled
from inferdoc.whatif.calibrate import CalibratedPool
from inferdoc.whatif.calibrate_pair import CalibratedPair
from inferdoc.whatif.live import APART, HITS
from inferdoc.whatif.setting import BOTH_SIDES, DECODE_ONLY, PairSetting, PlayedSetting, of_side, side_of
from inferdoc.whatif.steps import StepFit, kv_token_bytes

if TYPE_CHECKING:
    from inferdoc.catalogue.load import Catalogue
    from inferdoc.catalogue.signal import Tier


@dataclass(frozen=True)
class ChangedPair:
    """setting: what plays the pair after the change; prefill, decode: the change of each; guesses: what of it nothing
    measured, in words."""

    setting: PairSetting
    prefill: ChangedPool
    decode: ChangedPool
    guesses: tuple[str, ...]

    def drawn(self, seed: int, draw: float) -> PairSetting:
        """What plays it, with step times that the history allows just as well. draw: 0 to 1, of what is guessed."""
        prefill, decode = (each.drawn(seed, draw).parts for each in (self.prefill, self.decode))
        return self.setting.with_steps(prefill, decode)


def changed_pair(pair: CalibratedPair, settings: Mapping[str, Any], catalogue: Catalogue) -> ChangedPair:
    """The pair after a change. settings: by key. Raises InferdocError for what cannot be."""
    for key in settings:
        side, own = side_of(key)
        if side is None and own not in (*BOTH_SIDES, *DECODE_ONLY):
            raise InferdocError(f"--set {key}: of which side? prefill.{key} or decode.{key}")
        if side == "prefill" and own in DECODE_ONLY:
            raise InferdocError(f"--set {key}: prefill pods write one token, so drafts are of decode: {own}")
    prefill, decode = (changed_pool(pair.sides[role], of_side(settings, role), catalogue) for role in APART)
    traffic = with_fields(prefill.setting.traffic, output=decode.setting.traffic.output)
    return ChangedPair(
        PairSetting(prefill.setting, decode.setting, traffic),
        prefill,
        decode,
        tuple(dict.fromkeys((*prefill.guesses, *decode.guesses))),
    )


MEMORY_SHARE = 0.92
BYTES = {"bf16": 2.0, "fp8": 1.0}
LEAST_KV = 1000
STEP_WITH_DRAFTS = ("weights", "kv_token", "token", "token_distance")
"""Parts of a measured step that hold what its drafts cost."""


@dataclass(frozen=True)
class ChangedPool:
    """setting: what plays the pool after the change; factors: on the parts of a step; guesses: what of the change
    nothing measured, in words; drafts_before: length of the drafts that are part of the measured steps, where another
    one is requested; steps: as fitted to the pool as it is."""

    setting: PlayedSetting
    factors: Mapping[str, float]
    guesses: tuple[str, ...]
    drafts_before: int | None = None
    steps: StepFit | None = None

    def drawn(self, seed: int, draw: float) -> PlayedSetting:
        """What plays it, with step times that the history allows just as well. draw: 0 to 1, of what is guessed."""
        assert self.steps is not None
        return self.setting.with_steps(self.changed(self.steps.drawn(seed), draw))

    def changed(self, parts: StepParts, draw: float = 0.5) -> StepParts:
        """Step times after the change, of those before it. draw: 0 to 1, which of the costs that a drafted token may
        have is taken; their middle by default."""
        found = {name: getattr(parts, name) * factor for name, factor in self.factors.items()}
        if "kv_bytes" in found:
            found["kv_bytes"] = round(found["kv_bytes"])
        if self.drafts_before is None:
            return with_fields(parts, **found)
        cost = _draft_cost(draw)
        without = 1.0 + cost * self.drafts_before
        for name in STEP_WITH_DRAFTS:
            found[name] = found.get(name, getattr(parts, name)) / without
        return with_fields(parts, **found, draft=cost)


def _draft_cost(draw: float) -> float:
    """The usual one in the middle, the ends of draft heads at 0 and 1, on a log scale."""
    low, high = DRAFT_HEAD_COSTS
    end, share = (low, 1.0 - 2.0 * draw) if draw < 0.5 else (high, 2.0 * draw - 1.0)
    return float(DRAFT_COST * (end / DRAFT_COST) ** share)


def changed_pool(pool: CalibratedPool, settings: Mapping[str, Any], catalogue: Catalogue) -> ChangedPool:
    """The pool after a change. settings: by key. Raises InferdocError for what cannot be."""
    now, guesses = pool.setting, list[str]()
    factors: dict[str, float] = {}
    then = now
    if "kv-dtype" in settings:
        then = _of_kv_dtype(pool, then, settings["kv-dtype"], factors, guesses)
    if "tier" in settings:
        then = _of_tier(pool, then, settings, catalogue, factors, guesses)
    then = _of_drafts(then, settings, guesses)
    simple = {
        "replicas": "replicas",
        "max-num-seqs": "max_num_seqs",
        "batch-tokens": "batch_tokens",
        "chunk-tokens": "chunk_tokens",
        "kv-tokens": "kv_tokens",
        "router": "router",
    }
    then = replace(then, **{field: settings[key] for key, field in simple.items() if key in settings})
    if then.max_num_seqs > then.batch_tokens and {"max-num-seqs", "batch-tokens"} & settings.keys():
        raise InferdocError(
            f"--set: max-num-seqs {then.max_num_seqs} is more than batch-tokens {then.batch_tokens}; vLLM does not "
            "start so"
        )
    traffic = then.traffic
    traffic = with_fields(
        traffic,
        rate=traffic.rate * settings.get("traffic", 1.0),
        prompt=scaled(traffic.prompt, settings.get("prompts")),
        output=scaled(traffic.output, settings.get("answers")),
    )
    then = then.with_traffic(traffic)
    _of_hits(pool, then, guesses)
    drafts_before = now.draft_tokens if then.draft_tokens != now.draft_tokens else None
    found = ChangedPool(then, factors, tuple(guesses), drafts_before, pool.steps)
    return replace(found, setting=then.with_steps(found.changed(now.parts)))


def _of_kv_dtype(
    pool: CalibratedPool, then: PlayedSetting, dtype: str, factors: dict[str, float], guesses: list[str]
) -> PlayedSetting:
    narrower = BYTES[dtype] / BYTES[pool.kv_dtype]
    if narrower != 1.0:
        guesses.append(f"KV in {dtype} was not measured: it is taken to be read {1 / narrower:g} times as fast")
        factors["kv_token"] = factors["kv_bytes"] = narrower
    return replace(then, kv_tokens=int(then.kv_tokens / narrower))


def _of_tier(
    pool: CalibratedPool,
    then: PlayedSetting,
    settings: Mapping[str, Any],
    catalogue: Catalogue,
    factors: dict[str, float],
    guesses: list[str],
) -> PlayedSetting:
    name, tiers = settings["tier"], {key: tier for key, tier in catalogue.tiers.tiers.items() if tier.names}
    if name not in tiers:
        raise InferdocError(f'--set tier={name}: no tier "{name}"{nearest(name, tiers)}; known: {", ".join(tiers)}')
    old, new = catalogue.tiers.tiers.get(then.tier), tiers[name]
    if old is None:
        raise InferdocError(f"--set tier={name}: the tier of {pool.observed.name} is not known; set it under [[pods]]")
    reads, works = (old.memory_gbps.value / new.memory_gbps.value, old.bf16_tflops.value / new.bf16_tflops.value)
    scale = {"weights": reads, "kv_token": reads, "token": works, "token_distance": works}
    for part, factor in scale.items():
        factors[part] = factors.get(part, 1.0) * factor
    if name != then.tier:
        guesses.append(f"steps on {name} were not measured: they are taken to reach the shares of {then.tier}")
    tokens = settings.get("kv-tokens") or _kv_tokens(pool, then, old, new, name)
    return replace(then, tier=name, kv_tokens=tokens)


def _kv_tokens(pool: CalibratedPool, then: PlayedSetting, old: Tier, new: Tier, name: str) -> int:
    """What the difference in memory holds beside the same weights."""
    if pool.shape is None:
        raise InferdocError(
            f"--set tier={name}: the model {pool.observed.pool.model} is not known, so neither is the room for its KV: "
            "give --model with its config.json, or --set kv-tokens=N"
        )
    share = float(pool.observed.settings.get("gpu_memory_utilization") or MEMORY_SHARE)
    more = (new.memory_gib.value - old.memory_gib.value) * GIB * share * then.gpus
    narrower = pool.setting.kv_tokens / then.kv_tokens
    of_token = kv_token_bytes(pool.shape, pool.kv_dtype, then.gpus) * narrower
    tokens = int(then.kv_tokens + more / of_token)
    if tokens < LEAST_KV:
        raise InferdocError(f"--set tier={name}: the weights leave no room for the KV cache there; take more GPUs")
    return tokens


def _of_drafts(then: PlayedSetting, settings: Mapping[str, Any], guesses: list[str]) -> PlayedSetting:
    drafts = settings.get("draft-tokens", then.draft_tokens)
    accepted = settings.get("accepted", then.accepted)
    if drafts and not accepted:
        raise InferdocError(
            f"--set draft-tokens={drafts}: the pool drafts nothing now, so nothing shows what would be accepted: give "
            "--set accepted=0.8,0.6,0.42"
        )
    if "accepted" in settings and not drafts:
        raise InferdocError("--set accepted: needs --set draft-tokens=N")
    if drafts != then.draft_tokens:
        before = "no drafts were measured" if not then.draft_tokens else f"drafts of {then.draft_tokens} were measured"
        low, high = DRAFT_HEAD_COSTS
        guesses.append(f"{before}: a drafted token is taken to cost {low:g} to {high:g} of a step, as draft heads do")
    return replace(then, draft_tokens=drafts, accepted=accepted)


def _of_hits(pool: CalibratedPool, then: PlayedSetting, guesses: list[str]) -> None:
    now = pool.setting
    if not pool.observed.total(HITS) or not now.traffic.prefixes.count:
        return
    if then.kv_tokens < now.kv_tokens:
        guesses.append("how many beginnings prompts share is not counted: what a smaller cache loses is open (see kv)")
    if then.router != now.router and "prefix" in (then.router, now.router):
        guesses.append("how many beginnings prompts share is not counted: what the router gains of them is open")

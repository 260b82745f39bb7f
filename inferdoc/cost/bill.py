"""Make the bill from accounts: rows, notes, cheaper tiers, tenants, and a cascade of two models."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
from msgspec.structs import replace

from inferdoc import __version__
from inferdoc.capacity.service_level import LEAST_NVLINK, escalated_price, routed_price
from inferdoc.catalogue.load import Catalogue
from inferdoc.catalogue.signal import Term, Tier
from inferdoc.config import Config
from inferdoc.config_sections import PricesSection
from inferdoc.cost.ledger import CAUSES, Account
from inferdoc.cost.model import SCHEMA_ID, Bill, BillRow, By, CascadeSummary, CheaperTier, Ground, Priced
from inferdoc.cost.prices import Sum, add_account, price_notes
from inferdoc.cost.reading import Piece, pieces
from inferdoc.errors import InferdocError, SourceError
from inferdoc.fleet.members import Pool
from inferdoc.judging.model import stamp
from inferdoc.sizing.fleet_part import WORTH
from inferdoc.slo.attainment import place_text
from inferdoc.source.base import incomplete
from inferdoc.source.frame import Entity
from inferdoc.source.identified import Identified
from inferdoc.source.plan import BY
from inferdoc.words import how_many


def billed(source: Identified, config: Config, catalogue: Catalogue, params: dict[str, Any]) -> Bill:
    """The requested bill. params: the values of the command's options by name. Raises SourceError where the source
    cannot be read, or holds no engine in the interval, InferdocError for a cascade of fewer than two models."""
    share, by = params.get("cascade"), params.get("by")
    if share is not None and by != "model":
        raise InferdocError("--cascade compares models: give --by model")
    found = list(pieces(source, config, catalogue, params))
    bill = bill_of(found, by or "pool", config.prices, catalogue, source.location)
    bill = replace(bill, notes=[*(f"incomplete: {line}" for line in incomplete(source.warnings)), *bill.notes])
    if share is None:
        return bill
    ground = Ground("cascade", CASCADE_FORMULA, CASCADE_SOURCE)
    return replace(bill, cascade=cascade_summary(bill.rows, share), grounds=[*bill.grounds, ground])


CASCADE_FORMULA = (
    "routed: share x small + (1 - share) x large; handed on: small + (1 - share) x large, since the small model sees "
    "every request; small and large: the cheapest and the most expensive model by a request that was served"
)
CASCADE_SOURCE = "figures of the rows; requests are taken to be alike on both"


def cascade_summary(rows: Sequence[BillRow], share: float) -> CascadeSummary:
    """Of the cheapest and the most expensive row. share: of the requests that the cheapest one would answer. Raises
    InferdocError where fewer than two have a price of a request."""
    if not 0 < share < 1:
        raise InferdocError(f"--cascade {share:g}: expected a share above 0 and below 1, 0.7 for 70 %")
    priced = [
        (row.figures.request.money, row)
        for row in rows
        if row.figures.request is not None and row.figures.request.money is not None
    ]
    if len(priced) < 2:
        raise InferdocError(
            "--cascade: two models with requests and a price are needed; set [prices.tiers] in inferdoc.toml"
        )
    (small, cheapest), (large, costliest) = (of(priced, key=lambda each: each[0]) for of in (min, max))
    return CascadeSummary(
        cheapest.name,
        costliest.name,
        share,
        small,
        large,
        routed_price(share, small, large),
        escalated_price(1.0 - share, small, large),
    )


IN_TIME: Mapping[str, str] = {"hour": "%Y-%m-%d %H:00", "day": "%Y-%m-%d"}
NAMES: Mapping[str, Callable[[Pool], str]] = {
    "pool": place_text,
    "model": lambda pool: pool.model or "(no model named)",
    "tier": lambda pool: pool.tier,
}
DIVIDING = (
    "prompt and output tokens share the GPU time: a prefill pod's is all prompts, a decode pod's all output; elsewhere "
    "prompts take computed tokens x seconds per computed token (unhindered) of the working time, and output the rest; "
    "waste and idle time follow in the same ratio"
)


def bill_of(found: Sequence[Piece], by: By, prices: PricesSection, catalogue: Catalogue, location: str) -> Bill:
    """The whole document. Raises SourceError where no engine was seen."""
    accounts = [account for piece in found for account in piece.accounts]
    if not accounts:
        raise SourceError(f"{location}: no engine in the interval requested; inferdoc doctor says what is visible")
    if by == "tenant":
        rows = by_tenant(found, lambda piece: sums(piece, lambda pool, _: str(pool.family)))
    else:
        rows = _rows(_gathered(found, _name(by)), in_time=by in IN_TIME)
    pools = [account.unit.member.pool for account in accounts]
    by_pool = _rows(_gathered(found, _name("pool")), in_time=False)
    whole = _gathered(found, lambda pool, when: "all")["all"].row("all")
    spans = {_at(when, "day") for piece in found for when in piece.middles}
    used: dict[str, float] = {}
    for account in accounts:
        tier = account.unit.member.tier
        used[tier] = used.get(tier, 0.0) + float(account.whole.sum())
    return Bill(
        schema_=SCHEMA_ID,
        inferdoc_version=__version__,
        source=location,
        from_=stamp(found[0].begin_ms / 1000),
        until=stamp(found[-1].end_ms / 1000),
        by=by,
        currency=prices.currency if prices.kwh is not None or any(tier in prices.tiers for tier in used) else None,
        overhead=prices.overhead,
        pue=prices.pue,
        kwh=prices.kwh,
        tiers=_priced(found, prices, used),
        whole=whole,
        rows=rows,
        days=_days(found) if len(spans) > 1 else [],
        cheaper=list(cheaper_tiers(by_pool, pools, prices, catalogue.tiers.tiers)),
        notes=[
            *price_notes(prices, used, catalogue.tiers.tiers),
            *_of_rates(found, prices),
            *_notes(found, accounts, whole),
        ],
        grounds=[
            *(Ground(cause.title, cause.formula, cause.source) for cause in CAUSES.values()),
            Ground("another tier", FORMULA, SOURCE),
            Ground(
                "energy",
                "what the GPUs drew; at the meter x PUE, and x the price of a kWh, on top of the cost above",
                "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION; pue and kwh under [prices]",
            ),
            Ground(
                "input and output",
                DIVIDING,
                "vllm:request_prefill_time_seconds, vllm:request_prefill_kv_computed_tokens",
            ),
        ],
    )


def _priced(found: Sequence[Piece], prices: PricesSection, used: Mapping[str, float]) -> list[Priced]:
    """What a GPU-hour of each tier came to: the price on demand, or the mean of what was paid where some of it was
    reserved or spot."""
    rows = _gathered(found, lambda pool, when: pool.tier)
    plain = {tier for tier, price in prices.tiers.items() if price.reserved is None and price.spot is None}
    found_prices = []
    for tier, hours in sorted(used.items()):
        money = rows[tier].row(tier).whole.money
        paid = None if money is None or not hours else money / hours
        found_prices.append(Priced(tier, prices.per_gpu_hour(tier) if tier in plain else paid, hours))
    return found_prices


def sums(piece: Piece, name: Callable[[Pool, float], str], into: dict[str, Sum] | None = None) -> dict[str, Sum]:
    """The accounts of a piece, added up by name. name: of a pool and a time in Unix seconds."""
    totals = {} if into is None else into
    pools = {account.unit.member.pool for account in piece.accounts}
    apart = {pool.family for pool in pools if pool.role == "prefill"}
    names = {pool: np.array([name(pool, float(when)) for when in piece.middles]) for pool in pools}
    divided = {pool: _prompts_of([a for a in piece.accounts if a.unit.member.pool == pool]) for pool in pools}
    for account in piece.accounts:
        pool = account.unit.member.pool
        counted = (pool.role != "decode" or pool.family not in apart), pool.role != "prefill"
        for each in dict.fromkeys(names[pool].tolist()):
            into_row = totals.setdefault(each, Sum())
            add_account(into_row, account, names[pool] == each, piece.rates.of(account), divided[pool], counted)
    return totals


def _gathered(found: Sequence[Piece], name: Callable[[Pool, float], str]) -> dict[str, Sum]:
    totals: dict[str, Sum] = {}
    for piece in found:
        sums(piece, name, totals)
        _add_good(piece, name, totals)
    return totals


def _add_good(piece: Piece, name: Callable[[Pool, float], str], totals: dict[str, Sum]) -> None:
    """Requests within the objectives; they are known for a whole piece and not for a part of it."""
    for pool in {account.unit.member.pool for account in piece.accounts}:
        if pool.role == "prefill":
            continue
        names = {name(pool, float(when)) for when in piece.middles}
        served = sum(float(a.counts.served.sum()) for a in piece.accounts if a.unit.member.pool == pool)
        good = piece.good.get(pool)
        for each in names:
            if good is not None and len(names) == 1:
                totals[each].good.append(good)
            else:
                totals[each].unknown += served


def _prompts_of(accounts: Sequence[Account]) -> float | None:
    """The share of the working time of like engines that went into prompts."""
    hours = worked = 0.0
    for account in accounts:
        work = float(account.whole.sum() - account.parts["away"].sum() - account.parts["idle"].sum())
        if account.prompts is not None:
            hours, worked = hours + account.prompts * work, worked + work
    return hours / worked if worked > 0 else None


def _name(by: By) -> Callable[[Pool, float], str]:
    if by in IN_TIME:
        return lambda _, when: _at(when, by)
    of = NAMES[by]
    return lambda pool, _: of(pool)


def _at(when: float, by: str) -> str:
    return datetime.fromtimestamp(float(when), UTC).strftime(IN_TIME[by])


def _rows(totals: Mapping[str, Sum], in_time: bool) -> list[BillRow]:
    rows = [one.row(name) for name, one in totals.items()]
    key: Callable[[BillRow], tuple[float, str]] = lambda row: (-(row.whole.money or 0.0), row.name)  # noqa: E731
    if in_time:
        return sorted(rows, key=lambda row: row.name)
    return sorted(rows, key=lambda row: (*key(row)[:1], -row.whole.gpu_hours, row.name))


def _days(found: Sequence[Piece]) -> list[BillRow]:
    totals = _gathered(found, lambda pool, when: f"{_at(when, 'day')}\t{place_text(pool)}")
    parts = {name: name.split("\t", 1) for name in sorted(totals)}
    return [totals[name].row(pool, day) for name, (day, pool) in parts.items()]


def _of_rates(found: Sequence[Piece], prices: PricesSection) -> list[str]:
    """What reserved and spot prices leave open."""
    lacking = {
        account.unit.member.tier for piece in found for account in piece.accounts if piece.rates.lacks_spot(account)
    }
    notes = [
        f"[[pods]] says that pods of tier {tier} run on spot capacity, and it has no spot price: their figures are "
        f"GPU-hours; set [prices.tiers.{tier}] spot = ... in inferdoc.toml"
        for tier in sorted(lacking)
    ]
    for tier in found[0].rates.unused:
        hours, money = (sum(piece.rates.unused[tier][of] for piece in found) for of in (0, 1))
        if hours > 0:
            notes.append(
                f"{hours:,.3g} GPU-hours of {tier} were committed and used by no engine: {money:,.2f} "
                f"{prices.currency} that are not on this bill"
            )
    return notes


def _notes(found: Sequence[Piece], accounts: Sequence[Account], whole: BillRow) -> list[str]:
    notes = []
    assumed = {account.unit.member.key for account in accounts if account.assumed}
    if assumed:
        pods = how_many(len(assumed), "pod")
        notes.append(
            f"{pods} of which nothing shows the GPUs count as one GPU each; set gpus under [[pods]] in inferdoc.toml"
        )
    work: dict[str, float] = {}
    for account in accounts:
        place = place_text(account.unit.member.pool)
        work[place] = work.get(place, 0.0) + float(account.counts.served.sum() + account.counts.prompts.sum())
    quiet = sorted(place for place, amount in work.items() if not amount)
    notes += [f"{name}: no request in the interval, so none of its tokens has a price" for name in quiet]
    if whole.undivided.gpu_hours > 0 and not quiet:
        notes.append(
            "not all GPU time can be divided between prompts and output: seconds per prompt token are not visible"
        )
    reasons = {f"{one.place}: {one.because}" for piece in found for one in piece.unjudged}
    notes += [f"no figure per request within the SLO of {reason}" for reason in sorted(reasons)]
    return notes


FORMULA = (
    "useful money x (1 - price of the other tier / price of this one x GPUs of the other for one of this: prompts by "
    "FLOP/s, output by memory bandwidth, at least as many as hold the same memory); from 15 % on, on-demand prices"
)
SOURCE = "collectors/tiers.yaml, [prices.tiers]; both tiers taken to reach the same share of their figures"


def cheaper_tiers(
    rows: Sequence[BillRow], pools: Sequence[Pool], prices: PricesSection, tiers: Mapping[str, Tier]
) -> Iterator[CheaperTier]:
    """For each pool the priced tier on which its useful work would cost least, where that is worth a change. rows: of
    the bill by pool."""
    named = {row.name: row for row in rows}
    for pool in sorted(set(pools), key=place_text):
        row, now = named.get(place_text(pool)), tiers.get(pool.tier)
        if row is None or now is None or pool.tier not in prices.tiers:
            continue
        useful = next(part.amount.money for part in row.parts if part.cause == "useful")
        divided = row.prompts.gpu_hours + row.outputs.gpu_hours
        if not useful or not divided:
            continue
        prompts = row.prompts.gpu_hours / divided
        costs = {
            name: prices.tiers[name].on_demand / prices.tiers[pool.tier].on_demand * gpus_for_one(now, other, prompts)
            for name, other in tiers.items()
            if name in prices.tiers and name != pool.tier and other.names and other.link_gbps.value >= _link(now)
        }
        best = min(costs, key=lambda name: costs[name], default=None)
        if best is not None and 1.0 - costs[best] >= WORTH:
            saved = 1.0 - costs[best]
            yield CheaperTier(row.name, pool.tier, best, saved, useful * saved)


def gpus_for_one(now: Tier, other: Tier, prompts: float) -> float:
    """GPUs of another tier that do the work of one of this. prompts: share of its time that goes to them."""
    arithmetic = now.bf16_tflops.value / other.bf16_tflops.value
    traffic = now.memory_gbps.value / other.memory_gbps.value
    return max(prompts * arithmetic + (1.0 - prompts) * traffic, now.memory_gib.value / other.memory_gib.value)


def _link(tier: Tier) -> float:
    """What other GPUs must reach one another with: pods of GPUs on NVLink may be larger than PCIe carries."""
    return LEAST_NVLINK if tier.link_gbps.value >= LEAST_NVLINK else 0.0


COUNTED = {
    "input": Term(rate="llm_d_epp_request_input_tokens_sum"),
    "output": Term(rate="llm_d_epp_request_output_tokens_sum"),
    "requests": Term(rate="llm_d_epp_request_total"),
}
NOBODY = "(unknown tenant)"


def by_tenant(found: Sequence[Piece], by_family: Callable[[Piece], dict[str, Sum]]) -> list[BillRow]:
    """A row per tenant, highest cost first, one for models whose tokens no router counts. by_family: bill of each
    cluster, namespace and model. Raises SourceError where no series distinguishes tenants."""
    totals: dict[str, Sum] = {}
    counted_any = False
    for piece in found:
        counted = {name: _by_family(piece, term) for name, term in COUNTED.items()}
        for family, whole in by_family(piece).items():
            rows = {name: counted[name].get(family, {}) for name in COUNTED}
            for name in ("input", "output"):
                rows[name] = rows[name] if sum(rows[name].values()) > 0 else rows["requests"]
            names = list(rows["output"]) if sum(rows["output"].values()) > 0 else []
            counted_any = counted_any or bool(names)
            for name in names or [NOBODY]:
                inputs, outputs = ((_share(rows[kind], name) if names else 1.0) for kind in ("input", "output"))
                totals.setdefault(name, Sum()).add_share(whole, inputs, outputs)
    if not counted_any:
        raise SourceError("no series distinguishes tenants: they need llm_d_epp_request_total with fairness_id")
    return sorted((one.row(name) for name, one in totals.items()), key=lambda row: (-row.whole.gpu_hours, row.name))


def _share(tokens: dict[str, float], name: str) -> float:
    whole = sum(tokens.values())
    return tokens.get(name, 0.0) / whole if whole > 0 else 0.0


def _by_family(piece: Piece, term: Term) -> dict[str, dict[str, float]]:
    """Family -> tenant -> how many. A router that calls the model by another name counts for the only one of its
    namespace."""
    families = {account.unit.member.pool.family for account in piece.accounts}
    found: dict[str, dict[str, float]] = {}
    for entity, values in piece.history.counts(term, piece.slots, BY["tenant"]).items():
        pool = piece.history.pool_of(entity, wide=True)
        near = [family for family in families if pool is not None and family[:2] == pool.family[:2]]
        family = pool.family if pool is not None and pool.family in families else near[0] if len(near) == 1 else None
        if family is not None:
            row = found.setdefault(str(family), {})
            name = _tenant(entity)
            row[name] = row.get(name, 0.0) + float(np.sum(values))
    return found


def _tenant(entity: Entity) -> str:
    return f"{entity.get('fairness_id') or 'default'}, priority {entity.get('priority') or '0'}"

"""From accounts to the document: rows by pool, model, tier, hour or day, the whole, and what must be said of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

import numpy as np

from inferdoc import __version__
from inferdoc.catalogue.load import Catalogue
from inferdoc.config_sections import PricesSection
from inferdoc.cost.causes import CAUSES
from inferdoc.cost.cheaper import FORMULA, SOURCE, cheaper_tiers
from inferdoc.cost.gather import Sum, add_account
from inferdoc.cost.ledger import Account
from inferdoc.cost.model import SCHEMA_ID, Bill, BillRow, By, Ground, Priced
from inferdoc.cost.prices import price_notes
from inferdoc.cost.reading import Piece
from inferdoc.cost.tenants import by_tenant
from inferdoc.errors import SourceError
from inferdoc.fleet.members import Pool
from inferdoc.judging.model import stamp
from inferdoc.slo.attainment import place_text
from inferdoc.words import how_many

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
        raise SourceError(f"{location}: no engine in the stretch asked for; inferdoc doctor says what is visible")
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
    told = []
    for tier, hours in sorted(used.items()):
        money = rows[tier].row(tier).whole.money
        paid = None if money is None or not hours else money / hours
        told.append(Priced(tier, prices.per_gpu_hour(tier) if tier in plain else paid, hours))
    return told


def sums(piece: Piece, name: Callable[[Pool, float], str], into: dict[str, Sum] | None = None) -> dict[str, Sum]:
    """The accounts of a piece, added up by name. name: of a pool and a time in Unix seconds."""
    held = {} if into is None else into
    pools = {account.unit.member.pool for account in piece.accounts}
    apart = {pool.family for pool in pools if pool.role == "prefill"}
    names = {pool: np.array([name(pool, float(when)) for when in piece.middles]) for pool in pools}
    divided = {pool: _prompts_of([a for a in piece.accounts if a.unit.member.pool == pool]) for pool in pools}
    for account in piece.accounts:
        pool = account.unit.member.pool
        counted = (pool.role != "decode" or pool.family not in apart), pool.role != "prefill"
        for each in dict.fromkeys(names[pool].tolist()):
            into_row = held.setdefault(each, Sum())
            add_account(into_row, account, names[pool] == each, piece.rates.of(account), divided[pool], counted)
    return held


def _gathered(found: Sequence[Piece], name: Callable[[Pool, float], str]) -> dict[str, Sum]:
    held: dict[str, Sum] = {}
    for piece in found:
        sums(piece, name, held)
        _add_good(piece, name, held)
    return held


def _add_good(piece: Piece, name: Callable[[Pool, float], str], held: dict[str, Sum]) -> None:
    """Requests within the objectives; they are known for a whole piece and not for a part of it."""
    for pool in {account.unit.member.pool for account in piece.accounts}:
        if pool.role == "prefill":
            continue
        names = {name(pool, float(when)) for when in piece.middles}
        served = sum(float(a.counts.served.sum()) for a in piece.accounts if a.unit.member.pool == pool)
        good = piece.good.get(pool)
        for each in names:
            if good is not None and len(names) == 1:
                held[each].good.append(good)
            else:
                held[each].unknown += served


def _prompts_of(accounts: Sequence[Account]) -> float | None:
    """The share of the working time of like engines that went into prompts."""
    hours = told = 0.0
    for account in accounts:
        work = float(account.whole.sum() - account.parts["away"].sum() - account.parts["idle"].sum())
        if account.prompts is not None:
            hours, told = hours + account.prompts * work, told + work
    return hours / told if told > 0 else None


def _name(by: By) -> Callable[[Pool, float], str]:
    if by in IN_TIME:
        return lambda _, when: _at(when, by)
    of = NAMES[by]
    return lambda pool, _: of(pool)


def _at(when: float, by: str) -> str:
    return datetime.fromtimestamp(float(when), UTC).strftime(IN_TIME[by])


def _rows(held: Mapping[str, Sum], in_time: bool) -> list[BillRow]:
    rows = [one.row(name) for name, one in held.items()]
    key: Callable[[BillRow], tuple[float, str]] = lambda row: (-(row.whole.money or 0.0), row.name)  # noqa: E731
    if in_time:
        return sorted(rows, key=lambda row: row.name)
    return sorted(rows, key=lambda row: (*key(row)[:1], -row.whole.gpu_hours, row.name))


def _days(found: Sequence[Piece]) -> list[BillRow]:
    held = _gathered(found, lambda pool, when: f"{_at(when, 'day')}\t{place_text(pool)}")
    parts = {name: name.split("\t", 1) for name in sorted(held)}
    return [held[name].row(pool, day) for name, (day, pool) in parts.items()]


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
                f"{hours:,.3g} GPU-hours of {tier} were committed and held by no engine: {money:,.2f} "
                f"{prices.currency} that are not on this bill"
            )
    return notes


def _notes(found: Sequence[Piece], accounts: Sequence[Account], whole: BillRow) -> list[str]:
    notes = []
    assumed = {account.unit.member.key for account in accounts if account.assumed}
    if assumed:
        pods = how_many(len(assumed), "pod")
        notes.append(
            f"{pods} of which nothing tells the GPUs count as one GPU each; set gpus under [[pods]] in inferdoc.toml"
        )
    quiet = sorted(
        {
            place_text(a.unit.member.pool)
            for a in accounts
            if not sum(b.counts.served.sum() + b.counts.prompts.sum() for b in accounts if _alike(a, b))
        }
    )
    notes += [f"{name}: no request in the stretch, so none of its tokens has a price" for name in quiet]
    if whole.undivided.gpu_hours > 0 and not quiet:
        notes.append(
            "not all GPU time can be divided between prompts and output: seconds per prompt token are not visible"
        )
    reasons = {f"{one.place}: {one.because}" for piece in found for one in piece.unjudged}
    notes += [f"no figure per request within the SLO of {reason}" for reason in sorted(reasons)]
    return notes


def _alike(one: Account, other: Account) -> bool:
    return one.unit.member.pool == other.unit.member.pool

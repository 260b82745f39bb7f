"""Price GPU-hours: on demand, reserved and spot, and list the prices that a configuration lacks."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from inferdoc.capacity.service_level import kwh_per_million_tokens, tokens_per_joule
from inferdoc.catalogue.document import nearest
from inferdoc.config_sections import PodSection, PricesSection, TierPrice
from inferdoc.cost.ledger import CAUSES, USEFUL, Account, known_causes
from inferdoc.cost.model import Amount, BillRow, Energy, Figures, Spent
from inferdoc.errors import InferdocError
from inferdoc.fleet.members import UNKNOWN_TIER
from inferdoc.slo.model import Bounds

if TYPE_CHECKING:
    from inferdoc.cost.ledger import Account


HOUR_MS = 3_600_000


@dataclass(frozen=True)
class SlotRates:
    """Of one interval. shared: tier -> money per GPU-hour in each slot of its GPUs that are not known to be spot,
    float64[S]; spot: tier -> of those that are; of_spot: patterns of whole pod names; unused: tier -> GPU-hours of
    committed GPUs that no engine used, and the money for them."""

    shared: Mapping[str, np.ndarray]
    spot: Mapping[str, float]
    of_spot: tuple[str, ...]
    unused: Mapping[str, tuple[float, float]]

    def of(self, account: Account) -> np.ndarray | None:
        """Money per GPU-hour of an engine in each slot, with the overhead on top; None without a price."""
        member = account.unit.member
        shared = self.shared.get(member.tier)
        if shared is None or not _named(member.pod, self.of_spot):
            return shared
        spot = self.spot.get(member.tier)
        return None if spot is None else np.full(len(shared), spot)

    def lacks_spot(self, account: Account) -> bool:
        """Whether an engine is declared to run on spot capacity of a tier that has other prices only."""
        member = account.unit.member
        return member.tier in self.shared and member.tier not in self.spot and _named(member.pod, self.of_spot)


def slot_rates(
    prices: PricesSection, pods: Iterable[PodSection], accounts: Sequence[Account], slots: int, slot_ms: int
) -> SlotRates:
    """Rates of an interval. accounts: of all engines that are there, whichever were requested: reserved GPUs are shared
    by all of a tier."""
    of_spot = tuple(section.pod for section in pods if section.spot)
    hours = slot_ms / HOUR_MS
    shared: dict[str, np.ndarray] = {}
    unused: dict[str, tuple[float, float]] = {}
    for tier, price in prices.tiers.items():
        used = np.zeros(slots)
        for account in accounts:
            member = account.unit.member
            if member.tier == tier and not _named(member.pod, of_spot):
                used += account.whole
        money = np.full(slots, price.on_demand)
        if price.reserved is not None and price.committed_gpus is not None:
            committed = price.committed_gpus * hours
            covered = np.divide(np.minimum(used, committed), used, out=np.ones(slots), where=used > 0)
            money = covered * price.reserved + (1.0 - covered) * price.on_demand
            idle = float(np.maximum(committed - used, 0.0).sum())
            unused[tier] = idle, idle * price.reserved * prices.overhead
        shared[tier] = money * prices.overhead
    spot = {tier: price.spot * prices.overhead for tier, price in prices.tiers.items() if price.spot is not None}
    return SlotRates(shared, spot, of_spot, unused)


def _named(pod: str, patterns: Iterable[str]) -> bool:
    return any(re.fullmatch(pattern, pod) for pattern in patterns)


JOULES_PER_KWH = 3.6e6
EXAMPLE_TIER = "h100-80"
HOW = "[prices.tiers.{}] on_demand = ... in inferdoc.toml"


def priced(prices: PricesSection, given: str | None, known: Collection[str]) -> PricesSection:
    """The prices with those of an option laid over them. given: TIER=MONEY,.. of a GPU-hour. Raises InferdocError."""
    found = dict(prices.tiers)
    for part in given.split(",") if given else ():
        tier, _, money = part.strip().partition("=")
        if tier not in known:
            raise InferdocError(f'--price {given}: no tier "{tier}"{nearest(tier, known)}')
        try:
            found[tier] = TierPrice(on_demand=float(money))
        except ValueError:
            raise InferdocError(f"--price {given}: expected money of a GPU-hour by tier: {tier}=2.95") from None
    return replace(prices, tiers=found)


def per_million(amount: Amount, tokens: float) -> Amount | None:
    """What a million tokens cost; None without any."""
    return each(amount, tokens / 1e6)


def each(amount: Amount, number: float) -> Amount | None:
    """What one of so many costs; None of none."""
    if number <= 0:
        return None
    return Amount(amount.gpu_hours / number, None if amount.money is None else amount.money / number)


def energy_of(joules: float, tokens: float) -> Energy:
    """What GPUs drew for so many output tokens."""
    kwh = joules / JOULES_PER_KWH
    if tokens <= 0 or joules <= 0:
        return Energy(kwh, None, None)
    return Energy(kwh, tokens_per_joule(tokens, joules), kwh_per_million_tokens(tokens, joules))


def price_notes(prices: PricesSection, used: Mapping[str, float], known: Collection[str]) -> Iterator[str]:
    """A line for each tier that costs GPU-hours and has no price, and for each price of a tier that does not exist.
    used: GPU-hours by tier; known: tiers of the catalogue."""
    unpriced = [tier for tier, hours in used.items() if hours > 0 and tier not in prices.tiers]
    if UNKNOWN_TIER in unpriced:
        what = "nothing shows the hardware tier of some pods, so they have no price"
        yield f"{what}; set tier under [[pods]] in inferdoc.toml"
        unpriced.remove(UNKNOWN_TIER)
    if not prices.tiers:
        first = unpriced[0] if unpriced else EXAMPLE_TIER
        yield f"no price: figures are GPU-hours; for money set {HOW.format(first)}"
    else:
        for tier in unpriced:
            what = f"no price of tier {tier}: its figures are GPU-hours, and sums over it have no money"
            yield f"{what}; set {HOW.format(tier)}"
    for tier in prices.tiers:
        if tier not in known and tier not in used:
            yield f"[prices.tiers.{tier}]: no such tier, its price is not used{nearest(tier, known)}"


TITLES = {name: cause.title for name, cause in CAUSES.items()} | {USEFUL: "useful work"}
BOUNDS = {name: cause.bound for name, cause in CAUSES.items()}
DIVIDED = ("prompts", "outputs", "undivided")


@dataclass
class Sum:
    """A row in the making. hours, money: by part, and by what the time went into; unpriced: GPU-hours without a price;
    tokens, requests; joules, and unmetered: GPU-hours of which they are not known; good: requests within the
    objectives; unknown: served requests of which that is not known."""

    hours: dict[str, float] = field(default_factory=dict)
    money: dict[str, float] = field(default_factory=dict)
    unpriced: float = 0.0
    prompt_tokens: float = 0.0
    output_tokens: float = 0.0
    requests: float = 0.0
    joules: float = 0.0
    unmetered: float = 0.0
    good: list[Bounds] = field(default_factory=list)
    unknown: float = 0.0

    def add(self, part: str, hours: float, money: float | None) -> None:
        """GPU-hours of a part, and what they cost."""
        self.hours[part] = self.hours.get(part, 0.0) + hours
        if money is not None:
            self.money[part] = self.money.get(part, 0.0) + money

    def add_share(self, whole: Sum, inputs: float, outputs: float) -> None:
        """A share of another row: of the time of prompts so much as of the input tokens, of all else as of the output
        tokens; of each cause the share that comes of both."""
        for mine, others in ((self.hours, whole.hours), (self.money, whole.money)):
            every = sum(others.get(name, 0.0) for name in DIVIDED)
            prompts = others.get("prompts", 0.0)
            part = (prompts * inputs + (every - prompts) * outputs) / every if every > 0 else outputs
            scale = {"prompts": inputs, "outputs": outputs, "undivided": outputs}
            for name, amount in others.items():
                mine[name] = mine.get(name, 0.0) + amount * scale.get(name, part)
        self.unpriced += whole.unpriced * outputs
        self.prompt_tokens += whole.prompt_tokens * inputs
        self.output_tokens += whole.output_tokens * outputs
        self.requests += whole.requests * outputs
        self.unmetered += sum(whole.hours.get(name, 0.0) for name in DIVIDED)  # a meter does not distinguish tenants

    def amount(self, *parts: str) -> Amount:
        """So many parts together."""
        hours = sum(self.hours.get(part, 0.0) for part in parts)
        money = None if self.unpriced > 0 else sum(self.money.get(part, 0.0) for part in parts)
        return Amount(hours, money)

    def row(self, name: str, day: str | None = None) -> BillRow:
        """As the document has it."""
        causes = known_causes()
        whole, prompts, outputs = self.amount(*causes), self.amount("prompts"), self.amount("outputs")
        good = None
        if self.good and not self.unknown:
            good = Bounds(sum(one.low for one in self.good), sum(one.high for one in self.good))
        dear, cheap = (None, None) if good is None else (each(whole, good.low), each(whole, good.high))
        return BillRow(
            name=name,
            whole=whole,
            parts=[Spent(cause, TITLES[cause], self.amount(cause), BOUNDS.get(cause)) for cause in causes],
            prompts=prompts,
            outputs=outputs,
            undivided=self.amount("undivided"),
            prompt_tokens=self.prompt_tokens,
            output_tokens=self.output_tokens,
            requests=self.requests,
            good=good,
            figures=Figures(
                per_million(prompts, self.prompt_tokens) if prompts.gpu_hours else None,
                per_million(outputs, self.output_tokens) if outputs.gpu_hours else None,
                per_million(whole, self.output_tokens),
                each(whole, self.requests),
                None if dear is None or cheap is None else (cheap, dear),
            ),
            energy=None if self.unmetered > 0 or not self.joules else energy_of(self.joules, self.output_tokens),
            day=day,
        )


def add_account(
    into: Sum,
    account: Account,
    chosen: np.ndarray,
    price: np.ndarray | None,
    prompts: float | None,
    counts: tuple[bool, bool],
) -> None:
    """The chosen slots of an account. chosen: bool[S]; price: of a GPU-hour in each slot, None where it has none;
    prompts: share of its time that goes to prompts, None where it is not divided; counts: whether its prompt tokens,
    and its output tokens and requests, are counted."""
    whole = 0.0
    paid = None if price is None else 0.0
    for cause, hours in account.parts.items():
        part = float(hours[chosen].sum())
        money = None if price is None else float((hours * price)[chosen].sum())
        into.add(cause, part, money)
        whole += part
        paid = None if paid is None or money is None else paid + money
    if paid is None:
        into.unpriced += whole
    if account.counts.joules is None:
        into.unmetered += whole
    else:
        into.joules += float(account.counts.joules[chosen].sum())
    if prompts is None:
        into.add("undivided", whole, paid)
    else:
        for kind, share in (("prompts", prompts), ("outputs", 1.0 - prompts)):
            into.add(kind, whole * share, None if paid is None else paid * share)
    if counts[0]:
        into.prompt_tokens += float(account.counts.prompts[chosen].sum())
    if counts[1]:
        into.output_tokens += float(account.counts.outputs[chosen].sum())
        into.requests += float(account.counts.served[chosen].sum())

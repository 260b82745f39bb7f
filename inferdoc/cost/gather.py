"""Accounts added up into rows: GPU-hours, money, tokens, and what one of each costs."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from inferdoc.cost.ledger import CAUSES, USEFUL, Account, known_causes
from inferdoc.cost.model import Amount, BillRow, Figures, Spent
from inferdoc.cost.prices import each, energy_of, per_million
from inferdoc.slo.model import Bounds

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

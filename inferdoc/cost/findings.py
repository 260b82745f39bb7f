"""What a finding costs an hour while it lasts, where its impact is GPU time that a bill lists."""

from __future__ import annotations

from collections.abc import Mapping

from inferdoc.audit.api import AuditOptions
from inferdoc.catalogue.load import Catalogue
from inferdoc.config import Config
from inferdoc.cost.ledger import known_causes
from inferdoc.cost.prices import slot_rates
from inferdoc.cost.reading import read_ledger
from inferdoc.errors import InferdocError
from inferdoc.judging.model import Diagnosis, Finding
from inferdoc.source.identified import Identified
from inferdoc.times import moment_ms

WASTED_BY: Mapping[str, tuple[str, ...]] = {
    "engine-down": ("away",),
    "engine-crash-loop": ("away",),
    "engine-oom": ("away",),
    "engine-hung": known_causes(),  # it serves nobody, whatever its gauges say
    "gpu-lost": known_causes(),
    "kv-preemption-thrash": ("recomputed",),
    "client-retry-storm": ("lost",),
    "prefix-index-divergence": ("missed",),
    "prefix-locality-loss": ("missed",),
    "spec-acceptance-decay": ("rejected",),
    "spec-grammar-collapse": ("rejected",),
    "spec-overhead-at-saturation": ("rejected",),
}
"""Cause -> the parts of the bill of its pods that are its doing. What others do users feel; it is no GPU time."""


def price_findings(answer: Diagnosis, source: Identified, config: Config, catalogue: Catalogue) -> None:
    """Fill in `cost_per_hour` of the findings that map to GPU time, where [prices] names their tiers. Where the source
    cannot be read a second time that is a warning."""
    if not config.prices.tiers:
        return
    for finding in answer.findings:
        if finding.id in WASTED_BY:
            try:
                finding.cost_per_hour = _cost(finding, answer, source, config, catalogue)
            except InferdocError as error:
                answer.source.warnings.append(f"{finding.id}: what it costs was not looked at: {error}")


def _cost(
    finding: Finding, answer: Diagnosis, source: Identified, config: Config, catalogue: Catalogue
) -> float | None:
    until = finding.ended or answer.window.until
    options = AuditOptions(config=config, catalogue=catalogue)
    if moment_ms(until, None) <= moment_ms(finding.onset, None):
        return None
    read = read_ledger(source, catalogue, (finding.onset, until), options)
    if read is None:
        return None
    ledger, history, slots = read
    spent, accounts = 0.0, ledger.accounts()
    rates = slot_rates(config.prices, config.pods, accounts, slots.count, slots.step_ms)
    for account in accounts:
        member = account.unit.member
        if not {member.shown, member.pod} & set(finding.scope.pods):
            continue
        price = rates.of(account)
        if price is None:
            return None
        spent += sum(float((account.parts[part] * price).sum()) for part in WASTED_BY[finding.id])
    return round(spent / (history.seconds / 3600), 4) if spent > 0 else None

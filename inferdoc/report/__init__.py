"""A diagnosis for people and for machines: text, JSON, Markdown, HTML.

Each form has one way of writing words of others (`inferdoc.escaping`): printable on a terminal, inactive in Markdown
and HTML, exact in JSON.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from inferdoc.escaping import lines

if TYPE_CHECKING:
    from inferdoc.audit.model import Audit
    from inferdoc.bench.model import BenchAnswer
    from inferdoc.canary.model import CanaryAnswer
    from inferdoc.cost.model import Bill
    from inferdoc.headroom.model import HeadroomAnswer
    from inferdoc.incidents.compare import Difference
    from inferdoc.incidents.model import Incident
    from inferdoc.judging.model import Diagnosis
    from inferdoc.kv.model import KvAnswer
    from inferdoc.sizing.decision_model import DecisionAnswer
    from inferdoc.sizing.model import SizeAnswer
    from inferdoc.verify.model import Verification
    from inferdoc.whatif.model import WhatIfAnswer


def render(
    answer: Diagnosis, form: str, *, detail: int = 0, colour: bool = False, standing: Audit | None = None
) -> str:
    """The diagnosis in one of the forms text, json, markdown, html. detail: of the text,
    0 to 2. standing: an audit of the same window, which the HTML shows as a section."""
    if form == "json":
        return lines(answer.to_json())
    if form == "markdown":
        from inferdoc.report.markdown import markdown

        return markdown(answer)
    if form == "html":
        from inferdoc.report.html import html

        return html(answer, standing)
    from inferdoc.judging.model import Diagnosis
    from inferdoc.report.printable import printable
    from inferdoc.report.text import text

    return text(printable(answer, Diagnosis), detail=detail, colour=colour)


def render_audit(answer: Audit, form: str, *, verbose: bool = False, colour: bool = False) -> str:
    """The audit in one of the forms text, json, markdown, html."""
    if form == "json":
        return lines(answer.to_json())
    if form == "markdown":
        from inferdoc.report.audit_markdown import audit_markdown

        return audit_markdown(answer)
    if form == "html":
        from inferdoc.report.audit_html import audit_html

        return audit_html(answer)
    from inferdoc.audit.model import Audit
    from inferdoc.report.audit_text import audit_text
    from inferdoc.report.printable import printable

    return audit_text(printable(answer, Audit), verbose=verbose, colour=colour)


def render_size(answer: SizeAnswer, form: str, *, verbose: bool = False, colour: bool = False) -> str:
    """The sizing as text or json."""
    if form == "json":
        return lines(answer.to_json())
    from inferdoc.report.printable import printable
    from inferdoc.report.size_text import size_text
    from inferdoc.sizing.model import SizeAnswer

    return size_text(printable(answer, SizeAnswer), verbose=verbose, colour=colour)


def render_decision(answer: DecisionAnswer, form: str, *, verbose: bool = False, colour: bool = False) -> str:
    """The decision as text, json or html."""
    if form == "json":
        return lines(answer.to_json())
    if form == "html":
        from inferdoc.report.decision import decision_html

        return lines(decision_html(answer))
    from inferdoc.report.decision import decision_text
    from inferdoc.report.printable import printable
    from inferdoc.sizing.decision_model import DecisionAnswer

    return decision_text(printable(answer, DecisionAnswer), verbose=verbose, colour=colour)


def render_bill(answer: Bill, form: str, *, verbose: bool = False, colour: bool = False) -> str:
    """The bill in one of the forms text, json, csv, html, prometheus."""
    if form == "json":
        return lines(answer.to_json())
    if form == "prometheus":
        from inferdoc.report.cost_export import cost_metrics

        return cost_metrics(answer)
    if form == "csv":
        from inferdoc.report.cost_export import cost_csv

        return cost_csv(answer)
    if form == "html":
        from inferdoc.report.cost_html import cost_html

        return cost_html(answer, verbose=verbose)
    from inferdoc.cost.model import Bill
    from inferdoc.report.cost_text import cost_text
    from inferdoc.report.printable import printable

    return cost_text(printable(answer, Bill), verbose=verbose, colour=colour)


def render_bench(answer: BenchAnswer, form: str, *, verbose: bool = False, colour: bool = False) -> str:
    """What benchmarks prove, as text or json."""
    if form == "json":
        return lines(answer.to_json())
    from inferdoc.bench.model import BenchAnswer
    from inferdoc.report.bench_text import bench_text
    from inferdoc.report.printable import printable

    return bench_text(printable(answer, BenchAnswer), verbose=verbose, colour=colour)


def render_canary(answer: CanaryAnswer, form: str, *, verbose: bool = False, colour: bool = False) -> str:
    """The gate's answer as text or json."""
    if form == "json":
        return lines(answer.to_json())
    from inferdoc.canary.model import CanaryAnswer
    from inferdoc.report.canary_text import canary_text
    from inferdoc.report.printable import printable

    return canary_text(printable(answer, CanaryAnswer), verbose=verbose, colour=colour)


def render_kv(answer: KvAnswer, form: str, *, verbose: bool = False, colour: bool = False) -> str:
    """KV economics as text, json or html."""
    if form == "json":
        return lines(answer.to_json())
    if form == "html":
        from inferdoc.report.kv import kv_html

        return kv_html(answer)
    from inferdoc.kv.model import KvAnswer
    from inferdoc.report.kv import kv_text
    from inferdoc.report.printable import printable

    return kv_text(printable(answer, KvAnswer), verbose=verbose, colour=colour)


def render_headroom(answer: HeadroomAnswer, form: str, *, verbose: bool = False, colour: bool = False) -> str:
    """Headroom as text, json, html or prometheus."""
    if form == "json":
        return lines(answer.to_json())
    if form == "html":
        from inferdoc.report.headroom_html import headroom_html

        return headroom_html(answer)
    if form == "prometheus":
        from inferdoc.report.headroom_text import headroom_metrics

        return headroom_metrics(answer)
    from inferdoc.headroom.model import HeadroomAnswer
    from inferdoc.report.headroom_text import headroom_text
    from inferdoc.report.printable import printable

    return headroom_text(printable(answer, HeadroomAnswer), verbose=verbose, colour=colour)


def render_whatif(answer: WhatIfAnswer, form: str, *, verbose: bool = False, colour: bool = False) -> str:
    """A what-if as text or json."""
    if form == "json":
        return lines(answer.to_json())
    from inferdoc.report.printable import printable
    from inferdoc.report.whatif_text import whatif_text
    from inferdoc.whatif.model import WhatIfAnswer

    return whatif_text(printable(answer, WhatIfAnswer), verbose=verbose, colour=colour)


def render_verification(answer: Verification, form: str, *, colour: bool = False) -> str:
    """What a step has brought, as text or json."""
    if form == "json":
        return lines(answer.to_json())
    from inferdoc.report.printable import printable
    from inferdoc.report.verify_text import verify_text
    from inferdoc.verify.model import Verification

    return verify_text(printable(answer, Verification), colour=colour)


def render_ledger(ledger: Sequence[Verification], form: str) -> str:
    """The ledger as text, or as a JSON list."""
    import msgspec

    if form == "json":
        return lines(msgspec.json.format(msgspec.json.encode(ledger), indent=2).decode())
    from inferdoc.report.printable import printable
    from inferdoc.report.verify_text import ledger_text
    from inferdoc.verify.model import Verification

    return ledger_text([printable(each, Verification) for each in ledger])


def render_incidents(incidents: Sequence[Incident], form: str) -> str:
    """The incidents of the record in one of the forms text, json."""
    if form == "json":
        import msgspec

        return lines(msgspec.json.format(msgspec.json.encode(list(incidents)), indent=2).decode())
    from inferdoc.report.incidents_text import listing_text

    return listing_text(incidents)


def render_differences(found: Sequence[Difference], form: str) -> str:
    """What differs between two diagnoses in one of the forms text, json."""
    if form == "json":
        import msgspec

        return lines(msgspec.json.format(msgspec.json.encode(list(found)), indent=2).decode())
    from inferdoc.report.incidents_text import differences_text

    return differences_text(found)

"""`diagnose()`: from a source and a window to a Diagnosis.

The source is read into a session (`session`: who is who, and the series), the session is judged against a reference
(`judged`; `references` has the others), and what was judged becomes the document (`document`), qualified by what was
not read (`completeness`). Of a large fleet all pods are scanned first (`scan`).
"""

from __future__ import annotations

import time

from inferdoc.catalogue.load import load_catalogue
from inferdoc.cycles import no_cycle_search
from inferdoc.errors import InferdocError, TooSlowError
from inferdoc.judging.answer import timing_of
from inferdoc.judging.completeness import qualify
from inferdoc.judging.document import DiagnosisWithSeries, document
from inferdoc.judging.judged import Judged, judge_session
from inferdoc.judging.model import Diagnosis
from inferdoc.judging.references.providers import references
from inferdoc.judging.scan.model import Scan
from inferdoc.judging.scan.stages import in_stages
from inferdoc.judging.session import Inquiry, Options, needed_signals
from inferdoc.source.base import Source
from inferdoc.times import Moment, around_window


@no_cycle_search()
def diagnose(
    source: Source,
    since: Moment | None = None,
    until: Moment = "latest",
    from_: Moment | None = None,
    options: Options | None = None,
    around: Moment | None = None,
) -> Diagnosis:
    """Judge a window of a source.

    since: how long before `until` (a duration such as "1h"), from_: or when (RFC 3339, Unix seconds); until: the same,
    "now" or "latest" (the newest sample); around: instead of these, a time at which something was wrong (half an hour
    on either side of it). The history before the window is read along, to compare the window with. Raises
    SourceError where the source cannot be read, InferdocError where a time cannot be understood, or where a name of
    `options.match` matches no pod. Answers a Diagnosis whose verdict is "unknown" where there is not enough to
    judge.
    """
    options = options or Options()
    catalogue = options.catalogue or load_catalogue()
    if around is not None:
        if since is not None or from_ is not None:
            raise InferdocError("--around says where the window begins, as --since and --from do: give one of them")
        from_, until = around_window(around, until, source.latest_ms())
    started = time.perf_counter()
    inquiry = Inquiry(source, catalogue, options, (since, from_, until))
    answer = document(in_stages(inquiry, judge_inquiry))
    answer.source.warnings = list(map(str, source.warnings))
    qualify(answer, source.warnings, catalogue.calibration)
    judge_seconds = round(time.perf_counter() - started - inquiry.seconds, 4)
    answer.timing = timing_of(source.cost, round(inquiry.seconds, 4), judge_seconds)
    return answer


def judge_inquiry(inquiry: Inquiry, scan: Scan | None = None) -> Judged:
    """Judged against the history before the window, or against the first other reference that explains more. scan:
    what was looked at before, where the source reads a part only."""
    needed, chosen = needed_signals(inquiry.catalogue), inquiry.chosen
    session = inquiry.session(needed, chosen, scan)
    judged = judge_session(session)
    if chosen is not None or judged.is_compared:
        return judged
    for reference in references(session, of_an_earlier_day=judged.rhythm is not None):
        try:
            later = inquiry.session(needed, reference, scan)
        except TooSlowError as error:
            inquiry.source.warnings.append(f"{error}; the window is compared with its own history alone")
            break
        other = judge_session(later)
        if other.explains_more(judged, reference):
            judged = other
            if judged.roots:
                break
    return judged


__all__ = ["DiagnosisWithSeries", "Options", "diagnose", "judge_inquiry"]

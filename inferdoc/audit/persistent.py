"""Add persistent issues to a diagnosis: wrong before the window, and unchanged in it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from msgspec import structs

from inferdoc.audit.describe import state_of
from inferdoc.audit.evaluate import judge
from inferdoc.audit.model import Place, rank
from inferdoc.audit.window_data import Watched
from inferdoc.catalogue.load import Catalogue, load_catalogue
from inferdoc.catalogue.standing import State
from inferdoc.config import Config
from inferdoc.cycles import no_cycle_search
from inferdoc.judging import api, request
from inferdoc.judging.document import DiagnosisWithSeries
from inferdoc.judging.model import Diagnosis, Persistent
from inferdoc.judging.session import Options
from inferdoc.judging.view import View, make_view
from inferdoc.source.base import Source
from inferdoc.source.frame import SignalFrame, SignalMatrix
from inferdoc.times import Moment
from inferdoc.words import how_many


@no_cycle_search()
def diagnose(
    source: Source,
    since: Moment | None = None,
    until: Moment = "latest",
    from_: Moment | None = None,
    options: Options | None = None,
    around: Moment | None = None,
) -> Diagnosis:
    """`inferdoc.judging.api.diagnose`, with the persistent states beside it."""
    catalogue = options.catalogue if options is not None else None
    answer = api.diagnose(source, since, until, from_, options, around)
    add_persistent(answer, Config(), catalogue or load_catalogue())
    return answer


@no_cycle_search()
def diagnosis(source: Source, config: Config, catalogue: Catalogue, params: dict[str, Any]) -> Diagnosis:
    """The same by the options of a command, and by the configuration. params: as in `inferdoc.judging.request`."""
    answer = request.diagnosis(source, config, catalogue, params)
    add_persistent(answer, config, catalogue)
    return answer


def add_persistent(answer: Diagnosis, config: Config, catalogue: Catalogue) -> None:
    """Put the states that `audit` finds in the window into a diagnosis, but for those that a finding names already; one
    that affects users is not healthy. Evaluated on the series that the diagnosis read."""
    if not isinstance(answer, DiagnosisWithSeries) or answer.view is None or answer.verdict == "unknown":
        return
    watched = Watched(_window(answer.view, catalogue), catalogue.signals, catalogue.tiers, {}, config.pods)
    states = {name: state for name, state in catalogue.standing.states.items() if state.severity == "warning"}
    entries = judge(watched, structs.replace(catalogue.standing, states=states)).standing
    entries = [one for one in entries if not _is_named(one.state, answer, catalogue)]  # it may cover others
    found = [state_of(watched, config, catalogue.standing, entry) for entry in entries]
    shown = [one for one in found if one.accepted is None and _in_focus(answer, one.place)]
    answer.persistent = [
        Persistent(
            one.id,
            one.title,
            one.place.pods,
            one.place.of_pods,
            one.observed[0].statement,
            states[one.id].affects_users,
        )
        for one in sorted(shown, key=rank)
    ]
    harmful = [one for one in answer.persistent if one.affects_users]
    if harmful and answer.verdict == "healthy":
        answer.verdict = "degraded"
        answer.summary = (
            f"Nothing changed in the window, but {how_many(len(harmful), 'persistent issue')} affects users: "
            f"{harmful[0].title}, {harmful[0].statement} (inferdoc audit)."
        )


def _is_named(state: State, answer: Diagnosis, catalogue: Catalogue) -> bool:
    """Whether a finding is about the cause of a state, or about one of the same mechanism."""
    leads_to = catalogue.recipes.get(state.runbook or "")
    if leads_to is None:
        return False
    same = any(finding.family is not None and finding.family == leads_to.family for finding in answer.findings)
    return same or any(leads_to.id in (finding.id, *finding.effects) for finding in answer.findings)


def _in_focus(answer: Diagnosis, place: Place) -> bool:
    return answer.focus is None or bool(set(place.pods) & set(answer.focus.pods))


def _window(view: View, catalogue: Catalogue) -> View:
    """The same fleet in the window alone, without its history."""
    frame, begin = view.frame, view.frame.begin
    start_ms = frame.grid.start_ms + begin * frame.grid.step_ms
    inside = SignalFrame(replace(frame.grid, start_ms=start_ms, count=frame.grid.count - begin))
    for name, matrix in frame.signals.items():
        inside.signals[name] = SignalMatrix(matrix.entities, matrix.values[:, view.begin :])
    return make_view(inside, view.fleet, None, catalogue.signals, view.lineage)

"""Causes that could not be judged, and what would change that."""

from __future__ import annotations

from inferdoc.judging.judge import Judgement
from inferdoc.judging.model import NotJudged
from inferdoc.judging.visibility import Absence, Visibility


def not_judged(judgement: Judgement, visibility: Visibility) -> list[NotJudged]:
    """Causes that no unit could be judged on."""
    found = []
    for name, by_unit in judgement.verdicts.items():
        applying = [verdict for verdict in by_unit.values() if verdict.applies]
        if not applying or not all(verdict.missing for verdict in applying):
            continue
        recipe = visibility.catalogue.recipes[name]
        if not visibility.judges(recipe):
            found.append(_entry(recipe.id, visibility.lacking(recipe), visibility.reason(recipe)))
        else:
            missing = list(dict.fromkeys(signal for verdict in applying for signal in verdict.missing))
            found.append(_entry(recipe.id, missing, _for_these_pods(missing, visibility)))
    return found


def nothing_to_judge(visibility: Visibility) -> list[NotJudged]:
    """Without any engine in the source nothing is judged: every cause with the signals it would need."""
    recipes = [recipe for recipe in visibility.catalogue.recipes.values() if not visibility.judges(recipe)]
    return [_entry(recipe.id, visibility.lacking(recipe), visibility.reason(recipe)) for recipe in recipes]


def _for_these_pods(missing: list[str], visibility: Visibility) -> Absence:
    """Of signals that others show."""
    ways = dict.fromkeys(visibility.catalogue.signals[name].enable for name in missing)
    cures = "; ".join(way for way in ways if way)
    return Absence("blind", f"not shown for these pods, or not joined to them{': ' if cures else ''}{cures}")


def _entry(name: str, missing: list[str], reason: Absence) -> NotJudged:
    return NotJudged(name, missing, reason.cure, reason.kind)

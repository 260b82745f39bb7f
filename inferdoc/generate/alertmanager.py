"""The Alertmanager configuration, from alerts/routing.yaml."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from inferdoc.catalogue.content import content_file
from inferdoc.catalogue.document import decode, locate
from inferdoc.catalogue.recipe import Recipe
from inferdoc.errors import CatalogueError
from inferdoc.generate.cause_rules import COMPONENT, AlertRule, alert_name
from inferdoc.times import length_of

Receiver = dict[str, Any]
OURS = f'component="{COMPONENT}"'
TOGETHER = (("namespace", "model_name"), ("namespace", "pod"), ("namespace",))
"""What the alert of a cause and those of its effects have in common, by what the former names."""


class Route(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Where alerts go that match; what is left out is inherited."""

    receiver: str
    matchers: tuple[str, ...]
    group_by: tuple[str, ...] | None = None
    group_wait: str | None = None
    group_interval: str | None = None
    repeat_interval: str | None = None


class Inhibition(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """While an alert that matches `source` fires, those that match `target` and agree in `equal` are inhibited.

    equal: labels that both must carry; equal_if_set: labels that may be missing, but then on both.
    """

    because: str
    source: tuple[str, ...]
    target: tuple[str, ...]
    equal: tuple[str, ...]
    equal_if_set: tuple[str, ...] = ("cluster",)


class Routing(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """alerts/routing.yaml."""

    receivers: tuple[Receiver, ...]
    default_receiver: str
    group_by: tuple[str, ...]
    routes: tuple[Route, ...]
    inhibitions: tuple[Inhibition, ...] = ()
    group_wait: str = "30s"
    group_interval: str = "5m"
    repeat_interval: str = "4h"


def load_routing(overlays: tuple[Path, ...] = ()) -> Routing:
    """alerts/routing.yaml, checked. Raises CatalogueError: one line with file and place."""
    path = content_file("alerts", "routing.yaml", overlays)
    if path is None:
        raise CatalogueError("alerts/routing.yaml: not found; it says where alerts go")
    found = decode(path, Routing)
    known = {receiver.get("name") for receiver in found.receivers}
    for index, route in enumerate(found.routes):
        if route.receiver not in known:
            raise CatalogueError(f"{locate(path, ('routes', index, 'receiver'))}: no such receiver {route.receiver!r}")
        repeat, flush = route.repeat_interval, route.group_interval or found.group_interval
        if repeat is not None and length_of(repeat) < length_of(flush):
            place = locate(path, ("routes", index, "repeat_interval"))
            raise CatalogueError(
                f"{place}: {repeat} is shorter than group_interval {flush}: it would repeat every {flush}"
            )
    if found.default_receiver not in known:
        raise CatalogueError(f"{locate(path, ('default_receiver',))}: no such receiver {found.default_receiver!r}")
    return found


def effect_inhibitions(rules: Iterable[AlertRule], recipes: Mapping[str, Recipe]) -> list[Inhibition]:
    """One inhibition per cause that explains others: its effects are no tickets of their own in the same model; of one
    that names no model, of the same pod, or else of the same namespace.

    A load that grew explains the limits it reaches (`limit`); of whatever else it sets off it is the driver, not the
    story, and is inhibited in turn. Where two may bring about each other, the one that explains more inhibits the
    other: two that inhibited each other would both be silent.
    """
    own = {each.cause: each for each in rules if each.name == alert_name(each.cause) and each.cause in recipes}
    names = {cause: each.name for cause, each in own.items()}
    inhibited: dict[str, set[str]] = {}
    for cause in names:
        for effect in recipes[cause].effects:
            if effect not in names:
                continue
            if _holds_back(recipes[cause], recipes[effect]):
                inhibited.setdefault(cause, set()).add(names[effect])
            elif recipes[cause].kind == "load" and recipes[effect].kind != "load":
                inhibited.setdefault(effect, set()).add(names[cause])
    return [
        Inhibition(
            f"{recipes[cause].title}: these are its effects, or drove it",
            (f'alertname="{names[cause]}"',),
            (f'alertname=~"{"|".join(sorted(inhibited[cause]))}"', 'kind="cause"'),
            next(labels for labels in TOGETHER if set(labels) <= set(own[cause].by)),
        )
        for cause in names
        if cause in inhibited
    ]


def _holds_back(cause: Recipe, effect: Recipe) -> bool:
    """Whether a cause is the story where both are seen."""
    if cause.id in effect.effects:
        return _standing(cause) > _standing(effect)
    return _standing(cause)[0] >= _standing(effect)[0]


def _standing(recipe: Recipe) -> tuple[int, int, str]:
    """Who holds back whom of two related causes: a mechanism, then a load, then a limit; then who explains more."""
    rank = 0 if recipe.limit else 1 if recipe.kind == "load" else 2
    return rank, len(recipe.effects), recipe.id


def configuration(routing: Routing, inhibitions: Iterable[Inhibition] = ()) -> dict[str, Any]:
    """The configuration file as a document. inhibitions: besides those of the routing."""
    return {
        "route": {"receiver": routing.default_receiver, "routes": [sub_route(routing)]},
        "receivers": [dict(receiver) for receiver in routing.receivers],
        "inhibit_rules": inhibit_rules(routing, inhibitions),
    }


def sub_route(routing: Routing) -> dict[str, Any]:
    """One route that takes the alerts of inferdoc, with those of the routing below it."""
    return {
        "receiver": routing.default_receiver,
        "matchers": [OURS],
        "group_by": list(routing.group_by),
        "group_wait": routing.group_wait,
        "group_interval": routing.group_interval,
        "repeat_interval": routing.repeat_interval,
        "routes": [_route(route) for route in routing.routes],
    }


def inhibit_rules(routing: Routing, inhibitions: Iterable[Inhibition] = ()) -> list[dict[str, Any]]:
    """All inhibit rules. A label that both alerts lack counts as equal to Alertmanager, so every label of `equal` must
    be there on both."""
    return [_inhibition(each) for each in (*routing.inhibitions, *inhibitions)]


def _route(route: Route) -> dict[str, Any]:
    found: dict[str, Any] = {"receiver": route.receiver, "matchers": list(route.matchers)}
    if route.group_by is not None:
        found["group_by"] = list(route.group_by)
    for key in ("group_wait", "group_interval", "repeat_interval"):
        if getattr(route, key) is not None:
            found[key] = getattr(route, key)
    return found


def _inhibition(each: Inhibition) -> dict[str, Any]:
    return {
        "source_matchers": [OURS, *each.source, *_present(each.equal, each.source)],
        "target_matchers": [OURS, *each.target, *_present(each.equal, each.target)],
        "equal": [*each.equal, *each.equal_if_set],
    }


def _present(labels: tuple[str, ...], given: tuple[str, ...]) -> list[str]:
    """Matchers that ask for a label to be there, where none does yet."""
    named = {matcher.partition("=")[0].rstrip("!") for matcher in given}
    return [f'{label}=~".+"' for label in labels if label not in named]

"""The Alertmanager configuration, from alerts/routing.yaml."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import yaml

from inferdoc.catalogue.content import content_file
from inferdoc.catalogue.document import decode, locate
from inferdoc.catalogue.recipe import Recipe
from inferdoc.errors import CatalogueError, InferdocError
from inferdoc.generate.cause_rules import COMPONENT, AlertRule, alert_name
from inferdoc.generate.document import plain_yaml
from inferdoc.times import length_of

MATCHER = re.compile(r'\s*([a-zA-Z_]\w*)\s*(=~|!~|!=|=)\s*"?((?:[^"\\]|\\.)*)"?\s*')


@dataclass(frozen=True)
class Matcher:
    """One matcher of Alertmanager on a label; a label that is not there is empty."""

    label: str
    sign: str
    value: str

    def fits(self, labels: Mapping[str, str]) -> bool:
        """Whether labels fit; patterns match the whole value."""
        own = labels.get(self.label, "")
        same = bool(re.fullmatch(self.value, own)) if "~" in self.sign else own == self.value
        return same != self.sign.startswith("!")


def read_matchers(texts: Iterable[str], path: Path) -> tuple[Matcher, ...]:
    """Matchers as written in a file. Raises InferdocError for one that cannot be read."""
    found = []
    for text in texts:
        read = MATCHER.fullmatch(text)
        if read is None:
            raise InferdocError(f'{path}: matcher {text!r} cannot be read; write label="value"')
        found.append(Matcher(read[1], read[2], read[3].replace('\\"', '"').replace("\\\\", "\\")))
    return tuple(found)


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
            if effect not in names or own[effect].kind != "cause":  # a symptom pages, whatever explains it
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


def routing_of(routing: Routing, rules: Collection[AlertRule]) -> Routing:
    """The routing with the routes, receivers and inhibitions that these rules may need."""
    known = [{"alertname": each.name, "severity": each.severity, "kind": each.kind} for each in rules]

    def needed(matchers: Sequence[str]) -> bool:
        read = read_matchers(matchers, Path("routing.yaml"))
        return any(_may_fit(read, labels) for labels in known)

    routes = tuple(each for each in routing.routes if needed(each.matchers))
    names = {routing.default_receiver, *(each.receiver for each in routes)}
    return msgspec.structs.replace(
        routing,
        routes=routes,
        receivers=tuple(each for each in routing.receivers if each["name"] in names),
        inhibitions=tuple(each for each in routing.inhibitions if needed(each.source) and needed(each.target)),
    )


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


BEGIN, END = "# inferdoc: begin", "# inferdoc: end"
MARKED = re.compile(rf"^[ ]*{BEGIN}\n.*?^[ ]*{END}\n", re.MULTILINE | re.DOTALL)
SEVERITIES = ("critical", "warning", "info", "none")


def merged(
    text: str, path: Path, routing: Routing, inhibitions: Sequence[Inhibition], receivers: Mapping[str, str]
) -> tuple[str, list[str]]:
    """The configuration with ours in it, and what of it may hold back our alerts. receivers: name of ours -> name of
    one that is there.

    Raises InferdocError for a file that is no configuration, a name that clashes or is not there, and a list in flow
    style.
    """
    bare = MARKED.sub("", text if text.endswith("\n") else f"{text}\n")
    document = _document(bare, path)
    theirs = [str(each.get("name")) for each in document.get("receivers") or ()]
    for name in receivers.values():
        if name not in theirs:
            raise InferdocError(f"{path}: no receiver is called {name!r}; it has {', '.join(theirs)}")
    added = [each for each in routing.receivers if each["name"] not in receivers]
    for each in added:
        if each["name"] in theirs:
            raise InferdocError(
                f"{path}: a receiver {each['name']!r} is there already; use it with --receiver "
                f"{each['name']}={each['name']}, or rename it"
            )
    route = _renamed(sub_route(routing), receivers)
    for keys, items in (
        (("route", "routes"), [route]),
        (("receivers",), added),
        (("inhibit_rules",), inhibit_rules(routing, inhibitions)),
    ):
        bare = _with_items(bare, keys, items, path)
    _refuse_changes(document, _document(bare, path), path)
    return bare, list(_holding_back(document, path))


def _document(text: str, path: Path) -> dict[str, Any]:
    try:
        found = yaml.load(text, yaml.CSafeLoader)
    except yaml.YAMLError as error:
        raise InferdocError(f"{path}: not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(found, dict) or not isinstance(found.get("route"), dict):
        raise InferdocError(f"{path}: no Alertmanager configuration: `route` is missing")
    return found


def _renamed(route: dict[str, Any], receivers: Mapping[str, str]) -> dict[str, Any]:
    below = {"routes": [_renamed(each, receivers) for each in route["routes"]]} if "routes" in route else {}
    return {**route, "receiver": receivers.get(route["receiver"], route["receiver"]), **below}


def _with_items(text: str, keys: tuple[str, ...], items: Sequence[Any], path: Path) -> str:
    """The text with items at the front of a list, between the marks."""
    if not items:
        return text
    mapping: Any = yaml.compose(text, yaml.CSafeLoader)
    indent = 0
    for key in keys[:-1]:
        mapping = next(value for name, value in mapping.value if name.value == key)
        indent = mapping.start_mark.column
        if mapping.flow_style:
            raise InferdocError(f"{path}: {key} is in flow style; write it as a block, one key a line")
    lines = text.splitlines(keepends=True)
    place = next(((name, value) for name, value in mapping.value if name.value == keys[-1]), None)
    if place is None:
        at = mapping.start_mark.line if keys[:-1] else len(lines)
        return "".join([*lines[:at], f"{' ' * indent}{keys[-1]}:\n", _block(items, indent), *lines[at:]])
    name, value = place
    at = name.end_mark.line + 1
    if value.value and value.value != "null" and value.flow_style:
        raise InferdocError(f"{path}: {'.'.join(keys)} is in flow style; write it as a block, one item a line")
    if isinstance(value, yaml.SequenceNode) and value.value:
        return "".join([*lines[:at], _block(items, value.start_mark.column), *lines[at:]])
    if value.end_mark.index > value.start_mark.index:  # [] or null
        lines[at - 1] = f"{' ' * name.start_mark.column}{keys[-1]}:\n"
    return "".join([*lines[:at], _block(items, indent), *lines[at:]])


def _block(items: Sequence[Any], indent: int) -> str:
    body = [BEGIN, *plain_yaml(items).splitlines(), END]
    return "".join(f"{' ' * indent}{line}\n" for line in body)


def _refuse_changes(before: dict[str, Any], after: dict[str, Any], path: Path) -> None:
    """The rest is as it was."""
    routes = (after["route"].get("routes") or [])[1:]
    rest = {**after, "route": {**after["route"], "routes": routes}}
    for key in ("receivers", "inhibit_rules"):
        added = len(after.get(key) or ()) - len(before.get(key) or ())
        rest[key] = (after.get(key) or [])[added:]
    whole = {"receivers": before.get("receivers") or [], "inhibit_rules": before.get("inhibit_rules") or []}
    was = {**before, **whole, "route": {**before["route"], "routes": before["route"].get("routes") or []}}
    if was != rest:
        raise InferdocError(f"{path}: cannot be merged without changing the rest of it; add the output of "
                            "`inferdoc alerts routes` by hand")  # fmt: skip


def _holding_back(document: dict[str, Any], path: Path) -> Iterator[str]:
    """Inhibit rules of others whose targets our alerts may be."""
    for number, rule in enumerate(document.get("inhibit_rules") or ()):
        matchers = read_matchers(rule.get("target_matchers") or (), path)
        matchers += tuple(Matcher(label, "=", value) for label, value in (rule.get("target_match") or {}).items())
        matchers += tuple(Matcher(label, "=~", value) for label, value in (rule.get("target_match_re") or {}).items())
        if any(_may_fit(matchers, {"severity": each, "alertname": "InferdocAlert"}) for each in SEVERITIES):
            yield f'{path}: inhibit_rules[{number}] may inhibit alerts of inferdoc; add component!="inferdoc" to it'


def _may_fit(matchers: Sequence[Matcher], labels: Mapping[str, str]) -> bool:
    known = {"component": COMPONENT, **labels}
    return all(matcher.fits(known) for matcher in matchers if matcher.label in known)

"""Our routes and inhibit rules in an Alertmanager configuration of somebody else: lines between two marks, so that the
rest of the file stays as it is, and a second merge replaces the first."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from inferdoc.errors import InferdocError
from inferdoc.generate.alertmanager import Inhibition, Routing, inhibit_rules, sub_route
from inferdoc.generate.cause_rules import COMPONENT
from inferdoc.generate.document import plain_yaml
from inferdoc.generate.matchers import Matcher, read_matchers

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
        if any(_may_fit(matchers, severity) for severity in SEVERITIES):
            yield f'{path}: inhibit_rules[{number}] may hold back alerts of inferdoc; add component!="inferdoc" to it'


def _may_fit(matchers: Sequence[Matcher], severity: str) -> bool:
    known = {"component": COMPONENT, "severity": severity, "alertname": "InferdocAlert"}
    return all(matcher.fits(known) for matcher in matchers if matcher.label in known)

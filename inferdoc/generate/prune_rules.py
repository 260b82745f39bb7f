"""What no rule reads is not recorded, and what one observation alone reads is written there: a recorded signal is a
series for every pod, an observation one for each of those for whom it holds."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from typing import Any

from inferdoc.generate.promtool import NAME
from inferdoc.generate.recorded import Records
from inferdoc.judging.conditions.render import clause

CHOSEN = ("[", "{")
"""What follows a name that is read over a range, or by its labels, and so must be a series."""
LATER = re.compile(r"\s*(?:[\[{]|offset\b)")
"""The same, with a name that is read at an earlier time."""
Groups = list[dict[str, Any]]


def pruned(records: Records, exprs: Collection[str]) -> Records:
    """The records that expressions rest on, directly or through others."""
    needed = _among(records, _used(records.all, exprs))
    now, alone = needed.now, set(_read_once(needed, exprs))

    def replaced(found: re.Match[str]) -> str:
        return clause(now[found[0]]) if found[0] in alone else found[0]

    observations = {name: NAME.sub(replaced, text) for name, text in needed.observations.items()}
    return replace(needed, now=_only(now, now.keys() - alone), observations=observations)


def narrowed(records: Records, exprs: Collection[str]) -> Records:
    """The records with usual values of those alone that need one. exprs: rules that need them sooner than usual values
    are recorded, so of all. Swings come first: usual values are compared with them."""
    soon = _used(records.all, exprs)
    beyond = {name: text for name, text in records.beyond.items() if text and name in records.usual.keys() - soon}
    return replace(records, usual={**_only(records.usual, records.usual.keys() - beyond.keys()), **beyond})


def parted(records: Records, exprs: Collection[str]) -> tuple[Records, Records]:
    """What these expressions rest on, and all other records."""
    names = _used(records.all, exprs)
    return _among(records, names), _among(records, records.all.keys() - names)


def needed(recording: Groups, alerting: Groups, *, inline: bool) -> tuple[Groups, Groups]:
    """Rule groups with the records that their alerts rest on. inline: what one rule of a group as frequent reads, as it
    is now, becomes a part of that rule."""
    groups = [*recording, *alerting]
    rules = {_named(rule): (rule, group) for group in groups for rule in group["rules"]}
    exprs = {name: rule["expr"] for name, (rule, _) in rules.items()}
    records = {name: text for name, text in exprs.items() if "record" in rules[name][0]}
    kept = _used(records, (text for name, text in exprs.items() if name not in records))
    exprs = {name: text for name, text in exprs.items() if name in kept or name not in records}
    if inline:
        _inline(exprs, {name: rules[name][1]["interval"] for name in exprs}, kept)
    return _left(recording, exprs), _left(alerting, exprs)


def _left(groups: Groups, exprs: dict[str, str]) -> Groups:
    found = [
        {**group, "rules": [{**rule, "expr": exprs[_named(rule)]} for rule in group["rules"] if _named(rule) in exprs]}
        for group in groups
    ]
    return [group for group in found if group["rules"]]


def _inline(exprs: dict[str, str], intervals: dict[str, str], records: Collection[str]) -> None:
    """Put records that are read once into their readers, until there is none."""
    reads = Counter(name for text in exprs.values() for name in NAME.findall(text))
    for reader in exprs:
        while found := next(
            (
                read
                for read in NAME.finditer(exprs[reader])
                if read[0] in records
                and reads[read[0]] == 1
                and intervals[read[0]] == intervals[reader]
                and not LATER.match(exprs[reader], read.end())
            ),
            None,
        ):
            text = exprs[reader]
            exprs[reader] = f"{text[: found.start()]}{clause(exprs[found[0]])}{text[found.end() :]}"
            reads[found[0]] = 0
    for name in [name for name in records if not reads[name]]:
        del exprs[name]


def _named(rule: dict[str, Any]) -> str:
    return str(rule.get("record", rule.get("alert")))


def _among(records: Records, names: Collection[str]) -> Records:
    parts = (records.pods, records.now, records.usual, records.observations)
    pods, now, usual, observations = (_only(part, names) for part in parts)
    return Records(pods, now, usual, observations, records.beyond)


def _used(every: dict[str, str], exprs: Iterable[str]) -> set[str]:
    open_, found = list(exprs), set[str]()
    while open_:
        for name in NAME.findall(open_.pop()):
            if name in every and name not in found:
                found.add(name)
                open_.append(every[name])
    return found


def _read_once(records: Records, exprs: Iterable[str]) -> Iterator[str]:
    """Signals that are read in one place, by an observation, and there as they are now."""
    reads = Counter(name for text in (*records.all.values(), *exprs) for name in NAME.findall(text))
    for text in records.observations.values():
        for read in NAME.finditer(text):
            if reads[read[0]] == 1 and read[0] in records.now and not text.startswith(CHOSEN, read.end()):
                yield read[0]


def _only(part: dict[str, str], names: Collection[str]) -> dict[str, str]:
    return {name: text for name, text in part.items() if name in names}

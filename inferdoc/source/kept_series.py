"""Which series of a server are read where a part of its pods is.

Nobody says of a metric which of its labels names a pod, so the labels that may (`collectors/identity.yaml`) are looked
for on one series name of each exporter. Series that name no pod, such as those of nodes, stay; so do exporters that
name none of these pods, such as routers.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Protocol, runtime_checkable

from inferdoc.catalogue.names import IdentityLabels
from inferdoc.source.reads import TARGET, Matcher, literal, selector

LONGEST_EXPRESSION = 30_000
"""Characters of a matcher that names targets or pods: with more of them all are requested."""
WORD = re.compile("[:_]")
OF_TARGETS = ("up", "process", "python", "http", "scrape")
"""First words of what any target shows, whichever exporter it is."""
CLUSTER = "cluster"
"""The label by which rules distinguish clusters."""
NAMES_TRIED = 4
"""Series names of an exporter on which a label with a pod is looked for: some are about nodes alone."""


@runtime_checkable
class KeepsSeries(Protocol):
    """A server that lists the values of a label, and reads a part of its series."""

    def keep_only(self, matchers: Mapping[str, tuple[Matcher, ...]]) -> None:
        """From now on read only such series of the metrics whose names begin with a word."""

    def label_values(self, label: str, what: str, start_ms: int, end_ms: int) -> set[str]:
        """The values that a label has on what a selector matches."""


def word_of(name: str) -> str:
    """The word with which the name of a metric begins: that of its exporter."""
    return WORD.split(name)[0]


def matchers_of(
    server: KeepsSeries,
    identity: IdentityLabels,
    names: Iterable[str],
    pods: Collection[str],
    clusters: Collection[str],
    span: tuple[int, int],
) -> dict[str, tuple[Matcher, ...]]:
    """By first word, matchers of the series of these pods. names: of series that are there and will be read; pods:
    their names, which may be the same in several clusters; span: from and until, milliseconds since 1970. Raises
    SourceError."""
    of_pods = "|".join(sorted(map(literal, pods)))
    if not pods or len(of_pods) > LONGEST_EXPRESSION:
        return {}
    by_word: dict[str, list[str]] = {}
    for name in sorted(names):
        by_word.setdefault(word_of(name), []).append(name)
    place = _of_clusters(clusters)
    matchers, targets = dict[str, tuple[Matcher, ...]](), set[str]()
    for word, own in by_word.items():
        if word in OF_TARGETS:
            continue
        for name in _likely(own, identity)[:NAMES_TRIED]:
            label = _label_of_pods(server, identity, name, of_pods, span)
            if label is not None:
                matchers[word] = ((label, "=~", f"{of_pods}|"), *place)
                break
        else:
            name, label = own[0], None
        what = selector(name, (*(() if label is None else ((label, "=~", of_pods),)), *place))
        targets |= server.label_values(TARGET, what, *span)
    of_targets = "|".join(map(literal, sorted(targets)))
    if targets and len(of_targets) <= LONGEST_EXPRESSION:
        matchers |= dict.fromkeys(OF_TARGETS, ((TARGET, "=~", of_targets), *place))
    return matchers


def matchers_of_targets(targets: Iterable[Mapping[str, str]]) -> tuple[Matcher, ...]:
    """Matchers of the series of targets with these labels; none where they are too many to be named."""
    targets = list(targets)
    expression = "|".join(sorted({literal(name) for each in targets if (name := each.get(TARGET, ""))}))
    if not expression or len(expression) > LONGEST_EXPRESSION:
        return ()
    return (TARGET, "=~", expression), *_of_clusters({each.get(CLUSTER, "") for each in targets})


def _of_clusters(clusters: Collection[str]) -> tuple[Matcher, ...]:
    """Addresses and names of pods are the same in several clusters. What names no cluster stays."""
    named = sorted(map(literal, clusters))
    return ((CLUSTER, "=~", f"{'|'.join(named)}|"),) if all(named) else ()


def _likely(names: list[str], identity: IdentityLabels) -> list[str]:
    """Those first by which pods are recognised anyway."""
    signs = {name for group in (*identity.engines, *identity.gpus) for name in group}
    return sorted(names, key=lambda name: name not in signs)


def _label_of_pods(
    server: KeepsSeries, identity: IdentityLabels, name: str, of_pods: str, span: tuple[int, int]
) -> str | None:
    """The label that names one of these pods on series of a name, the surest first."""
    for label in dict.fromkeys(each.pod for each in identity.pods):
        if server.label_values(label, selector(name, ((label, "=~", of_pods),)), *span):
            return label
    return None

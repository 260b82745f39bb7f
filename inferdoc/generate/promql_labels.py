"""Which labels the result of an expression may carry, and joins in it that can never match.

Reads PromQL from left to right and works out labels on the way; of values it knows nothing. What a label names is kept
beside it: the pod of a router and the pod of an engine are called alike and are never the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from inferdoc.catalogue.aliases import HISTOGRAM_PARTS
from inferdoc.catalogue.load import Catalogue
from inferdoc.errors import InferdocError
from inferdoc.generate.promql_words import Word, closing, words

Carried = Mapping[str, frozenset[str]]
"""Labels that a series may carry, each with whom it names; ANYBODY where that is not known."""
ANYBODY = frozenset({"anybody"})
MAYBE = frozenset({"maybe"})
"""Beside whom a label names: only some of several alternatives carry it."""
LOOSE = frozenset({"cluster", "role", "tier", "node"})
"""Labels that are there on some fleets only: two sides of which one has them match where both lack them."""
LEVELS: tuple[tuple[str, ...], ...] = (
    ("or",),
    ("and", "unless"),
    ("==", "!=", ">=", "<=", ">", "<"),
    ("+", "-"),
    ("*", "/", "%", "atan2"),
    ("^",),
)
AGGREGATIONS = frozenset(
    {"sum", "min", "max", "avg", "group", "stddev", "stdvar", "count", "count_values", "bottomk", "topk", "quantile"}
)
NO_LABELS = frozenset({"vector", "absent", "absent_over_time"})
NO_SERIES = frozenset({"time", "scalar", "pi"})
MADE = frozenset({"label_replace", "label_join"})


def carried(expr: str, known: Callable[[str], Carried | None]) -> tuple[Carried | None, list[str]]:
    """The labels of the result, None where nothing is known of them, and joins that cannot match, one line each.

    known: of a metric or a record by name. Raises ValueError where the expression is no PromQL.
    """
    reader = _Reader(words(expr), known)
    found = reader.binary(0)
    if reader.at < len(reader.words):
        raise ValueError(f"not read from {reader.words[reader.at].text!r} on")
    return found, reader.problems


@dataclass
class _Matching:
    on: tuple[str, ...] | None = None
    ignoring: tuple[str, ...] = ()
    group: str = ""
    brought: tuple[str, ...] = ()


@dataclass
class _Reader:
    words: list[Word]
    known: Callable[[str], Carried | None]
    at: int = 0
    problems: list[str] = field(default_factory=list)

    def text(self, ahead: int = 0) -> str:
        return self.words[self.at + ahead].text if self.at + ahead < len(self.words) else ""

    def take(self) -> Word:
        if self.at >= len(self.words):
            raise ValueError("ends too early")
        self.at += 1
        return self.words[self.at - 1]

    def binary(self, level: int) -> Carried | None:
        if level == len(LEVELS):
            return self.postfixed()
        left = self.binary(level + 1)
        while self.text() in LEVELS[level]:
            sign, matching = self.take().text, self.matching()
            left = self.joined(left, self.binary(level + 1), sign, matching)
        return left

    def matching(self) -> _Matching:
        found = _Matching()
        if self.text() == "bool":
            self.take()
        if self.text() in ("on", "ignoring"):
            kind, labels = self.take().text, self.labels()
            found.on, found.ignoring = (labels, ()) if kind == "on" else (None, labels)
        if self.text() in ("group_left", "group_right"):
            found.group = self.take().text
            found.brought = self.labels() if self.text() == "(" else ()
        return found

    def labels(self) -> tuple[str, ...]:
        """A list of labels in parentheses."""
        end = closing(self.words, self.at)
        found = tuple(word.text for word in self.words[self.at + 1 : end] if word.text != ",")
        self.at = end + 1
        return found

    def joined(self, left: Carried | None, right: Carried | None, sign: str, matching: _Matching) -> Carried | None:
        if left is None or right is None:
            return right if left is None else left
        if sign != "or":
            self.judge(left, right, matching)
        if sign == "or":
            return {name: left.get(name, MAYBE) | right.get(name, MAYBE) for name in {*left, *right}}
        if sign in ("and", "unless"):
            return left
        many, one = (right, left) if matching.group == "group_right" else (left, right)
        if matching.group:
            for label in matching.brought:
                if label not in one:
                    self.problems.append(f"{matching.group} ({label}): the side that should bring it does not carry it")
            return {**many, **{label: one[label] for label in matching.brought if label in one}}
        return left if matching.on is None else {name: left[name] for name in matching.on if name in left}

    def judge(self, left: Carried, right: Carried, matching: _Matching) -> None:
        """Note what keeps two sides from ever matching."""
        both = [*left, *(name for name in right if name not in left)]
        required = [n for n in both if n not in matching.ignoring] if matching.on is None else list(matching.on)
        for name in required:
            if name in left and name in right:
                ours, theirs = left[name] - MAYBE, right[name] - MAYBE
                if not (ours & ANYBODY or theirs & ANYBODY or ours & theirs):
                    whose = " and ".join(" or ".join(sorted(each)) for each in (ours, theirs))
                    self.problems.append(f"{_in_words(matching)}: {name} names another thing on each side, {whose}")
            elif name not in LOOSE and not MAYBE & left.get(name, right.get(name, MAYBE)):
                side = "right" if name in left else "left"
                self.problems.append(f"{_in_words(matching)}: the {side} side does not carry {name}")

    def postfixed(self) -> Carried | None:
        while self.text() in ("-", "+"):
            self.take()
        found = self.primary()
        while self.text() in ("[", "offset", "@"):
            if self.text() == "[":
                self.at = closing(self.words, self.at) + 1
            else:
                self.take()
                self.at += 1 + (self.text() == "-")
        return found

    def primary(self) -> Carried | None:
        word = self.take()
        if word.kind in ("number", "string", "duration"):
            return None
        if word.text == "(":
            found = self.binary(0)
            self.take()
            return found
        if word.text == "{":
            self.at -= 1
            return self.selected("")
        if word.kind != "name":
            raise ValueError(f"unexpected {word.text!r}")
        if word.text in AGGREGATIONS and self.text() in ("(", "by", "without"):
            return self.aggregated()
        if self.text() == "(":
            return self.called(word.text)
        return self.selected(word.text)

    def selected(self, name: str) -> Carried | None:
        required: list[str] = []
        names = [name] if name else []
        if self.text() == "{":
            end = closing(self.words, self.at)
            inside = self.words[self.at + 1 : end]
            for label, sign, value in zip(inside[0::4], inside[1::4], inside[2::4], strict=False):
                if label.text == "__name__":
                    names = value.text[1:-1].split("|")
                elif sign.text == "=" and len(value.text) > 2:
                    required.append(label.text)
            self.at = end + 1
        label_sets = [labels for each in names if (labels := self.known(each)) is not None]
        if not label_sets:
            return None
        every = {label for labels in label_sets for label in labels}
        found = {label: frozenset().union(*(labels.get(label, ()) for labels in label_sets)) for label in every}
        return {**dict.fromkeys(required, ANYBODY), **found}

    def arguments(self) -> list[Carried | None]:
        found: list[Carried | None] = []
        self.take()
        while self.text() != ")":
            found.append(self.binary(0))
            if self.text() == ",":
                self.take()
        self.take()
        return found

    def aggregated(self) -> Carried | None:
        kept: tuple[str, tuple[str, ...]] | None = None
        if self.text() in ("by", "without"):
            kept = (self.take().text, self.labels())
        inner = self.arguments()[-1]
        if self.text() in ("by", "without"):
            kept = (self.take().text, self.labels())
        if inner is None:
            return None
        if kept is None:
            return {}
        return {name: who for name, who in inner.items() if (name in kept[1]) == (kept[0] == "by")}

    def called(self, name: str) -> Carried | None:
        start = self.at
        given = self.arguments()
        if name in NO_SERIES:
            return None
        if name in NO_LABELS:
            return {}
        found = next((each for each in given if each is not None), None)
        if found is not None and name in MADE:
            depth = self.words[start].inside + "("
            made = next(w for w in self.words[start : self.at] if w.kind == "string" and w.inside == depth)
            found = {**found, made.text[1:-1]: ANYBODY}
        if found is not None and name == "histogram_quantile":
            found = {label: who for label, who in found.items() if label != "le"}
        return found


def _in_words(matching: _Matching) -> str:
    return f"on ({', '.join(matching.on)})" if matching.on is not None else "a join on all labels"


OF_TARGET = ("job", "instance")
"""Labels that name the target itself, put there by whatever scrapes."""
OF_PLACE = ("cluster", "namespace", "pod", "node", "role", "tier", "container")
"""Labels of the target's place that scrape configurations add; a page may have its own under these names."""
OF_THE_ENGINE = ("engine", "part")
"""Pages of the engine's own process: what they call pod is the engine's. What a page of a router calls pod is its own.
All other pages name the workload, or are joined by what a scrape configuration puts there."""


def declared(catalogue: Catalogue) -> dict[str, Carried]:
    """The labels of every series that the collectors declare, by its name, former names too."""
    found: dict[str, Carried] = {}
    for kind, exporter in catalogue.exporters.items():
        of_engine = exporter.page in OF_THE_ENGINE
        page = ANYBODY if kind == "prometheus" else frozenset({"engine" if of_engine else kind})
        pod = ANYBODY if exporter.page == "beside" else page
        scraped = {**dict.fromkeys(OF_PLACE, ANYBODY), **dict.fromkeys(OF_TARGET, page), "pod": pod}
        for name, metric in exporter.metrics.items():
            parts = HISTOGRAM_PARTS if metric.type in ("histogram", "summary") else ("",)
            labels = {**dict.fromkeys(metric.labels, ANYBODY), **scraped}
            for each in (name, *(former.name for former in metric.formerly)):
                for part in parts:
                    found[each + part] = {**labels, "le": ANYBODY} if part == "_bucket" else labels
    return found


def join_problems(rules: Iterable[Mapping[str, object]], catalogue: Catalogue) -> Iterator[str]:
    """What is wrong with the joins of rules, recording rules before those that read them, one line each."""
    known = declared(catalogue)
    for rule in rules:
        name = str(rule.get("record") or rule["alert"])
        try:
            labels, problems = carried(str(rule["expr"]), known.get)
        except ValueError as error:
            yield f"{name}: cannot be read: {error}"
            continue
        yield from (f"{name}: {problem}: it can never match" for problem in dict.fromkeys(problems))
        if labels is not None and "record" in rule:
            known[name] = labels


def refuse_joins(rules: Iterable[Mapping[str, object]], catalogue: Catalogue) -> None:
    """Raises InferdocError with the first problem."""
    for problem in join_problems(rules, catalogue):
        raise InferdocError(f"alerts: {problem}")

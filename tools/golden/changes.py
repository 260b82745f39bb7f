"""Differences between two sets of golden answers, in words for a reviewer: what changed first, then the text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Any

from tools.golden.cases import Document

KINDS = (
    *("case", "verdict", "first finding", "findings", "certainty", "pods", "onset"),
    *("issues", "signals", "other", "text"),
)
"""From the most serious to the least: the order of the report."""
NONE, OBSERVATION = "none", "observation"
LABEL_WIDTH = 15
DIFF_LINES = 40
"""Lines of a text diff without --full."""
NAMES, FIELDS = 5, 6
"""Names and JSON fields that one line of the report lists at most."""


@dataclass
class Change:
    """One answer that changed. case: its name; answer: which one, empty for a case that is new or gone; words: kind,
    label and text of each line; text: the lines of the text that differ, as a unified diff."""

    case: str
    answer: str
    words: list[tuple[str, str, str]] = field(default_factory=list)
    text: tuple[str, ...] = ()

    def add(self, kind: str, label: str, text: str) -> None:
        """Append a line in words."""
        self.words.append((kind, label, text))

    def compare(self, kind: str, label: str, before: object, after: object, *, of: str = "", note: str = "") -> None:
        """Append `before -> after` if the two differ. of: the finding or issue, if it is not the first finding."""
        if before != after:
            self.add(kind, label, f"{of}{': ' if of else ''}{before} -> {after}{note}")

    def compare_sets(self, kind: str, label: str, before: set[str], after: set[str], *, of: str = "") -> None:
        """Append what was added and what was removed, if anything was."""
        parts = [("added", sorted(after - before)), ("removed", sorted(before - after))]
        text = "; ".join(f"{word} {_listed(names)}" for word, names in parts if names)
        if text:
            self.add(kind, label, f"{of}{': ' if of else ''}{text}")

    @property
    def kinds(self) -> set[str]:
        """The kinds of its lines; "text" for an answer of which only the wording changed."""
        return {kind for kind, _, _ in self.words} or {"text"}

    @property
    def rank(self) -> int:
        """Place of its most serious kind in KINDS."""
        return min(KINDS.index(kind) for kind in self.kinds)


def answers_in(document: Document) -> dict[str, Document]:
    """The answers of a case by title, for example `diagnose, late window`."""
    found = {}
    for window, answers in document["windows"].items():
        found |= {f"{command}, {window} window": answers[command] for command in ("diagnose", "audit")}
    return {**found, "signals --health": document["signals"]}


def changes_between(before: Mapping[str, Document], after: Mapping[str, Document]) -> list[Change]:
    """Every answer that differs, the cases with the most serious change first. before, after: documents by case."""
    found: dict[str, list[Change]] = {}
    for name in sorted({*before, *after}):
        changed = list(_changes_of(name, before.get(name), after.get(name)))
        if changed:
            found[name] = changed
    ordered = sorted(found.values(), key=lambda changed: (min(each.rank for each in changed), changed[0].case))
    return [each for changed in ordered for each in changed]


def _changes_of(name: str, before: Document | None, after: Document | None) -> Iterator[Change]:
    if before is None or after is None:
        yield Change(name, "", [("case", "case", "new" if before is None else "removed")])
        return
    old, new = answers_in(before), answers_in(after)
    expected = after["expected"]
    for title in dict.fromkeys((*old, *new)):
        if title not in old or title not in new:
            yield Change(name, title, [("case", "answer", "new" if title in new else "removed")])
        elif old[title] != new[title]:
            yield _compared(Change(name, title), old[title], new[title], expected)
    label = Change(name, "label")
    label.compare("other", "expected", ", ".join(before["expected"]), ", ".join(expected))
    for window in (each for each in after["windows"] if each in before["windows"]):
        label.compare("other", f"{window} window", *(one["windows"][window]["options"] for one in (before, after)))
    if label.words:
        yield label


def _compared(change: Change, before: Document, after: Document, expected: Sequence[str]) -> Change:
    if change.answer.startswith("diagnose"):
        _compare_diagnoses(change, before["json"], after["json"], expected)
    elif change.answer.startswith("audit"):
        _compare_audits(change, before["json"], after["json"])
    else:
        _compare_signals(change, before["json"], after["json"])
    change.compare("other", "exit code", before["exit"], after["exit"])
    change.text = _text_of(before, after)
    if not change.text:
        for line in _field_lines(before["json"], after["json"]):
            change.add("other", "only in JSON", line)
    return change


def _text_of(before: Document, after: Document) -> tuple[str, ...]:
    """The difference of the text, then what differs only with -v."""
    text = text_diff(before["text"], after["text"])
    verbose = text_diff(before.get("verbose", []), after.get("verbose", []))
    if text:
        verbose = tuple(line for line in verbose if line[0] in "+-" and line not in text)
    return (*text, "@@ only with -v", *verbose) if verbose else text


# ---- diagnose -------------------------------------------------------------------------------------------------------


def _compare_diagnoses(change: Change, before: Document, after: Document, expected: Sequence[str]) -> None:
    change.compare("verdict", "verdict", before["verdict"], after["verdict"])
    first, then = (_first(answer) for answer in (before, after))
    change.compare("first finding", "first finding", first, then, note=_against_label(first, then, expected))
    old, new = _findings(before), _findings(after)
    for key in (key for key in old if key not in new):
        change.add("findings", "finding removed", _described(old[key]))
    for key in (key for key in new if key not in old):
        change.add("findings", "finding added", _described(new[key]))
    for key in (key for key in new if key in old):
        _compare_findings(change, old[key], new[key], "" if key[0] == then else key[0])
    kept = [[key[0] for key in each if key in old and key in new] for each in (old, new)]
    change.compare("other", "order", *(", ".join(each) for each in kept))
    for label, part, key in (("not evaluated", "not_judged", "id"), ("changes", "changes", "kind")):
        change.compare_sets("other", label, *({each[key] for each in answer[part]} for answer in (before, after)))


def _first(answer: Document) -> str:
    return str(answer["findings"][0]["id"]) if answer["findings"] else NONE


def _against_label(first: str, then: str, expected: Sequence[str]) -> str:
    label = " or ".join(expected)
    words = {
        (True, False): f"  (no longer as labelled: {label})",
        (False, True): "  (now as labelled)",
        (False, False): f"  (labelled: {label})",
    }
    return words.get((first in expected, then in expected), "")


def _findings(answer: Document) -> dict[tuple[str, int], Document]:
    """By id, and by number among those of the same id."""
    seen: Counter[str] = Counter()
    found = {}
    for finding in answer["findings"]:
        found[finding["id"], seen[finding["id"]]] = finding
        seen[finding["id"]] += 1
    return found


def _compare_findings(change: Change, before: Document, after: Document, of: str) -> None:
    for label in ("severity", "certainty"):
        change.compare("certainty", label, before[label], after[label], of=of)
    chances = [f"{one['probability']:.0%}" if one["probability"] is not None else NONE for one in (before, after)]
    change.compare("certainty", "probability", *chances, of=of)
    change.compare_sets("pods", "pods", *(set(one["scope"]["pods"]) for one in (before, after)), of=of)
    onsets = before["onset"], after["onset"]
    change.compare("onset", "onset", _time(onsets[0]), _time(onsets[1]), of=of, note=_shift(*onsets))
    ends = [_time(one["ended"]) if one["ended"] else "ongoing" for one in (before, after)]
    change.compare("other", "end", *ends, of=of)
    change.compare_sets("other", "effects", *(set(one["effects"]) for one in (before, after)), of=of)
    causes = [one["change"]["cause"] or one["change"]["kind"] if one["change"] else NONE for one in (before, after)]
    change.compare("other", "change", *causes, of=of)


def _described(finding: Document) -> str:
    scope = finding["scope"]
    pods = f"{_listed(scope['pods'])} of {_counted(scope['of_pods'], 'pod')}"
    return f"{finding['id']}, {finding['certainty']}, {pods}, since {_time(finding['onset'])}"


def _time(stamp: str) -> str:
    return datetime.fromisoformat(stamp).strftime("%H:%M:%S")


def _shift(before: str, after: str) -> str:
    seconds = (datetime.fromisoformat(after) - datetime.fromisoformat(before)).total_seconds()
    return f"  ({abs(seconds):g} s {'later' if seconds > 0 else 'earlier'})"


# ---- audit ----------------------------------------------------------------------------------------------------------


def _compare_audits(change: Change, before: Document, after: Document) -> None:
    change.compare("issues", "verdict", before["verdict"], after["verdict"])
    old, new = ({_issue(state): state for state in answer["states"]} for answer in (before, after))
    for name in (name for name in old if name not in new):
        change.add("issues", "issue removed", f"{name}, {_cost(old[name])}")
    for name in (name for name in new if name not in old):
        change.add("issues", "issue added", f"{name}, {_cost(new[name])}")
    for name in (name for name in new if name in old):
        change.compare("issues", "cost", _cost(old[name]), _cost(new[name]), of=name)
        change.compare("certainty", "certainty", old[name]["certainty"], new[name]["certainty"], of=name)
        pods = (set(one["place"]["pods"]) for one in (old[name], new[name]))
        change.compare_sets("pods", "pods", *pods, of=name)
    unknown = ({each["id"] for each in answer["cannot_tell"]} for answer in (before, after))
    change.compare_sets("other", "not evaluated", *unknown)


def _issue(state: Document) -> str:
    place = state["place"]
    where = "/".join(place[key] for key in ("cluster", "namespace", "model") if place[key])
    return " ".join(word for word in (state["id"], "on", where, place["role"], place["tier"]) if word)


def _cost(state: Document) -> str:
    wasted = state["wasted"]
    if wasted is None:
        return "cost not known"
    bound = f"{wasted['bound']} " if wasted["bound"] else ""
    return f"{bound}{wasted['gpus']:.3g} GPUs ({wasted['share']:.0%})"


# ---- signals --health -----------------------------------------------------------------------------------------------


def _compare_signals(change: Change, before: Sequence[Document], after: Sequence[Document]) -> None:
    old, new = _states(before), _states(after)
    moves: dict[tuple[str, str], list[str]] = {}
    for key in dict.fromkeys((*old, *new)):
        row, signal, pod = key
        absent = "not seen" if signal == OBSERVATION else "no row"
        states = tuple(rows.get(key, absent) for rows in (old, new))
        if states[0] != states[1]:
            moves.setdefault((f"{row}, {signal}", " -> ".join(states)), []).append(pod)
    for (row, states), pods in moves.items():
        change.add("signals", "row", f"{row}: {states}  ({_listed(pods)})")


def _states(rows: Sequence[Document]) -> dict[tuple[str, str, str], str]:
    """The state by row, signal and pod. The observations of a pod count as one."""
    found: dict[tuple[str, str, str], str] = {}
    for row in rows:
        place = " ".join(word for word in (row["pod"], row.get("tier")) if word) or "the fleet"
        if "shows" in row:
            found[row["row"], OBSERVATION, place] = "seen"
        else:
            found[row["row"], row["signal"], place] = row["state"]
    return found


# ---- text and fields ------------------------------------------------------------------------------------------------


def text_diff(before: Sequence[str], after: Sequence[str]) -> tuple[str, ...]:
    """The lines that differ, with a line of context: `@@ line N`, then lines that start with -, + or a space."""
    lines: list[str] = []
    for group in SequenceMatcher(None, before, after, autojunk=False).get_grouped_opcodes(1):
        lines.append(f"@@ line {group[0][3] + 1}")
        for tag, i, j, k, m in group:
            if tag == "equal":
                lines += [f"  {line}" for line in before[i:j]]
            else:
                lines += [f"- {line}" for line in before[i:j]] + [f"+ {line}" for line in after[k:m]]
    return tuple(lines)


def _field_lines(before: Any, after: Any) -> list[str]:
    """A line for each JSON field that differs, and one that counts the rest."""
    fields = [f"{path}: {old} -> {new}" for path, old, new in _fields(before, after)]
    return fields if len(fields) <= FIELDS else [*fields[:FIELDS], f"and {len(fields) - FIELDS} more fields"]


def _fields(before: Any, after: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """The path of every value that differs, with both values."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in dict.fromkeys((*before, *after)):
            yield from _fields(before.get(key), after.get(key), f"{path}.{key}" if path else key)
    elif isinstance(before, list) and isinstance(after, list):
        for number, (one, other) in enumerate(zip_longest(before, after)):
            yield from _fields(one, other, f"{path}[{number}]")
    elif before != after:
        yield path, before, after


def _listed(names: Sequence[str]) -> str:
    more = len(names) - NAMES
    return ", ".join(names[:NAMES]) + (f" and {more} more" if more > 0 else "") if names else NONE


def report(found: Sequence[Change], answers: int, cases: int, *, full: bool = False) -> str:
    """The changes as text. answers, cases: how many were compared; full: text diffs of any length."""
    total = f"{_counted(answers, 'answer')} of {_counted(cases, 'case')}"
    if not found:
        return f"{total}: none changed\n"
    changed = _counted(len({change.case for change in found}), "case")
    lines = [f"{total}: {len(found)} changed, in {changed}", *_counts(found)]
    case, seen = "", dict[tuple[str, ...], str]()
    for change in found:
        if change.case != case:
            case = change.case
            lines += ["", case]
        lines += [f"  {change.answer}"] if change.answer else []
        lines += [f"    {label:<{LABEL_WIDTH}} {text}" for _, label, text in change.words]
        lines += [f"      {line}" for line in _text_lines(change, seen, full)]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _counts(found: Sequence[Change]) -> Iterator[str]:
    """A line for each kind of change: how many answers, and of which cases."""
    for kind in KINDS:
        having = [change.case for change in found if kind in change.kinds]
        if having:
            yield f"  {kind:<{LABEL_WIDTH}} {len(having):>3}  {_listed(list(dict.fromkeys(having)))}"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _text_lines(change: Change, seen: dict[tuple[str, ...], str], full: bool) -> Iterable[str]:
    """The text diff, or where the same one was printed before. seen: title of the first answer by its diff."""
    key = tuple(line for line in change.text if line[0] in "+-")
    if not key:
        return ()
    title = f"{change.case}, {change.answer}"
    first = seen.setdefault(key, title)
    if first != title:
        return (f"the same text change as in {first}",)
    if full or len(change.text) <= DIFF_LINES:
        return change.text
    return (*change.text[:DIFF_LINES], f"... {len(change.text) - DIFF_LINES} more lines, with --full")

"""How many mistakes in the rules the unit tests notice. All mistakes in what a test file is about run at once, as rules
of their own name beside the right ones; promtool works out what they share once."""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from inferdoc.catalogue.record_names import OF_OBSERVATIONS
from inferdoc.errors import InferdocError
from inferdoc.generate import promtool
from inferdoc.generate.alerts import TESTS
from inferdoc.generate.pack import RECORDING, RULES
from inferdoc.times import length_of
from inferdoc_dev.rule_tests.mutants import OF_RAW_SERIES, OPERATORS, Mutant, mutants, mutated

AT_ONCE = 2
MARK = "__mutant"
MARKED = re.compile(MARK + r"(\d+)\b")
REFUSED = re.compile(r"rule: (\S+), time: ")
MOST_AT_ONCE = 80
OF_PODS = "pod:"
"""Records of the role, hardware and pool of a pod: no rule's own, with tests of their own."""
FILES_TRIED = 3
"""A mistake in what many rules share is tried with the tests of so many of the records, and of the alerts, on it."""
WAITS = ("for ", "keep_firing_for ")
OF_WAITS, OF_PARTS = (
    ("-timing_test.yaml", "-limits_test.yaml"),
    ("composed", "observed", "signals", "-limits_test.yaml"),
)
"""How the files are called that hold the waits of alerts, and what is recorded of signals, the limits of rules and how
they join observations."""
Part = Literal["signals", "observations", "causes", "others"]
"""What a mistake is in: records of signals, records of observations, alerts about causes, all other alerts."""
PARTS: tuple[Part, ...] = get_args(Part)
Documents = Mapping[str, dict[str, Any]]


@dataclass(frozen=True)
class Mistake:
    """One mistake in the rule of a name. of: the rule itself and what rests on it, nearest first."""

    rule: str
    mutant: Mutant
    of: tuple[str, ...]
    part: Part = "others"


@dataclass
class Score:
    """noticed, missed: mistakes that made a test fail, and those that made none; untried: the time was up."""

    noticed: list[Mistake] = field(default_factory=list)
    missed: list[Mistake] = field(default_factory=list)
    untried: int = 0

    @property
    def share(self) -> float:
        """Of those tried, how many were noticed; 1 where none was."""
        return len(self.noticed) / max(1, len(self.noticed) + len(self.missed)) if self.tried else 1.0

    @property
    def tried(self) -> int:
        return len(self.noticed) + len(self.missed)


def mistakes(
    generated: Path, alerts: Collection[str], operators: Collection[str], parts: Collection[str] = ()
) -> list[Mistake]:
    """Every mistake in the alerts and in what their file records, and, where raw series are read, in what is recorded
    for them. alerts: names, or none for all; operators, parts: likewise.

    Raises InferdocError for a name that is not there.
    """
    documents = _documents(generated)
    names = _alerts(documents)
    for unknown in sorted({*(set(alerts) - names), *(set(operators) - set(OPERATORS))}):
        raise InferdocError(f"{unknown}: no such alert or kind of mistake; kinds are {', '.join(OPERATORS)}")
    chosen = set(alerts) or names
    needs = _needs(documents)
    resting = {name: _resting(needs, name) for name in needs}
    found = []
    for path, interval, rule in _families(documents):
        name = promtool.name_of(rule)
        part = _part(rule)
        if name.startswith(OF_PODS) or (parts and part not in parts):
            continue
        of = [each for each, needs in resting.items() if name in needs and (each in chosen or each not in names)]
        of = [name, *sorted(of, key=lambda each: (len(resting[each]), each))]
        records, alerts_on_it = (
            [each for each in of if (each in names) == alert][:FILES_TRIED] for alert in (False, True)
        )
        for mutant in mutants(rule, length_of(interval)) if chosen & set(of) else ():
            raw = mutant.operator in OF_RAW_SERIES
            if (not operators or mutant.operator in operators) and (path == str(RULES) or raw):
                found.append(Mistake(name, mutant, (*records, *alerts_on_it), part))
    return found


def _part(rule: Mapping[str, Any]) -> Part:
    if "record" in rule:
        return "observations" if str(rule["record"]).endswith(OF_OBSERVATIONS) else "signals"
    return "causes" if rule.get("labels", {}).get("kind") == "cause" else "others"


def run(
    generated: Path,
    found: Sequence[Mistake],
    *,
    seconds: float = float("inf"),
    shown: Callable[[int, int], None] = lambda done, of: None,
) -> Score:
    """Try the mistakes. seconds: no new test file is started after so long; shown: gets how many are settled.

    Raises InferdocError where promtool or a test is missing, or a test fails without a mistake.
    """
    files = _tests(generated)
    score, open_, started = Score(), [(each, list(_files(each, files))) for each in found], time.monotonic()
    while open_:
        score.missed += [each for each, paths in open_ if not paths]
        batches = list(_batches([(each, paths) for each, paths in open_ if paths]))
        open_ = []
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for (path, batch), hit in zip(
                batches, pool.map(lambda b: _within(generated, b, started + seconds), batches), strict=True
            ):
                if hit is None:
                    score.untried += len(batch)
                    continue
                score.noticed += [each for number, (each, _) in enumerate(batch) if number in hit]
                rest = [(each, paths) for number, (each, paths) in enumerate(batch) if number not in hit]
                open_ += [(each, [other for other in paths if other != path]) for each, paths in rest]
                shown(score.tried, len(found))
    shown(len(found), len(found))
    return score


Trial = tuple[Mistake, list[Path]]


def _batches(open_: Iterable[Trial]) -> Iterator[tuple[Path, list[Trial]]]:
    by_file: dict[Path, list[Trial]] = {}
    for each, paths in open_:
        by_file.setdefault(paths[0], []).append((each, paths))
    for path, batch in sorted(by_file.items(), key=lambda entry: -len(entry[1])):
        for start in range(0, len(batch), MOST_AT_ONCE):
            yield path, batch[start : start + MOST_AT_ONCE]


def _files(each: Mistake, files: Mapping[str, list[Path]]) -> Iterator[Path]:
    """The test files that may notice a mistake, the most telling first: of a wait those of when an alert waits, of all
    else those of parts of rules."""
    found = dict.fromkeys(path for name in each.of for path in files.get(name, ()))
    telling = OF_WAITS if each.mutant.operator.startswith(WAITS) else OF_PARTS
    yield from sorted(found, key=lambda path: not path.name.startswith(telling) and not path.name.endswith(telling))


def _within(generated: Path, batch: tuple[Path, list[Trial]], end: float) -> set[int] | None:
    """The numbers of the mistakes of a batch that its test file notices; None where the time is up."""
    if time.monotonic() > end:
        return None
    path, trials = batch
    return _noticed(generated, path, {number: each for number, (each, _) in enumerate(trials)})


def _noticed(generated: Path, path: Path, left: dict[int, Mistake]) -> set[int]:
    """Run a test file with mistakes. A rule that the server refuses to evaluate fails every test of its file: what is
    refused counts as noticed, and the rest runs again."""
    document = promtool.load(path)
    found: set[int] = set()
    while left:
        with tempfile.TemporaryDirectory(prefix="inferdoc-") as name:
            folder = Path(name)
            rules, copies = _mutated(generated, document, left)
            for file, text in rules.items():
                promtool.write(folder / file, text)
            promtool.write(folder / path.name, {**_repeated(document, copies), "rule_files": [*rules]})
            output = promtool.output_of_test(folder / path.name)
        refused = {int(number) for rule in REFUSED.findall(output) for number in MARKED.findall(rule)}
        plain = [rule for rule in REFUSED.findall(output) if not MARKED.search(rule)]
        right = [rule for rule, *_ in promtool.ALERTS.findall(output) if not MARKED.search(rule)]
        if plain or right:
            raise InferdocError(f"{path}: fails as it is: {(plain or right)[0]}; run inferdoc alerts test first")
        if "SUCCESS" not in output and "FAILED" not in output:
            raise InferdocError(f"{path}: promtool says {' '.join(output.split())[:200]}")
        if not refused:
            return found | {int(number) for number in MARKED.findall(output)}
        found |= refused
        left = {number: each for number, each in left.items() if number not in refused}
    return found


Copies = Mapping[int, set[str]]
"""The rules that a mistake changes, by its number: the one it is in and those that rest on it."""


def _mutated(
    generated: Path, document: Mapping[str, Any], left: Mapping[int, Mistake]
) -> tuple[dict[str, dict[str, Any]], Copies]:
    """The rule files with what a test reads rests on, and beside every rule those of it that are wrong."""
    kept = promtool.reduced(_documents(generated), promtool.subjects_of(document))
    needs = _needs(kept)
    copies = {number: _dependants(each.rule, needs) for number, each in left.items()}
    found = {}
    for path, text in kept.items():
        groups = []
        for group in text["groups"]:
            wrong = [_copy(rule, number, left[number], names) for rule in group["rules"]
                     for number, names in copies.items() if promtool.name_of(rule) in names]  # fmt: skip
            groups.append({**group, "rules": [*group["rules"], *_in_order(wrong)]})
        found[path] = {"groups": groups}
    return found, copies


def _in_order(wrong: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Copies of one mistake after each other, in the order of the rules they copy."""
    return sorted(wrong, key=lambda rule: int(MARKED.search(promtool.name_of(rule)).group(1)))  # type: ignore[union-attr]


def _copy(rule: Mapping[str, Any], number: int, each: Mistake, names: Collection[str]) -> dict[str, Any]:
    """A rule as it is with a mistake: wrong itself, or resting on what is."""
    changed = mutated(rule, each.mutant) if promtool.name_of(rule) == each.rule else dict(rule)
    expr = promtool.NAME.sub(
        lambda found: found.group() + f"{MARK}{number}" * (found.group() in names), str(changed["expr"])
    )
    key = "alert" if "alert" in rule else "record"
    return {**changed, key: f"{rule[key]}{MARK}{number}", "expr": expr}


def _dependants(name: str, needs: Mapping[str, set[str]]) -> set[str]:
    """A rule and all that rest on it."""
    found, open_ = {name}, [name]
    while open_:
        now = open_.pop()
        for other in [other for other, read in needs.items() if now in read and other not in found]:
            found.add(other)
            open_.append(other)
    return found


def _repeated(document: Mapping[str, Any], copies: Copies) -> dict[str, Any]:
    """A test file that checks of the copies of every mistake what it checks of the right rules, and gives them the
    records that it gives these."""
    tests = []
    for test in document["tests"]:
        copied = dict(test)
        copied["input_series"] = [
            {**line, "series": marked}
            for line in test.get("input_series", ())
            for marked in _given(line["series"], copies)
        ]
        for key, name in (("alert_rule_test", "alertname"), ("promql_expr_test", "expr")):
            if key in test:
                copied[key] = [{**check, name: one} for check in test[key] for one in _names(check[name], key, copies)]
        tests.append(copied)
    return {**document, "tests": tests}


def _given(series: str, copies: Copies) -> Iterator[str]:
    yield series
    name = promtool.NAME.match(series)
    for number, changed in copies.items() if name else ():
        if name.group() in changed:  # type: ignore[union-attr]
            yield f"{name.group()}{MARK}{number}{series[name.end() :]}"  # type: ignore[union-attr]


def _names(text: str, key: str, copies: Copies) -> Iterator[str]:
    """A check, and the same of what each mistake changes."""
    yield text
    for number, changed in copies.items():
        marked = f"{text}{MARK}{number}" if key == "alert_rule_test" and text in changed else text
        if key == "promql_expr_test" and promtool.ALERT.search(text):
            marked = _marked(text, promtool.ALERT, changed, number)
        elif key == "promql_expr_test":
            marked = _marked(text, promtool.NAME, changed, number)
        if marked != text:
            yield marked


def _marked(text: str, pattern: re.Pattern[str], changed: Collection[str], number: int) -> str:
    """A query about rules, those that a mistake changes by the names of their copies."""

    def name_of(found: re.Match[str]) -> str:
        name = found.group(found.lastindex or 0)
        return found.group().replace(name, f"{name}{MARK}{number}") if name in changed else found.group()

    return pattern.sub(name_of, text)


# ---- what there is ---------------------------------------------------------------------------------------------------


def _documents(generated: Path) -> dict[str, dict[str, Any]]:
    return {str(name): promtool.load(generated / name) for name in (RECORDING, RULES)}


def _families(documents: Documents) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Every rule with its file and the interval of its group; of an alert with several rules the first."""
    seen = set()
    for path, document in documents.items():
        for group in document["groups"]:
            for rule in group["rules"]:
                if promtool.name_of(rule) not in seen:
                    seen.add(promtool.name_of(rule))
                    yield path, group["interval"], rule


def _alerts(documents: Documents) -> set[str]:
    return {
        rule["alert"] for found in documents.values() for g in found["groups"] for rule in g["rules"] if "alert" in rule
    }


def _needs(documents: Documents) -> dict[str, set[str]]:
    """What every rule reads of what others record."""
    found: dict[str, set[str]] = {}
    for document in documents.values():
        for rule in (rule for group in document["groups"] for rule in group["rules"]):
            name = promtool.name_of(rule)
            found.setdefault(name, set()).update(set(promtool.NAME.findall(str(rule["expr"]))) - {name})
    return found


def _resting(needs: Mapping[str, set[str]], name: str) -> set[str]:
    """The records that a rule rests on."""
    open_, found = [name], set[str]()
    while open_:
        for other in needs.get(open_.pop(), set()) - found:
            found.add(other)
            open_.append(other)
    return found - {name}


def _tests(generated: Path) -> dict[str, list[Path]]:
    """The test files of every alert and record, quickest first: fewer series."""
    found: dict[str, list[Path]] = {}
    for path in sorted((generated / TESTS).glob("*_test.yaml"), key=lambda each: each.stat().st_size):
        for subject in promtool.subjects_of(promtool.load(path)):
            found.setdefault(subject, []).append(path)
    return found

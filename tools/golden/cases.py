"""The cases, and the answers of inferdoc to each: every recording of the fixtures and every simulated incident."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from inferdoc.audit.persistent import diagnosis
from inferdoc.audit.request import audited
from inferdoc.audit.request import exit_code as exit_code_of_audit
from inferdoc.catalogue.load import Catalogue, load_catalogue
from inferdoc.cluster.traces import link_traces
from inferdoc.config import Config
from inferdoc.config_sections import BaselinesSection
from inferdoc.cost.reading import price_findings
from inferdoc.judging.request import exit_code
from inferdoc.report import render
from inferdoc.report.audit import audit_text
from inferdoc.report.health import HURTING, as_json, as_text, table
from inferdoc.report.printable import printable
from inferdoc.simulate.output import write_store
from inferdoc.simulate.scenario import Scenario
from inferdoc.simulate.scenario_files import load_scenario
from inferdoc.simulate.scrape import simulate
from inferdoc.source.base import Source
from inferdoc.source.configured import open_configured
from inferdoc.store import Store, import_file

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
RECORDED = ("recordings", "heldout", "fleets")
"""The folders of the fixtures with recordings and their labels.json."""
DEMOS = "demos"
SUFFIX = ".om.gz"
LATE_SECONDS = {"recordings": (60, 30), "heldout": (60, 30), "fleets": (180, 90), DEMOS: (180, 90)}
"""Seconds after the onset at which the late window starts: the first that leaves LEAST_SECONDS of the fault."""
LEAST_SECONDS = 20.0
COLUMNS = 118
"""Width of the text, in characters: that of the widest table."""
DIGITS = 6
"""Significant digits of a number in JSON: builds of numpy differ in the last of 15."""

Document = dict[str, Any]


class Label(msgspec.Struct, frozen=True):
    """The part of an entry of labels.json that decides the windows and the expected finding. Times are Unix seconds."""

    file: str
    control: bool
    expected: tuple[str, ...] = ()
    edge_accepts: tuple[str, ...] | None = None
    since: str = "10m"
    window: tuple[float, float] | None = None
    onset: float | None = None
    end: float | None = None
    fault_end: float | None = None


class _Labels(msgspec.Struct):
    recordings: tuple[Label, ...]


@dataclass(frozen=True)
class Case:
    """One recording or simulation. name: its folder and id, for example recordings/engine-down; place: what reports
    print as the source; expected: the accepted first findings ("none" for no finding); windows: by name, the options
    of the command line."""

    name: str
    place: str
    expected: tuple[str, ...]
    windows: dict[str, dict[str, Any]]

    @property
    def group(self) -> str:
        """The folder: recordings, heldout, fleets or demos."""
        return self.name.partition("/")[0]

    @property
    def id(self) -> str:
        """The name without the folder."""
        return self.name.partition("/")[2]


def case_names() -> list[str]:
    """The names of all cases, sorted."""
    recorded = (path for group in RECORDED for path in FIXTURES.glob(f"{group}/*{SUFFIX}"))
    names = [f"{path.parent.name}/{path.name.removesuffix(SUFFIX)}" for path in recorded]
    return sorted([*names, *(f"{DEMOS}/{path.stem}" for path in FIXTURES.glob("incidents/*.yaml"))])


def find_case(name: str) -> Case:
    """A case by its name. Raises KeyError for a recording without a label, InferdocError for an unknown scenario."""
    group, _, identity = name.partition("/")
    if group == DEMOS:
        return _demo(name, load_scenario(identity))
    return _recorded(name, _labels(group)[identity + SUFFIX])


@cache
def _labels(group: str) -> dict[str, Label]:
    found = msgspec.json.decode((FIXTURES / group / "labels.json").read_bytes(), type=_Labels)
    return {label.file: label for label in found.recordings}


def _recorded(name: str, label: Label) -> Case:
    accepted = tuple(dict.fromkeys((*label.expected, *(label.edge_accepts or ()))))
    until = "latest" if label.window is None else label.window[1]
    whole = {"since": label.since} if label.window is None else {"begin": label.window[0]}
    ends = [end for end in (label.end, label.fault_end) if end is not None]
    late = _late(name, None if label.control else label.onset, min(ends, default=None))
    return Case(name, label.file, accepted or ("none",), _windows(whole, late, until))


def _demo(name: str, scenario: Scenario) -> Case:
    expect, end = scenario.expect, scenario.start + scenario.duration
    causes = [one for one in (expect.root, expect.cause, *expect.accepts) if one]
    silent = expect.cause is None or expect.not_visible is not None
    accepted = tuple(dict.fromkeys(["none", *causes] if silent else causes))
    late = _late(name, None if expect.onset is None else scenario.start + expect.onset, end)
    place = f"simulated fleet {scenario.id}"
    return Case(name, place, accepted, _windows({"begin": scenario.start}, late, end))


def _late(name: str, onset: float | None, end: float | None) -> float | None:
    """Start of the late window in Unix seconds; None for a control."""
    if onset is None:
        return None
    starts = [float(int(onset + seconds)) for seconds in LATE_SECONDS[name.partition("/")[0]]]
    return next((start for start in starts if end is None or start <= end - LEAST_SECONDS), None)


def _windows(whole: dict[str, Any], late: float | None, until: str | float) -> dict[str, dict[str, Any]]:
    windows = {"whole": {**whole, "until": until}}
    return windows if late is None else {**windows, "late": {"begin": late, "until": until}}


def answers_of(case: Case, catalogue: Catalogue | None = None) -> Document:
    """The answers to a case: of `diagnose` and `audit` per window, of `signals --health` at the end of the recording.

    catalogue: the shipped one by default. Nothing in the answers depends on the clock, the machine, the version, the
    configuration of the user or the folder. Raises InferdocError if the case cannot be read.
    """
    catalogue = catalogue or _shipped()
    with tempfile.TemporaryDirectory(prefix="golden-") as folder, _terminal(COLUMNS):
        path, config = Path(folder) / "fleet.db", Config(baselines=BaselinesSection(str(Path(folder) / "none")))
        with Store.open(path, "w") as store:
            if case.group == DEMOS:
                write_store(simulate(load_scenario(case.id)), store)
            else:
                import_file(store, FIXTURES / case.group / f"{case.id}{SUFFIX}")
        with closing(open_configured(config, {"store": str(path)})) as source:
            found: Document = {"case": case.name, "expected": list(case.expected), "windows": {}}
            for name, asked in case.windows.items():
                found["windows"][name] = {
                    "options": asked,
                    "diagnose": _diagnose(case, source, config, catalogue, asked),
                    "audit": _audit(case, source, config, catalogue, asked),
                }
            found["signals"] = _signals(source, config, catalogue, case.windows["whole"]["until"])
    if folder in repr(found):
        raise RuntimeError(f"{case.name}: an answer contains the temporary folder {folder}")
    return rounded(found)


@cache
def _shipped() -> Catalogue:
    return load_catalogue()


def _diagnose(case: Case, source: Source, config: Config, catalogue: Catalogue, asked: dict[str, Any]) -> Document:
    answer = diagnosis(source, config, catalogue, asked)
    price_findings(answer, source, config, catalogue)
    link_traces(answer, source, catalogue, config.links.trace_url)
    answer.source.location = case.place
    answer.timing.read_seconds = answer.timing.judge_seconds = 0.0
    document = msgspec.json.decode(render(answer, "json"))
    del document["inferdoc_version"], document["timing"]
    return {
        "exit": int(exit_code(answer, "info")),
        "text": render(answer, "text").splitlines(),
        "verbose": render(answer, "text", detail=2).splitlines(),
        "json": document,
    }


def _audit(case: Case, source: Source, config: Config, catalogue: Catalogue, asked: dict[str, Any]) -> Document:
    answer = audited(source, config, catalogue, asked)
    answer.source.location = case.place
    answer.timing.read_seconds = answer.timing.judge_seconds = 0.0
    document = msgspec.json.decode(answer.to_json())
    del document["inferdoc_version"], document["timing"]
    text = audit_text(printable(answer, type(answer))).splitlines()
    return {"exit": int(exit_code_of_audit(answer, "info")), "text": text, "json": document}


def _signals(source: Source, config: Config, catalogue: Catalogue, until: str | float) -> Document:
    lines = table(source, config, catalogue, until)
    hurts = any(line.state in HURTING for line in lines)
    return {"exit": int(hurts), "text": as_text(lines).splitlines(), "json": msgspec.json.decode(as_json(lines))}


@contextmanager
def _terminal(columns: int) -> Iterator[None]:
    """A terminal of this width, whatever the real one has."""
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = str(columns)
    try:
        yield
    finally:
        if before is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = before


def rounded(value: Any) -> Any:
    """The value with every float in it rounded to DIGITS significant digits. Times in windows stay exact."""
    if isinstance(value, dict):
        return {key: each if key == "options" else rounded(each) for key, each in value.items()}
    if isinstance(value, list):
        return [rounded(each) for each in value]
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value

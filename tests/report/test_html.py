"""The HTML report: one file, nothing loaded, everything escaped, one drawing per observation, readable colours."""

from __future__ import annotations

import gzip
import itertools
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner

from inferdoc.cli.diagnose import command
from inferdoc.judging.api import diagnose
from inferdoc.judging.document import DiagnosisWithSeries
from inferdoc.judging.model import Diagnosis, EvidenceItem
from inferdoc.report import render
from inferdoc.report.demo import RECORDINGS
from inferdoc.report.html_finding import merged
from inferdoc.report.html_page import DARK, LIGHT, RULES
from inferdoc.report.html_plot import Detail, lines_of, threshold_of
from inferdoc.report.html_scale import area, path, thin, time_ticks, value_ticks
from inferdoc.source.open import open_source
from inferdoc.store import Store, import_file

HOSTILE = """x"><script>alert('1')</script><img src=http://evil.example/a onerror=b>&amp;"""
VOID = {"meta", "br", "path", "rect", "img", "hr", "link", "input"}
SIZE_LIMIT = 300_000


class Page(HTMLParser):
    """Elements, their attributes and the text of a page; complains about tags that do not close."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == [], f"left open: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID or (self.open and "svg" in self.open and tag in ("path", "rect")):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return "".join(self.words)

    def count(self, tag: str) -> int:
        return sum(1 for name, _ in self.elements if name == tag)


def judged(folder: Path, name: str, rename: tuple[str, str] | None = None) -> Diagnosis:
    """The diagnosis of a recording; rename: a text of its labels and what to write instead."""
    source = RECORDINGS / f"{name}.om.gz"
    if rename is not None:
        old, new = rename
        label = new.replace("\\", "\\\\").replace('"', '\\"')
        source = folder / f"{name}.om"
        source.write_text(gzip.decompress((RECORDINGS / f"{name}.om.gz").read_bytes()).decode().replace(old, label))
    path = folder / "fleet.db"
    with Store.open(path, "w") as store:
        import_file(store, str(source))
    return diagnose(open_source(store=path), since="10m", until="latest")


@pytest.fixture(scope="module")
def thrash(tmp_path_factory: pytest.TempPathFactory) -> Diagnosis:
    return judged(tmp_path_factory.mktemp("thrash"), "kv-preemption-thrash")


@pytest.fixture(scope="module")
def page(thrash: Diagnosis) -> str:
    return render(thrash, "html")


def loads(page: Page) -> list[str]:
    """Everything on a page that a browser would fetch or run by itself."""
    found = [tag for tag, _ in page.elements if tag in ("script", "link", "img", "iframe", "object", "embed", "base")]
    found += [f"{tag} {name}" for tag, attrs in page.elements for name in attrs if name in ("src", "srcset", "style")]
    return found + [f"{tag} {name}" for tag, attrs in page.elements for name in attrs if name.startswith("on")]


def test_one_whole_file_that_loads_nothing(page: str) -> None:
    parsed = Page(page)
    assert page.startswith("<!DOCTYPE html>")
    assert loads(parsed) == []
    assert "url(" not in page
    assert "@import" not in page
    policy = next(a["content"] for t, a in parsed.elements if t == "meta" and a.get("http-equiv"))
    assert policy == "default-src 'none'; style-src 'unsafe-inline'"
    assert len(page.encode()) < SIZE_LIMIT


def test_prints_what_the_diagnosis_prints(thrash: Diagnosis, page: str) -> None:
    text = Page(page).text
    (finding, *_) = thrash.findings
    for words in (thrash.summary, finding.title, finding.certainty, "What happened when", "onset 09:19:13"):
        assert words in text
    for rival in finding.ruled_out:
        assert rival.id in text
        assert rival.because in text
    for step in finding.next_steps:
        assert all(words in text for words in (step.do, step.why, step.cost, step.undo, step.command or ""))
    for gone in thrash.not_judged:
        assert gone.id in text
        assert gone.enable in text
    for item in finding.evidence:
        assert item.statement in text
        assert item.query is None or item.query in text


def test_a_phone_sees_the_timeline_whole_and_no_table_beside_the_screen(page: str) -> None:
    rule = page.partition("@media screen and (max-width:640px){")[2].partition("@media print")[0]
    assert ".draw.wide{display:none}" in rule and ".draw.narrow{display:block}" in rule
    assert ".draw.narrow{display:none}" in page.partition("@media screen and (max-width")[0]
    narrow = page.partition('<div class="draw narrow">')[2].partition("</svg>")[0]
    width = float(narrow.partition('viewBox="0 0 ')[2].partition(" ")[0])
    assert width <= 400 and "onset 09:19:13" in narrow and 'class="bar critical"' in narrow
    assert page.count('<table class="cards">') >= 2


def test_one_drawing_per_observation_and_words_beside_each(thrash: Diagnosis, page: str) -> None:
    parsed = Page(page)
    figures = [attrs for tag, attrs in parsed.elements if tag == "svg" and attrs.get("role") == "img"]
    observations = sum(len({(e.signal, e.entity, e.statement) for e in f.evidence}) for f in thrash.findings)
    assert observations >= 5
    assert len(figures) == observations + 2, "the timeline, wide and narrow, and one for each observation"
    names = [attrs["id"] for _, attrs in parsed.elements if attrs.get("id")]
    assert Counter(names).most_common(1)[0][1] == 1, "an id stands on the page twice"
    for attrs in figures:
        assert set(str(attrs["aria-labelledby"]).split()) <= set(names)
    for _, attrs in parsed.elements:
        if str(attrs.get("href", "")).startswith("#"):
            assert str(attrs["href"])[1:] in names


def test_every_series_is_plotted_with_its_threshold_and_onset(thrash: Diagnosis, page: str) -> None:
    assert isinstance(thrash, DiagnosisWithSeries)
    for finding in thrash.findings:
        for item, _ in merged(finding.evidence):
            lines = lines_of(thrash.view, item, finding)
            assert lines is not None, item.signal
            assert lines.own.shape == lines.times.shape
            assert lines.baseline_range is not None
            limit = threshold_of(item)
            assert limit is not None
            assert item.baseline is not None
            assert item.observed is not None
            assert min(item.baseline, item.observed) <= limit <= max(item.baseline, item.observed)
    plots = [part.partition("</svg>")[0] for part in page.split("<figure>")[1:]]
    assert all('class="cause"' in plot and 'class="onset"' in plot and 'class="limit"' in plot for plot in plots)


def test_like_pods_are_drawn_grey(tmp_path: Path) -> None:
    answer = judged(tmp_path, "slow-replica")
    (finding, *_) = answer.findings
    assert finding.scope.pods == ["vllm-1"]
    assert isinstance(answer, DiagnosisWithSeries)
    lines = lines_of(answer.view, finding.evidence[0], finding)
    assert lines is not None
    assert (len(lines.others), len(lines.peers)) == (0, 1)
    assert 'class="peer"' in render(answer, "html")


def test_a_hostile_pod_name_stays_a_name(tmp_path: Path) -> None:
    answer = judged(tmp_path, "kv-preemption-thrash", ("vllm-0", HOSTILE))
    assert answer.findings[0].scope.pods == [HOSTILE]
    answer.source.location = HOSTILE
    answer.source.warnings.append(HOSTILE)
    text = render(answer, "html")
    assert loads(Page(text)) == []
    assert HOSTILE in Page(text).text
    assert "<script" not in text
    assert "<img" not in text


def test_hostile_words_anywhere_in_the_document(thrash: Diagnosis) -> None:
    def poison(value: object, key: str = "") -> object:
        if isinstance(value, dict):
            return {k: poison(v, k) for k, v in value.items()}
        if isinstance(value, list):
            return [poison(v, key) for v in value]
        fixed = ("schema", "verdict", "phase", "kind", "severity", "certainty", "level", "role", "reference", "shape")
        times = ("from", "until", "at", "since", "onset", "ended", "began")
        if isinstance(value, str) and key not in fixed + times:
            return value + HOSTILE
        return value

    plain = msgspec.json.decode(thrash.to_json())
    plain["findings"][0]["runbook_url"] = plain["findings"][0]["dashboard_url"] = "javascript:alert(1)//"
    answer = msgspec.convert(poison(plain), Diagnosis)
    text = render(answer, "html")
    parsed = Page(text)
    assert loads(parsed) == []
    assert "<script" not in text
    assert [a["href"] for t, a in parsed.elements if t == "a" and not str(a["href"]).startswith("#")] == []


def test_links_of_the_web_are_links(thrash: Diagnosis) -> None:
    answer = msgspec.convert(msgspec.json.decode(thrash.to_json()), Diagnosis)
    answer.findings[0].runbook_url = 'https://runbooks.example.org/a?x=1&y="2"'
    parsed = Page(render(answer, "html"))
    assert answer.findings[0].runbook_url in [attrs.get("href") for tag, attrs in parsed.elements if tag == "a"]


def test_a_document_without_its_series_shows_bars(thrash: Diagnosis) -> None:
    answer = msgspec.json.decode(thrash.to_json(), type=Diagnosis)
    text = render(answer, "html")
    parsed = Page(text)
    observations = sum(len(merged(f.evidence)) for f in answer.findings)
    assert sum(1 for tag, a in parsed.elements if tag == "svg" and a.get("role") == "img") == observations + 2
    assert "before" in parsed.text
    assert "observed" in parsed.text


def test_no_finding(tmp_path: Path) -> None:
    answer = judged(tmp_path, "control-steady")
    assert answer.findings == []
    parsed = Page(render(answer, "html"))
    assert "healthy" in parsed.text
    assert answer.summary in parsed.text
    assert parsed.count("figure") == 0


def test_unknown(tmp_path: Path) -> None:
    path = tmp_path / "empty.om"
    path.write_text('# TYPE up gauge\nup{job="x",instance="h:1"} 1 1700000000\n# EOF\n')
    with Store.open(tmp_path / "fleet.db", "w") as store:
        import_file(store, str(path))
    result = CliRunner().invoke(
        command, ["--store", str(tmp_path / "fleet.db"), "--until", "latest", "-o", "html"], standalone_mode=False
    )
    assert result.return_value == 3, result.output
    parsed = Page(result.stdout)
    assert "unknown" in parsed.text
    assert "Not evaluated" in parsed.text


def test_many_findings_stay_a_small_file(thrash: Diagnosis) -> None:
    answer = msgspec.structs.replace(thrash, findings=list(thrash.findings) * 12)
    assert isinstance(answer, DiagnosisWithSeries)
    answer.__dict__["view"] = thrash.view if isinstance(thrash, DiagnosisWithSeries) else None
    assert len(render(answer, "html").encode()) < 3 * SIZE_LIMIT
    assert Detail.for_plots(100).points < Detail.for_plots(10).points


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_contrast(colours: dict[str, str]) -> None:
    text = ("text", "soft", "link", "critical", "warning", "info", "healthy", "unknown", "onset")
    marks = ("cause", "other", "peer", "baseline", "limit")
    for ground, (names, least) in itertools.product(("page", "card"), ((text, 4.5), (marks, 3.0))):
        for name in names:
            found = contrast(colours[name], colours[ground])
            assert found >= least, f"{name} on {ground}: {found:.2f}"


def contrast(one: str, other: str) -> float:
    """The contrast ratio of WCAG 2.1."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_a_path_breaks_at_gaps_and_a_lone_point_is_seen() -> None:
    x = np.arange(6.0)
    assert path(x, np.array([1.0, 2.0, np.nan, 3.0, np.nan, np.nan]), 100) == "M0 1l1 1M3 3h0"
    assert path(x, np.full(6, np.nan), 100) == ""
    assert area(x, np.full(6, 1.0), np.array([2.0, 2, 2, np.nan, 2, 2]), 100).count("Z") == 2


def test_thinning_keeps_the_extremes() -> None:
    values = np.sin(np.arange(5000) / 50)
    values[1234] = 9.0
    values[2000:2200] = np.nan
    x, y = thin(np.arange(5000.0), values, 100)
    assert len(y) <= 100
    assert np.nanmax(y) == 9.0
    assert np.isnan(y).any()
    assert (np.diff(x) >= 0).all()


def test_ticks_are_round() -> None:
    assert value_ticks(0.0, 0.337) == pytest.approx([0.0, 0.1, 0.2, 0.3])
    assert value_ticks(5.0, 5.0) == [5.0]
    assert [label for _, label in time_ticks(1.7e9, 1.7e9 + 600)] == ["22:14", "22:16", "22:18", "22:20", "22:22"]
    assert re.fullmatch(r"\d\d [A-Z][a-z]{2}", next(time_ticks(1.7e9, 1.7e9 + 6e5))[1])


def test_a_factor_against_like_members_becomes_a_value() -> None:
    item = EvidenceItem("sm_clock", "", "support", "p", 1980.0, 990.0, 0.8, "MHz", None, None)
    assert threshold_of(item) == pytest.approx(1584.0)
    item.threshold = 1500.0
    assert threshold_of(item) == 1500.0
    item.threshold = 3.0
    assert threshold_of(item) is None


def test_no_string_of_the_style_sheet_goes_on_over_a_line():
    """A browser ends such a string there, and reads all rules after it wrongly."""
    assert [line for line in RULES.splitlines() if line.count('"') % 2] == []

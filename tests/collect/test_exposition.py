"""Pages: what is read from them, and what is said about bad ones."""

from __future__ import annotations

import contextlib
import math
import re
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from inferdoc.collect import NO_TIMESTAMP, Layout, LayoutCache, Page, ParseError, Series, exposition, parse
from inferdoc.errors import InferdocError

PAGES = sorted((Path(__file__).parents[2] / "fixtures" / "pages").glob("*.txt"))
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"

PLAIN = b"""\
# HELP vllm:num_requests_running Number of requests.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{model_name="tiny",engine="0"} 3.0
# TYPE vllm:prompt_tokens_total counter
vllm:prompt_tokens_total{model_name="tiny",engine="0"} 1.25e+06
up 1
"""


def fresh(body: bytes, content_type: str = "", *, strict: bool = True) -> Page:
    return parse(body, content_type, strict=strict, layouts=LayoutCache())


def test_series_types_and_values() -> None:
    page = fresh(PLAIN)
    assert page.layout.series == (
        Series("vllm:num_requests_running", (("engine", "0"), ("model_name", "tiny"))),
        Series("vllm:prompt_tokens_total", (("engine", "0"), ("model_name", "tiny"))),
        Series("up", ()),
    )
    assert page.layout.types == {"vllm:num_requests_running": "gauge", "vllm:prompt_tokens_total": "counter"}
    assert page.values.dtype == np.float64
    assert page.values.tolist() == [3.0, 1.25e6, 1.0]
    assert page.timestamps is None
    assert page.problems == []
    assert len(page) == 3
    first = next(page.samples())
    assert first == ("vllm:num_requests_running", {"engine": "0", "model_name": "tiny"}, 3.0, None)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_real_pages_read_like_prometheus_client_cold_and_warm(path: Path) -> None:
    from prometheus_client.parser import text_string_to_metric_families

    cache = LayoutCache()
    body = path.read_bytes()
    for text in (body, body, body.replace(b" 0.0\n", b" 7.25\n")):
        expected = [sample for family in text_string_to_metric_families(text.decode()) for sample in family.samples]
        page = parse(text, layouts=cache)
        got = list(page.samples())
        assert [(s.name, s.labels, float(s.value), s.timestamp) for s in expected] == [tuple(sample) for sample in got]
        assert page.problems == []
    assert len(cache) == 1


def test_pages_of_the_same_series_share_one_layout_object() -> None:
    cache = LayoutCache()
    first = parse(PLAIN, layouts=cache)
    warm = parse(PLAIN.replace(b"3.0", b"4.0"), layouts=cache)
    respelled = parse(PLAIN.replace(b"up 1", b"up  1"), layouts=cache)
    relabelled = parse(PLAIN.replace(b'model_name="tiny",engine="0"', b'engine="0",model_name="tiny"'), layouts=cache)
    assert first.layout is warm.layout is respelled.layout is relabelled.layout
    assert warm.values.tolist() == [4.0, 1.25e6, 1.0]
    assert parse(PLAIN.replace(b"tiny", b"huge"), layouts=cache).layout != first.layout


def test_the_digest_does_not_depend_on_the_process() -> None:
    layout = "Layout([Series('a', (('b', 'c'),))], {'a': 'gauge'})"
    code = f"from inferdoc.collect import Layout, Series; print({layout}.digest.hex())"
    root = Path(__file__).parents[2]
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root, env={"PYTHONHASHSEED": "1"}
    )
    assert run.stdout.strip() == Layout([Series("a", (("b", "c"),))], {"a": "gauge"}).digest.hex()
    assert run.stdout.strip() == "64892386f5078986b420fb6a5c359139"


def test_the_digest_covers_series_order_and_types_but_not_help() -> None:
    a, b = Series("a", ()), Series("b", ())
    assert Layout([a, b]) != Layout([b, a])
    assert Layout([a], {"a": "gauge"}) != Layout([a], {"a": "counter"})


def test_types_are_found_behind_suffixes() -> None:
    layout = Layout([], {"h": "histogram", "c": "counter", "x_total": "counter"})
    types = {name: layout.type_of(name) for name in ("h_bucket", "h_sum", "c_total", "x_total", "other")}
    assert types == {
        "h_bucket": "histogram",
        "h_sum": "histogram",
        "c_total": "counter",
        "x_total": "counter",
        "other": "unknown",
    }


EXTREME_VALUES = """NaN +Inf -Inf Inf 1e308 1e400 -0.0 5e-324 1.7976931348623157e308 9007199254740993
0.1 -3 .5 5. 123456789012345678901234567890 0.000000000000000000000000000001 4.9406564584124654e-324"""


@pytest.mark.parametrize("text", [*re.split(r"\s", EXTREME_VALUES), "1" * 400])
def test_values_are_bit_exact(text: str) -> None:
    cache = LayoutCache()
    body = f"a 1\nb {text}\n".encode()
    parse(b"a 1\nb 2\n", layouts=cache)
    for page in (fresh(body), parse(body, layouts=cache), fresh(b"  " + body)):
        assert page.values[1:].tobytes() == np.array([float(text)]).tobytes()


@pytest.mark.parametrize("value", ["0x10", "1_000", "\u0661", "abc", "1,5", "--1", "1e", "", "\xa01", "0b1", "True"])
def test_what_is_no_number_is_refused_cold_and_warm(value: str) -> None:
    cache = LayoutCache()
    parse(b"a 1\nb 2\n", layouts=cache)
    for layouts in (cache, LayoutCache()):
        with pytest.raises(ParseError, match="line 2"):
            parse(f"a 1\nb {value}\n".encode(), layouts=layouts)


def test_negative_counters_are_kept() -> None:
    page = fresh(b"# TYPE c_total counter\nc_total -5\n")
    assert page.values.tolist() == [-5.0]
    assert page.problems == []


def test_a_duplicate_series_keeps_the_first_value_and_is_named() -> None:
    page = fresh(b'a{x="1",y="2"} 1\nb 2\na{y="2",x="1"} 3\n')
    assert page.values.tolist() == [1.0, 2.0]
    assert page.problems == ['series a{x="1",y="2"} stands twice; the first value is kept']


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"up", "no value"),
        (b"up x", "value 'x' is not a number"),
        (b'up{a="b" 1', "no comma at '1'"),
        (b'up{a="b"', "labels are cut"),
        (b'up{a="b', "value of label a is not in quotes, or its closing quote is missing"),
        (b"up{a=b} 1", "value of label a is not in quotes"),
        (b'up{a="1",a="2"} 1', "label a given twice"),
        (b'up{1a="1"} 1', "no label name at"),
        (b"1up 1", "invalid metric name"),
        (b"u-p 1", "invalid metric name 'u-p'"),
        (b"{} 1", "no metric name"),
        (b'{"a","b"} 1', "metric name given twice"),
        (b"up 1 2 3", "unexpected text '3'"),
        (b"up 1 2.5", "timestamp '2.5' is not a whole number of milliseconds"),
        (b"up 1 99999999999999999999", "whole number of milliseconds"),
        (b"# TYPE up bogus", "TYPE of up is 'bogus', which is no metric type"),
        (b"# TYPE up", "TYPE of up is '', which is no metric type"),
        (b'up{a="\xff\xfe"} 1', "not UTF-8"),
        (b'{"jsonrpc": 2}', "no = after label jsonrpc"),
    ],
)
def test_a_bad_line_is_an_error_or_a_problem_and_the_rest_is_kept(line: bytes, reason: str) -> None:
    body = b"good_one 1\n" + line + b"\ngood_two 2\n"
    with pytest.raises(ParseError) as caught:
        fresh(body)
    assert str(caught.value).startswith("line 2: ")
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, InferdocError)
    page = fresh(body, strict=False)
    assert [series.name for series in page.layout.series] == ["good_one", "good_two"]
    assert page.values.tolist() == [1.0, 2.0]
    assert len(page.problems) == 1
    assert reason in page.problems[0]


def test_a_page_cut_anywhere_never_yields_a_wrong_sample() -> None:
    whole = {(s.name, tuple(s.labels.items())): s.value for s in fresh(PLAIN).samples()}
    for end in range(1, len(PLAIN)):
        page = Page(Layout(()), np.empty(0))
        with contextlib.suppress(ParseError):
            page = fresh(PLAIN[:end], strict=False)
        for sample in page.samples():
            assert whole[sample.name, tuple(sample.labels.items())] == sample.value


def test_half_a_last_line() -> None:
    with pytest.raises(ParseError, match="line 2: no newline at its end: the page is cut"):
        fresh(b"a 1\nb 12")
    page = fresh(b"a 1\nb 12", strict=False)
    assert page.values.tolist() == [1.0]


@pytest.mark.parametrize("body", [b"", b"\n\n", b"  \n"])
def test_an_empty_page_has_no_samples(body: bytes) -> None:
    for strict in (True, False):
        page = fresh(body, strict=strict)
        assert len(page) == 0
        assert page.values.shape == (0,)
        assert list(page.samples()) == []
        assert page.problems == ["the page is empty"]


@pytest.mark.parametrize(
    "body",
    [b"<!DOCTYPE html><html><body>Sign in</body></html>", b"\n  <html lang=en>\n", b"<HTML>", b"<!-- x --><html>"],
)
def test_an_html_page_is_told_apart(body: bytes) -> None:
    for strict in (True, False):
        with pytest.raises(ParseError, match="HTML page, not metrics: is this behind a login"):
            fresh(body, "text/html", strict=strict)


def test_a_page_without_one_good_line_is_an_error_even_when_lenient() -> None:
    with pytest.raises(ParseError, match="no line is a metric: line 1: value 'Found' is not a number"):
        fresh(b"Not Found\n", strict=False)


def test_comments_alone_are_a_page_of_no_samples() -> None:
    assert len(fresh(b"# HELP a b\n# just text\n#\n")) == 0


def test_blanks_tabs_carriage_returns_and_trailing_commas() -> None:
    page = fresh(b'  a\t{ x = "1" , y="2", }  5 \r\n\n   # TYPE b gauge\n\tb   7\t123\nc{} 1\n')
    assert page.layout.series == (Series("a", (("x", "1"), ("y", "2"))), Series("b", ()), Series("c", ()))
    assert page.values.tolist() == [5.0, 7.0, 1.0]
    assert page.timestamps is not None
    assert page.timestamps.tolist() == [NO_TIMESTAMP, 123, NO_TIMESTAMP]
    assert [sample.timestamp for sample in page.samples()] == [None, 0.123, None]
    assert page.layout.types == {"b": "gauge"}


def test_escapes_and_utf8() -> None:
    page = fresh('a{p="C:\\\\x\\n\\"q\\" }, {=",é="ü"} 1\n'.replace("é", "e").encode())
    assert page.layout.series == (Series("a", (("e", "ü"), ("p", 'C:\\x\n"q" }, {='))),)
    quoted = fresh('{"http.requests","le x"="1",m="ü"} 4\n'.encode())
    assert quoted.layout.series == (Series("http.requests", (("le x", "1"), ("m", "ü"))),)


def test_a_page_with_non_ascii_labels_is_warm_too() -> None:
    cache = LayoutCache()
    one, two = (parse(f'a{{m="模型"}} {n}\nb 1\n'.encode(), layouts=cache) for n in (1, 2))
    assert one.layout is two.layout
    assert one.layout.series[0].labels == (("m", "模型"),)
    assert two.values.tolist() == [2.0, 1.0]
    assert len(cache) == 1


def test_openmetrics_needs_its_end() -> None:
    body = b"# TYPE a counter\na_total 1\n"
    with pytest.raises(ParseError, match="no # EOF: the page is cut"):
        fresh(body, OPENMETRICS)
    page = fresh(body, OPENMETRICS, strict=False)
    assert page.values.tolist() == [1.0]
    assert page.problems == ["line 3: no # EOF: the page is cut"]
    for end in (b"# EOF\n", b"# EOF"):
        assert fresh(body + end, OPENMETRICS).problems == []
        assert fresh(body + end).layout.types == {"a": "counter"}


@pytest.mark.parametrize(
    "line",
    [
        "# a comment",
        "# HELP a",
        "# TYPE b",
        "# TYPE b counter ",
        "# TYPE b untyped",
        "#  TYPE b counter",
        "# UNIT b seconds",
        'b_total{c="1",} 1',
        'b{c="1"} 1 # {d="2"} 3',
    ],
)
def test_a_scrape_drops_and_names_lines_of_openmetrics_that_prometheus_refuses(line: str) -> None:
    page = fresh(f"a 1\n{line}\nz 2\n# EOF\n".encode(), OPENMETRICS, strict=False)
    assert [series.name for series in page.layout.series] == ["a", "z"]
    assert len(page.problems) == 1 and page.problems[0].startswith("line 2: ")


@pytest.mark.parametrize("line", ["# TYPE b counter", "# UNIT b_seconds seconds", "# HELP b ", "# UNIT b "])
def test_a_scrape_takes_metadata_of_openmetrics_that_prometheus_takes(line: str) -> None:
    assert fresh(f"a 1\n{line}\n# EOF\n".encode(), OPENMETRICS, strict=False).problems == []


def test_a_scrape_takes_exemplars_by_the_name() -> None:
    body = b'a_total 1 # {d="2"} 3\nb_bucket{le="1"} 1 # {d="2"} 3\nc{e=" # "} 4\n# EOF\n'
    page = fresh(body, OPENMETRICS, strict=False)
    assert page.values.tolist() == [1, 1, 4] and page.problems == []


def test_openmetrics_text_after_its_end() -> None:
    with pytest.raises(ParseError, match="line 3: text after # EOF"):
        fresh(b"a 1\n# EOF\nb 2\n", OPENMETRICS)


def test_openmetrics_exemplars_timestamps_and_metadata() -> None:
    page = fresh(
        b"# TYPE h_seconds histogram\n# UNIT h_seconds seconds\n# HELP h_seconds a\\nb\n"
        b'h_seconds_bucket{le="1.0"} 5 1795253610.7815 # {trace_id="a } b \\" # {"} 0.5 1795253610.0\n'
        b'h_seconds_bucket{le="+Inf"} 6 1795253610.7815 # {} 3\n'
        b"# TYPE g gauge\ng 6 1795253610\n# TYPE i gauge\ni 1\n# EOF\n"
    )
    assert page.values.tolist() == [5.0, 6.0, 6.0, 1.0]
    assert page.timestamps is not None
    assert page.timestamps.tolist() == [1795253610782, 1795253610782, 1795253610000, NO_TIMESTAMP]
    assert page.layout.types == {"h_seconds": "histogram", "g": "gauge", "i": "gauge"}


@pytest.mark.parametrize(
    "line", [b"a  1", b"a\t1", b" a 1", b"a 1 ", b'a{x="1"}1', b"", b'a 1 # {x="1"}', b'a 1 # x="1" 1']
)
def test_openmetrics_is_strict_about_blanks_and_exemplars(line: bytes) -> None:
    with pytest.raises(ParseError, match="line 2: "):
        fresh(b"ok 1\n" + line + b"\n# EOF\n", OPENMETRICS)


def test_the_content_type_decides_over_a_closing_comment() -> None:
    body = b"a 1 1000\n# EOF\n"
    expected = {"": 1000_000, "text/plain": 1000_000, OPENMETRICS: 1000_000, "text/plain; version=0.0.4": 1000}
    for content_type, milliseconds in expected.items():
        timestamps = fresh(body, content_type).timestamps
        assert timestamps is not None
        assert timestamps.tolist() == [milliseconds]


def test_the_cache_is_bounded_and_forgets_the_oldest() -> None:
    cache = LayoutCache(max_bytes=4_000)
    bodies = [b"".join(b"m%d_%d 1\n" % (page, row) for row in range(60)) for page in range(20)]
    for body in bodies:
        assert len(parse(body, layouts=cache)) == 60
    assert 1 <= len(cache) <= 8
    assert len(parse(bodies[0], layouts=cache)) == 60


def test_layouts_that_differ_in_one_unsampled_line_are_told_apart() -> None:
    cache = LayoutCache()
    bodies = [
        b"".join(b'm{n="%d"} 1\n' % (row + (k if row == 51 else 0) * 1000) for row in range(100)) for k in range(9)
    ]
    for _ in range(2):
        for k, body in enumerate(bodies):
            assert parse(body, layouts=cache).layout.series[51].labels == (("n", str(51 + 1000 * k)),)
    assert len(cache) <= 9


def test_threads_share_a_cache() -> None:
    cache = LayoutCache(max_bytes=20_000)
    faults: list[object] = []

    def work(seed: int) -> None:
        for n in range(200):
            kind = (seed + n) % 7
            body = b"".join(b"k%d_%d %d\n" % (kind, row, n) for row in range(50))
            page = parse(body, layouts=cache)
            if page.layout.series[49].name != f"k{kind}_49" or set(page.values.tolist()) != {float(n)}:
                faults.append((seed, n))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []


def test_a_fault_of_our_own_falls_back_on_prometheus_client(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise IndexError

    monkeypatch.setattr(exposition, "read_plain_series", broken)
    page = fresh(PLAIN)
    assert page.values.tolist() == [3.0, 1.25e6, 1.0]
    assert page.problems == ["read by prometheus-client, since inferdoc's parser failed: IndexError"]
    with pytest.raises(ParseError, match="cannot be read"):
        fresh(b"a b c\n")


def test_importing_the_package_is_cheap() -> None:
    code = "import sys, inferdoc.collect; assert not {'requests', 'numpy', 'prometheus_client'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])


def test_nan_is_kept() -> None:
    assert math.isnan(fresh(b"a NaN\n").values[0])

"""Parquet out of a store and back: to the bit, row group by row group, also by URL, and readable by others."""

from __future__ import annotations

import io
import json
import re
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from inferdoc import diagnose, open_source
from inferdoc.cli.main import cli
from inferdoc.errors import InferdocError
from inferdoc.extras import DISTRIBUTION
from inferdoc.store import Store, StoreError, export, export_parquet, import_file
from inferdoc.store.block import STALE
from inferdoc.store.origin import HOUR_MS
from inferdoc.store.parquet_export import opened
from tests.store.pages import POD, held_by, layout_of, page_of, samples_of

pa = pytest.importorskip("pyarrow", reason="the extra `parquet` is not installed")
pq = pytest.importorskip("pyarrow.parquet")

PAGE = Path(__file__).resolve().parents[2] / "docs" / "export.md"
OTHER_NAN = float(np.uint64(0x7FF8000000000123).view(np.float64))
BEGIN_MS = 1_700_000_000_123


@pytest.fixture
def fleet(tmp_path) -> Path:
    """Two pods over two hours and a half: an older target whose labels the other has too, numbers that are
    hard to keep, a series that goes and comes back."""
    path = tmp_path / "fleet.db"
    series = [
        "up",
        ("a_total", {"text": 'quote " and ü \n'}),
        ("h_bucket", {"le": "1"}),
        ("h_bucket", {"le": "+Inf"}),
        ("h_sum", {}),
        ("h_count", {}),
    ]
    layout = layout_of(*series, types={"a_total": "counter", "h": "histogram"})
    with Store.open(path, "w") as store, store.writer.round() as writer:
        for number in range(600):
            values = [1, -0.0 if number % 2 else 0.0, 1, 2, OTHER_NAN if number % 3 else np.nan, 5e-324]
            if number % 50 == 7:
                values[2] = STALE
            writer.append(POD, BEGIN_MS + number * 15_000, page_of(layout, values))
            if number > 300:
                writer.append({**POD, "tier": "H100"}, BEGIN_MS + 5_000 + number * 15_000, page_of(layout, values))
    return path


def parquet_of(path: Path) -> bytes:
    out = io.BytesIO()
    with Store.open(path) as store:
        written = export_parquet(store, store.first_ms(), store.latest_ms(), out)
    assert written == pq.read_metadata(io.BytesIO(out.getvalue())).num_rows
    return out.getvalue()


def put(content: bytes, place: Path) -> Path:
    place.write_bytes(content)
    return place


def facts_of(path: Path):
    with Store.open(path) as store:
        return store.targets(), store.types(), store.first_ms(), store.latest_ms()


def test_there_and_back_to_the_bit(fleet, tmp_path):
    file, copy = put(parquet_of(fleet), tmp_path / "a.parquet"), tmp_path / "copy.db"
    with Store.open(copy, "w") as store:
        done = import_file(store, file, strict=True)
        assert (done.problems, done.new_pages) == ([], 600 + 299)
        assert import_file(store, file, strict=True).new_pages == 0
    assert held_by(copy) == held_by(fleet) != {}
    assert facts_of(copy) == facts_of(fleet)
    assert parquet_of(copy) == file.read_bytes()


@pytest.mark.parametrize("name", ["kv-preemption-thrash", "control-pd"])
def test_a_recording_comes_home_and_is_judged_alike(name, store_of, tmp_path):
    file, copy = put(parquet_of(store_of(name)), tmp_path / "a.parquet"), tmp_path / "copy.db"
    with Store.open(copy, "w") as store:
        assert import_file(store, file, strict=True).problems == []
    assert held_by(copy) == held_by(store_of(name))
    assert facts_of(copy) == facts_of(store_of(name))
    assert judged(copy) == judged(store_of(name))


def judged(path: Path):
    with closing(open_source(store=path)) as source:
        answer = json.loads(diagnose(source, since="1h").to_json())
    del answer["timing"], answer["source"]["location"]
    return answer


def test_a_row_group_is_a_family_in_an_hour(fleet):
    file = pq.ParquetFile(io.BytesIO(parquet_of(fleet)))
    groups = []
    for number in range(file.num_row_groups):
        table = file.read_row_group(number)
        hours = {stamp // HOUR_MS for stamp in table["time"].cast(pa.int64()).to_pylist()}
        families = set(zip(table["family"].to_pylist(), table["type"].to_pylist(), strict=True))
        assert len(hours) == len(families) == 1
        groups += [(*hours, *families)]
    assert groups == sorted(groups) and len(groups) == 9
    assert {family for _, family in groups} == {("up", "unknown"), ("a", "counter"), ("h", "histogram")}
    stamps = file.metadata.row_group(8).column(0).statistics
    assert stamps.has_min_max and stamps.min.timestamp() * 1000 // HOUR_MS == groups[8][0]


def test_hours_without_samples_are_not_looked_at(tmp_path):
    path = tmp_path / "a.db"
    with Store.open(path, "w") as store:
        for ts_ms in (1_000, 500 * 24 * HOUR_MS, BEGIN_MS):
            store.writer.append(POD, ts_ms, page_of(layout_of("up"), [1]))
        assert store.hours(0, BEGIN_MS) == [0, 500 * 24 * HOUR_MS, BEGIN_MS - BEGIN_MS % HOUR_MS]
        assert store.hours(2_000, BEGIN_MS - 1) == [500 * 24 * HOUR_MS]
        store.writer.append(POD, BEGIN_MS + 9 * HOUR_MS, page_of(layout_of("up"), [1]))
    assert pq.read_metadata(io.BytesIO(parquet_of(path))).num_row_groups == 4


def test_text_and_parquet_hold_the_same(store_of, tmp_path):
    text = io.BytesIO()
    with Store.open(store_of("control-pd")) as store:
        written = export(store, store.first_ms(), store.latest_ms(), text)
    table = pq.read_table(io.BytesIO(parquet_of(store_of("control-pd"))))
    lines = (line.split(b"{")[0].decode() for line in text.getvalue().splitlines() if not line.startswith(b"#"))
    assert table.num_rows == written
    assert Counter(table["name"].to_pylist()) == Counter(lines)


def test_the_query_of_the_page_is_answered(store_of, tmp_path):
    duckdb = pytest.importorskip("duckdb", reason="DuckDB is not installed")
    (query,) = re.findall(r"```sql\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    file = put(parquet_of(store_of("kv-preemption-thrash")), tmp_path / "fleet.parquet")
    rows = duckdb.sql(query.replace("fleet.parquet", str(file))).project("pod, preemptions").fetchall()
    usual = {}
    for (name, labels, _), bits in held_by(store_of("kv-preemption-thrash")).items():
        if name == "vllm:num_preemptions_total":
            usual.setdefault(dict(labels)["pod"], []).append(float(np.uint64(bits).view(np.float64)))
    assert {pod for pod, _ in rows} == set(usual)
    assert dict(rows) == {pod: max(each) - min(each) for pod, each in usual.items()}


def run(*words: str, stdin: bytes | None = None):
    return CliRunner().invoke(cli, list(words), input=stdin, catch_exceptions=False)


def test_by_url_and_by_command(fleet, tmp_path):
    url, copy = "memory://history/fleet.parquet", tmp_path / "copy.db"
    done = run("export", "-o", "parquet", "--out", url, "--store", str(fleet))
    assert done.exit_code == 0 and done.stdout == "" and done.stderr == f"{len(held_by(fleet))} samples\n"
    assert run("import", url, "--store", str(copy)).exit_code == 0
    assert held_by(copy) == held_by(fleet)
    piped = run("export", "-o", "parquet", "--store", str(fleet), "--since", "1h")
    assert pq.read_metadata(io.BytesIO(piped.stdout_bytes)).num_rows < len(held_by(fleet))


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("memory://history/nothing.parquet", "cannot read memory://history/nothing.parquet: "),
        ("nowhere://x/y.parquet", "cannot use nowhere://x/y.parquet: Protocol not known: nowhere"),
    ],
)
def test_a_url_that_leads_nowhere_is_one_line(url, told, tmp_path):
    with Store.open(tmp_path / "a.db", "w") as store, pytest.raises(StoreError) as raised:
        import_file(store, url)
    assert str(raised.value).startswith(told) and "\n" not in str(raised.value)


def test_what_was_there_stays_where_an_export_fails(fleet, tmp_path, monkeypatch):
    monkeypatch.setattr(Store, "types", lambda self: (_ for _ in ()).throw(StoreError("the disk is gone")))
    (tmp_path / "out").mkdir()
    place = put(b"before", tmp_path / "out" / "a.parquet")
    for url in (str(place), "memory://kept.parquet"):
        with Store.open(fleet) as store, pytest.raises(StoreError, match="the disk is gone"), opened(url) as out:
            export_parquet(store, BEGIN_MS, BEGIN_MS, out)
    assert place.read_bytes() == b"before" and list(place.parent.iterdir()) == [place]
    with Store.open(tmp_path / "a.db", "w") as store, pytest.raises(StoreError, match="cannot read memory://kept"):
        import_file(store, "memory://kept.parquet")


@pytest.fixture
def home(tmp_path) -> Path:
    """A store that holds something already."""
    path = tmp_path / "home.db"
    with Store.open(path, "w") as store:
        store.writer.append(POD, BEGIN_MS - 1_000, page_of(layout_of("earlier"), [1]))
    return path


def refused(content: bytes, home: Path, tmp_path: Path, strict: bool = True) -> str:
    """The line with which a file is refused; what the store held before is all that it holds then."""
    before = held_by(home)
    with Store.open(home, "w") as store, pytest.raises(StoreError) as raised:
        import_file(store, put(content, tmp_path / "bad.parquet"), strict=strict)
    assert held_by(home) == before and "\n" not in str(raised.value)
    return str(raised.value).replace(str(tmp_path), "")


def value_bytes(content: bytes, group: int) -> tuple[int, int]:
    """Where the values of a row group lie in the file."""
    column = pq.read_metadata(io.BytesIO(content)).row_group(group).column(6)
    begin = column.data_page_offset
    return begin, begin + column.total_compressed_size


def test_a_damaged_row_group_is_refused_and_leniently_the_others_are_kept(fleet, home, tmp_path):
    content = bytearray(parquet_of(fleet))
    _, end = value_bytes(bytes(content), 4)
    content[end - 3] ^= 1
    told = refused(bytes(content), home, tmp_path)
    assert told.startswith("cannot import /bad.parquet: row group 5 of 9 is damaged (") and "--lenient" in told
    with Store.open(home, "w") as store:
        done = import_file(store, tmp_path / "bad.parquet")
        assert len(done.problems) == 1 and "row group 5 of 9 is damaged" in done.problems[0]
    table = pq.ParquetFile(io.BytesIO(bytes(parquet_of(fleet)))).read_row_group(4)
    assert len(held_by(home)) == 1 + len(held_by(fleet)) - table.num_rows


@pytest.mark.parametrize("strict", [True, False])
def test_a_cut_file_is_refused(fleet, home, tmp_path, strict):
    told = refused(parquet_of(fleet)[:-1000], home, tmp_path, strict)
    assert told.startswith("cannot import /bad.parquet: the file is damaged (") and told.endswith("take another copy")


def changed(content: bytes, change) -> bytes:
    """The file with another table."""
    out = io.BytesIO()
    told = dict(pq.read_metadata(io.BytesIO(content)).metadata)
    del told[b"ARROW:schema"]
    table = pq.read_table(io.BytesIO(content)).replace_schema_metadata(told)
    pq.write_table(change(table), out)
    return out.getvalue()


def with_metadata(**told: str):
    coded = {key.encode(): text for key, text in told.items()}
    return lambda table: table.replace_schema_metadata({**table.schema.metadata, **coded})


def test_another_version_or_a_file_of_somebody_else_is_refused(fleet, home, tmp_path):
    content = parquet_of(fleet)
    later = changed(content, with_metadata(**{"inferdoc.samples": "2"}))
    assert "its rows are of version 2, this inferdoc reads 1" in refused(later, home, tmp_path)
    foreign = changed(content, lambda table: table.replace_schema_metadata({}))
    assert "its rows are of version none" in refused(foreign, home, tmp_path)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (with_metadata(**{"inferdoc.targets": "[]"}), "a target is not among those of its metadata"),
        (with_metadata(**{"inferdoc.targets": "{"}), "the file is damaged"),
        (with_metadata(**{"inferdoc.types": '{"a":1}'}), "the file is damaged"),
        (lambda table: table.drop_columns(["value"]), "column value is not a double"),
        (lambda table: replaced(table, "labels", pa.array(["[]"] * len(table))), "column labels is not a dictionary"),
        (lambda table: replaced(table, "labels", encoded(["[]"] * len(table))), "labels are not a JSON object"),
        (lambda table: replaced(table, "value", pa.array([None] * len(table), pa.float64())), "a value is missing"),
        (
            lambda table: replaced(table, "time", pa.array([1 << 60] * len(table), pa.timestamp("ms", tz="UTC"))),
            "times are not within 1970 to 2200",
        ),
    ],
)
def test_rows_that_no_export_wrote_are_refused(change, told, fleet, home, tmp_path):
    assert told in refused(changed(parquet_of(fleet), change), home, tmp_path)


def encoded(texts: list[str]):
    return pa.array(texts, pa.dictionary(pa.int32(), pa.string()))


def replaced(table, name: str, column):
    return table.set_column(table.schema.get_field_index(name), pa.field(name, column.type), column)


def test_too_many_label_sets_leave_out_the_metric_that_has_them(tmp_path):
    path, copy = tmp_path / "a.db", tmp_path / "b.db"
    with Store.open(path, "w") as store:
        churn = layout_of("up", *(("churn", {"id": str(number)}) for number in range(50)))
        store.writer.append(POD, BEGIN_MS, page_of(churn, range(51)))
    with Store.open(copy, "w") as store:
        done = import_file(store, put(parquet_of(path), tmp_path / "a.parquet"), max_series=20, strict=True)
        assert done.problems == [f"{tmp_path}/a.parquet: more than 20 series: churn left out whole"]
    assert {name for name, *_ in held_by(copy)} == {"up"}


def test_reading_ends_when_its_time_is_up(fleet, tmp_path):
    seconds = iter(range(100))
    with Store.open(tmp_path / "copy.db", "w") as store:
        file = put(parquet_of(fleet), tmp_path / "a.parquet")
        done = import_file(store, file, seconds=2.5, clock=lambda: float(next(seconds)))
        assert "reading ended after 2.5 s, at row group 3 of 9; what follows was left out" in done.problems[0]
        assert 0 < len(samples_of(store.blocks(store.first_ms(), store.latest_ms()))) < len(held_by(fleet))


def test_without_the_package_it_is_one_line(fleet, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(InferdocError, match=r"Parquet needs pyarrow; install it with: pip install ") as raised:
        parquet_of(fleet)
    assert f"{DISTRIBUTION}[parquet]" in str(raised.value)

"""Stored baselines: kept in a file, and held against a window that has no history."""

from __future__ import annotations

import json
from dataclasses import replace

import msgspec
import numpy as np
import pytest

from benchmarks import perturb
from inferdoc import diagnose, open_source
from inferdoc.collect.openmetrics_file import read_openmetrics
from inferdoc.config import Config
from inferdoc.config_sections import BaselinesSection
from inferdoc.errors import InferdocError
from inferdoc.fleet.members import Member, Pool
from inferdoc.judging.api import Options
from inferdoc.judging.document import DiagnosisWithSeries
from inferdoc.judging.references import stored
from inferdoc.judging.references.save import MOST_STEPS, save
from inferdoc.judging.references.stored import Header, StoredBaseline, StoredPool, lead_of, mismatch
from inferdoc.source.frame import Entity, SignalFrame, SignalMatrix
from inferdoc.source.reads import Grid
from inferdoc.store.importer import import_columns
from inferdoc.store.store import Store
from tests.cli.command import alone, call, refused
from tests.conftest import recording_path
from tests.contract.labels import LABELS
from tests.judging.frames import catalogue

__all__ = ["alone"]
LABEL = next(label for label in LABELS if label.name == "prefix-unstable-prompt")
AFTER = LABEL.onset + 30
POOL = Pool("", "llm", "llama", "decode", "h100-80")


@pytest.fixture(scope="module")
def columns():
    with recording_path(LABEL.name).open("rb") as stream:
        return read_openmetrics(stream)


@pytest.fixture(scope="module")
def full(columns, tmp_path_factory):
    path = tmp_path_factory.mktemp("full") / "full.db"
    with Store.open(path, "w") as store:
        import_columns(store, columns, LABEL.name)
    return path


def without_a_past(samples, begin: float):
    """What was scraped from then on of processes that do not tell how long they have run, so that their counters tell
    nothing about the time before."""
    dated = np.array([each.name == "process_start_time_seconds" for each in samples.series])
    return perturb.begun(perturb.those(samples, ~dated[samples.series_index]), 1000 * begin)


@pytest.fixture(scope="module")
def late(columns, tmp_path_factory):
    """A source that begins half a minute after the onset."""
    path = tmp_path_factory.mktemp("late") / "late.db"
    with Store.open(path, "w") as store:
        import_columns(store, without_a_past(columns, AFTER), LABEL.name)
    return path


@pytest.fixture(scope="module")
def begin(columns):
    return int(columns.timestamps_ms.min()) / 1000


@pytest.fixture(scope="module")
def folder(full, begin, tmp_path_factory):
    """Baselines with the part of the recording before the fault."""
    kept = tmp_path_factory.mktemp("baselines")
    source = open_source(store=full)
    asked = {"name": "default", "begin": begin, "until": LABEL.onset - 4, "force": True}  # it is short
    save(source, Config(baselines=BaselinesSection(str(kept))), catalogue(), asked)
    source.close()
    return kept


@pytest.fixture
def kept(folder, tmp_path, monkeypatch):
    """A copy of it that the command line uses."""
    own = tmp_path / "baselines"
    own.mkdir()
    (own / "default.baseline").write_bytes((folder / "default.baseline").read_bytes())
    monkeypatch.setenv("INFERDOC_BASELINES", str(own))
    return own


def changed(kept, name="default", **changes):
    """The stored baseline with another header."""
    baseline = stored.named(kept, "default")
    stored.write(stored.place(kept, name), msgspec.structs.replace(baseline.header, **changes), baseline.signals)


def other_pool(kept, **changes):
    pools = stored.named(kept, "default").header.pools
    changed(kept, pools=tuple(msgspec.structs.replace(pool, **changes) for pool in pools))


def words(late, *more):
    return ("diagnose", "--store", late, "--from", str(AFTER), "--until", "latest", "-o", "json", *more)


# ---- the file -------------------------------------------------------------------------------------------------------


def header(**changes) -> Header:
    pools = (StoredPool("", "llm", "llama", "decode", "h100-80", ("p0", "p1")),)
    base = Header("0", "here", 1000, 2000, 3, 2000, 10_000, 5000, None, pools)
    return msgspec.structs.replace(base, **changes)


def matrix(*pods, values, counts=None) -> SignalMatrix:
    return SignalMatrix([Entity.of(("namespace", "pod"), ("llm", pod)) for pod in pods], values, counts)


def test_what_was_written_is_read(tmp_path):
    values = np.array([[1.0, np.nan, 3.0], [4.0, 5.0, 6.0]])
    load = matrix("p0", "p1", values=values, counts=2 * values)
    path = stored.place(tmp_path / "new", "night")
    stored.write(path, header(), {"load": load})
    back = stored.named(tmp_path / "new", "night")
    assert msgspec.structs.replace(back.header, crc=0) == header()
    assert stored.read_header(path) == back.header
    assert back.signals["load"].entities == load.entities
    np.testing.assert_array_equal(back.signals["load"].values, values)
    np.testing.assert_array_equal(back.signals["load"].counts, 2 * values)
    assert [file.name for file in path.parent.iterdir()] == ["night.baseline"], "nothing half done stays"


def test_it_is_thinned_and_ends_where_the_stretch_does(store_of, tmp_path):
    source = open_source(store=store_of("control-steady"))
    asked = {"name": "x", "file": str(tmp_path / "a.b"), "until": "latest", "since": "10m"}
    path, head = save(source, Config(), catalogue(), asked)
    answer = diagnose(source, since="10m", options=Options())
    source.close()
    assert isinstance(answer, DiagnosisWithSeries) and answer.view is not None
    grid = answer.view.frame.grid
    assert path == tmp_path / "a.b" and head.count <= MOST_STEPS
    assert head.grid.end_ms == grid.end_ms and head.step_ms % grid.step_ms == 0


DAMAGES = {
    "cut": lambda data: data[: len(data) // 2],
    "flipped": lambda data: data[:-40] + bytes([data[-40] ^ 1]) + data[-39:],
    "another file": lambda data: b"SQLite format 3\0" + data,
    "a newer format": lambda data: data.replace(b"baseline/v1", b"baseline/v9", 1),
    "no header": lambda data: data.split(b"\n", 1)[0] + b"\n",
    "a header of something else": lambda data: b'inferdoc.baseline/v1\n{"count": 3}\n',
    "empty": lambda data: b"",
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_one_line(kept, late, damage):
    path = kept / "default.baseline"
    path.write_bytes(DAMAGES[damage](path.read_bytes()))
    refused(call("baseline", "show", "default"), 2, str(path), "save it again")
    refused(call(*words(late, "--baseline", "default")), 2, str(path), "save it again")
    done = call(*words(late))
    assert done.code in (0, 3) and json.loads(done.out)["findings"] == []
    assert str(path) in done.err and done.err.count("\n") == 1


# ---- saving ---------------------------------------------------------------------------------------------------------


def test_an_incident_is_no_baseline_unless_forced(full, tmp_path, monkeypatch):
    monkeypatch.setenv("INFERDOC_BASELINES", str(tmp_path / "b"))
    save_all = ("baseline", "save", "--store", full, "--since", "10m", "--until", "latest")
    refused(call(*save_all), 1, LABEL.expected[0], "--force")
    assert not (tmp_path / "b").exists()
    done = call(*save_all, "--force")
    assert done.code == 0 and (tmp_path / "b" / "default.baseline").is_file()


def test_without_an_engine_there_is_no_baseline(tmp_path):
    with Store.open(tmp_path / "empty.db", "w"):
        pass
    refused(call("baseline", "save", "--store", tmp_path / "empty.db", "--force"), 3, "no engine")


def test_a_name_is_a_name(full):
    refused(call("baseline", "save", "--store", full, "--name", ".hidden"), 2, ".hidden")


# ---- holding a window against it ------------------------------------------------------------------------------------


def test_a_window_without_history_is_told_with_a_stored_baseline_only(late, folder):
    source = open_source(store=late)
    without = diagnose(source, from_=AFTER)
    told = diagnose(source, from_=AFTER, options=Options(stored=folder))
    source.close()
    assert LABEL.expected[0] not in [f.id for f in without.findings]
    assert [f.id for f in told.findings] == list(LABEL.expected)
    assert told.window.baseline.kind == "stored" and told.source.warnings == []
    assert told.findings[0].certainty != "proven", "what happened between the two is not known"
    assert {e.reference for e in told.findings[0].evidence if e.role == "symptom"} == {"stored"}


def test_harm_without_a_cause_gets_one_by_a_stored_baseline(tmp_path):
    """A queue that nobody can wait for shows without any past; what is behind it does not."""
    label = next(each for each in LABELS if each.name == "demand-beyond-capacity")
    with recording_path(label.name).open("rb") as stream:
        samples = read_openmetrics(stream)
    begins = {"full": int(samples.timestamps_ms.min()) / 1000, "late": label.onset + 60}
    for name, begin in begins.items():
        with Store.open(tmp_path / f"{name}.db", "w") as store:
            import_columns(store, without_a_past(samples, begin), name)
    full, late = (open_source(store=tmp_path / f"{name}.db") for name in begins)
    asked = {"name": "default", "begin": begins["full"], "until": label.onset - 4, "force": True}
    save(full, Config(baselines=BaselinesSection(str(tmp_path / "kept"))), catalogue(), asked)
    without = diagnose(late, from_=begins["late"])
    told = diagnose(late, from_=begins["late"], options=Options(stored=tmp_path / "kept"))
    full.close()
    late.close()
    assert [f.id for f in without.findings] == ["demand-beyond-capacity"]
    assert told.findings[0].id in label.expected and told.window.baseline.kind == "stored"


def test_a_window_with_history_does_not_ask_for_one(full, kept):
    (kept / "default.baseline").write_bytes(b"not looked at")
    done = call("diagnose", "--store", full, "--from", str(AFTER), "--until", "latest", "-o", "json")
    assert json.loads(done.out)["window"]["baseline"]["kind"] == "history" and done.err == ""


def test_on_the_command_line_by_itself_by_name_and_by_path(late, kept):
    for more in ((), ("--baseline", "default"), ("--baseline", f"{kept}/default.baseline")):
        document = json.loads(call(*words(late, *more)).out)
        assert document["window"]["baseline"]["kind"] == "stored", more
        assert document["findings"][0]["id"] == LABEL.expected[0], more
    text = call("diagnose", "--store", late, "--from", str(AFTER), "--until", "latest", "-v").out
    assert "compared with a stored baseline default, " in text
    refused(call(*words(late, "--baseline", "noon")), 2, "noon", "default")


@pytest.mark.parametrize(("part", "value"), [("model", "llama"), ("tier", "h100-80"), ("role", "decode")])
def test_one_of_another_pool_is_refused_by_name(late, kept, part, value):
    other_pool(kept, **{part: value})
    refused(call(*words(late, "--baseline", "default")), 2, "default", f"{part} {value}")
    done = call(*words(late))
    document = json.loads(done.out)
    assert document["findings"] == [] and document["window"]["baseline"]["kind"] != "stored"
    (warning,) = document["source"]["warnings"]
    assert "default" in warning and f"{part} {value}" in warning


def test_one_of_another_release_is_refused_by_name(late, kept):
    changed(kept, older_than="0.13")
    refused(call(*words(late, "--baseline", "default")), 2, "default", "vLLM before 0.13")
    assert json.loads(call(*words(late)).out)["findings"] == []


def test_the_next_one_is_tried(late, kept):
    changed(kept, name="night")
    other_pool(kept, model="llama")
    document = json.loads(call(*words(late)).out)
    assert document["window"]["baseline"]["kind"] == "stored" and document["source"]["warnings"] == []


def test_every_pool_of_the_window_must_be_there():
    head = header()
    assert mismatch("x", head, {POOL}, None) is None
    two = {POOL, replace(POOL, role="prefill", tier="a100-80")}
    assert mismatch("x", head, two, None) == "stored baseline x is of role decode, not prefill"


# ---- its values -----------------------------------------------------------------------------------------------------


def frame(pods, steps=40, step_ms=15_000) -> SignalFrame:
    grid = Grid(10_000_000, step_ms, steps, step_ms, 5 * step_ms, 2 * step_ms)
    made = SignalFrame(grid)
    made.signals["load"] = matrix(*pods, values=np.ones((len(pods), steps)), counts=np.ones((len(pods), steps)))
    return made


def members(pools) -> list[Member]:
    return [Member(("", "llm", pod), "", "", pool) for pod, pool in pools.items()]


def test_a_stretch_of_short_steps_gets_as_many_as_a_baseline_must_have():
    values = np.array([[1.0, 2.0, 9.0]])
    baseline = StoredBaseline("x", header(), {"load": matrix("p0", values=values, counts=10 * values)})
    lead = lead_of(baseline, frame(["p0"]), members({"p0": POOL}))
    assert lead.grid.count == 15, "15 scrapes"
    assert lead.grid.start_ms == 1000 and lead.grid.end_ms <= header().grid.end_ms
    row = lead["load"].values[0]
    assert set(row) == {1.0, 2.0, 9.0} and (np.diff(row) >= 0).all(), "stored values, in their order"
    np.testing.assert_array_equal(lead["load"].counts, 10 * lead["load"].values)


def test_a_long_stretch_keeps_its_own_steps_and_a_fine_one_takes_the_windows():
    values = np.arange(100.0)[None, :]
    for step_ms, count in ((600_000, 100), (3000, 20)):
        baseline = StoredBaseline("x", header(count=100, step_ms=step_ms), {"load": matrix("p0", values=values)})
        lead = lead_of(baseline, frame(["p0"]), members({"p0": POOL}))
        assert lead.grid.count == count
        assert lead["load"].values[0, 0] == 0.0 and lead["load"].values[0, -1] == 99.0


def test_a_new_pod_has_what_its_own_pool_had():
    slow = replace(POOL, tier="a100-80")
    pools = (*header().pools, StoredPool("", "llm", "llama", "decode", "a100-80", ("q0",)))
    values = np.array([[1.0] * 3, [3.0] * 3, [50.0] * 3])
    baseline = StoredBaseline("x", header(pools=pools), {"load": matrix("p0", "p1", "q0", values=values)})
    now = {"p1": POOL, "p7": POOL, "q7": slow}
    lead = lead_of(baseline, frame(list(now)), members(now))
    assert lead["load"].values[:, 0].tolist() == [3.0, 2.0, 50.0]


def test_a_signal_that_was_not_stored_stays_a_gap():
    baseline = StoredBaseline("x", header(), {})
    now = frame(["p0"])
    lead = lead_of(baseline, now, members({"p0": POOL}))
    now.prepend(lead)
    assert np.isnan(now["load"].values[0, : lead.grid.count]).all()
    assert np.isfinite(now["load"].values[0, lead.grid.count :]).all()


# ---- showing --------------------------------------------------------------------------------------------------------


def test_show_lists_and_shows(kept):
    (kept / "broken.baseline").write_bytes(b"x")
    lines = call("baseline", "show").out.splitlines()
    assert lines[0].split() == ["name", "from", "until", "model", "namespace", "role", "tier", "pods", "engines"]
    assert lines[1].startswith("default ") and " tiny " in lines[1]
    assert lines[2].startswith("broken ") and "cannot be read" in lines[2]
    one = call("baseline", "show", "default")
    heading, row = (line.split() for line in one.out.splitlines()[4:6])
    assert one.code == 0 and heading[:5] == ["model", "namespace", "role", "tier", "pods"] and "ttft_mean" in heading
    assert row[:5] == ["tiny", "-", "both", "unknown", "1"]


def test_its_medians_are_those_of_the_stretch(kept):
    document = json.loads(call("baseline", "show", "default", "-o", "json").out)
    (pool,) = document["pools"]
    matrix = stored.named(kept, "default").signals["ttft_mean"]
    assert pool["medians"]["ttft_mean"] == pytest.approx(float(np.nanmedian(matrix.values)))
    assert 0.5 < pool["medians"]["request_rate"] < 2.0, "about 1 request a second (labels.json)"
    listing = json.loads(call("baseline", "show", "-o", "json").out)
    assert [row["name"] for row in listing] == ["default"]


def test_show_says_where_it_looked(monkeypatch, tmp_path):
    monkeypatch.setenv("INFERDOC_BASELINES", str(tmp_path / "none"))
    done = call("baseline", "show")
    assert done.code == 0 and str(tmp_path / "none") in done.out
    with pytest.raises(InferdocError, match="baseline save"):
        stored.named(tmp_path / "none", "default")

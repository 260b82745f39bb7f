"""Importing OpenMetrics text: whole, damaged, twice, in parts."""

from __future__ import annotations

import gzip
import io
import sys
import time

import pytest

from inferdoc.collect import openmetrics_file
from inferdoc.store import Store, StoreError, import_file, importer, spill
from tests.store.pages import bits_of, held_by, samples_of

HEAD = "# TYPE up gauge\n# TYPE vllm:num_requests_running gauge\n# TYPE vllm:prompt_tokens counter\n"


def labels(pod: int, **more: str) -> str:
    pairs = {"job": "vllm", "instance": f"10.0.0.{pod}:8000", "pod": f"vllm-{pod}", **more}
    return "{" + ",".join(f'{name}="{value}"' for name, value in pairs.items()) + "}"


def text_of(pods=(0, 1), scrapes=30, first_s=1_700_000_000) -> str:
    lines = []
    for name, more in (("up", {}), ("vllm:num_requests_running", {"engine": "0"}), ("vllm:prompt_tokens_total", {})):
        for pod in pods:
            for scrape in range(scrapes):
                stamp = f"{first_s + 2 * scrape}.{pod:03d}"
                lines.append(f"{name}{labels(pod, **more)} {scrape * (pod + 1.5)} {stamp}\n")
    return HEAD + "".join(lines) + "# EOF\n"


@pytest.fixture
def store(tmp_path):
    with Store.open(tmp_path / "fleet.db", "w") as store:
        yield store


def feed(store, text):
    return import_file(store, io.BytesIO(text if isinstance(text, bytes) else text.encode()))


class Clock:
    """Seconds that pass, so many each time somebody looks."""

    def __init__(self, step: float) -> None:
        self.now, self.step = 0.0, step

    def __call__(self) -> float:
        self.now += self.step
        return self.now


def test_reading_ends_when_its_time_is_up(store, monkeypatch):
    monkeypatch.setattr(openmetrics_file, "_READ_BYTES", 4096)
    text = text_of()
    part = import_file(store, io.BytesIO(text.encode()), seconds=2.5, clock=Clock(1.0))
    whole = text.splitlines()
    (problem,) = part.problems
    line = int(problem.partition("at line ")[2].partition(";")[0])
    assert "reading ended after 2.5 s" in problem and "--timeout" in problem and 4 < line < len(whole)
    assert part.samples == sum(not each.startswith("#") for each in whole[:line])
    before = everything(store)
    again = import_file(store, io.BytesIO(text.encode()), seconds=1000, clock=Clock(1.0))
    assert again.problems == [] and again.samples == 180
    assert before.items() < everything(store).items()


def everything(store):
    first, latest = store.first_ms(), store.latest_ms()
    return {} if first is None else samples_of(store.blocks(first, latest))


def test_samples_are_regrouped_into_scrapes(store):
    done = feed(store, text_of())
    assert (done.samples, done.pages, done.new_pages, done.problems) == (180, 60, 60, [])
    assert (done.first_ms, done.last_ms) == (1_700_000_000_000, 1_700_000_058_001)
    assert store.targets() == [
        {"instance": f"10.0.0.{pod}:8000", "job": "vllm", "pod": f"vllm-{pod}"} for pod in (0, 1)
    ]
    assert store.types()["vllm:prompt_tokens"] == "counter"
    first, second = store.blocks(0, 2**50)
    assert first.values.shape == second.values.shape == (30, 3)
    assert second.times_ms.tolist() == [1_700_000_000_001 + 2000 * scrape for scrape in range(30)]
    assert set(zip(first.names, (tuple(each.items()) for each in first.labels), strict=True)) == {
        ("up", ()),
        ("vllm:num_requests_running", (("engine", "0"),)),
        ("vllm:prompt_tokens_total", ()),
    }


def test_twice_and_in_parts_changes_nothing(store):
    feed(store, text_of())
    whole = everything(store)
    assert feed(store, text_of()).new_pages == 0
    assert feed(store, text_of(pods=(1,), scrapes=7)).new_pages == 0
    assert everything(store) == whole and len(store.targets()) == 2
    assert feed(store, text_of(scrapes=31)).new_pages == 2


def test_parts_first_and_the_whole_later(store):
    text = text_of()
    for part in ("up", "vllm:prompt", "vllm:num"):
        feed(store, "".join(line for line in text.splitlines(True) if line.startswith(part)))
    parts = everything(store)
    assert feed(store, text).new_pages == 0 and everything(store) == parts and len(parts) == 180


def test_older_samples_after_newer_ones(store):
    feed(store, text_of(first_s=1_700_000_001))
    feed(store, text_of(first_s=1_600_000_000))
    feed(store, text_of(first_s=1_700_000_000))
    held = everything(store)
    assert len(held) == 540
    times = [ts for _, _, ts in held]
    assert (min(times), max(times)) == (1_600_000_000_000, 1_700_000_059_001)


def test_stamps_out_of_order_inside_a_file(store):
    lines = text_of().splitlines(True)
    samples = [line for line in lines if not line.startswith("#")]
    done = feed(store, HEAD + "".join(reversed(samples)) + "# EOF\n")
    assert done.pages == 60
    backward = everything(store)
    feed(store, text_of())
    assert everything(store) == backward


def test_stamps_that_differ_within_a_target(store):
    lines = [f"m{number}{labels(0)} {number} 1700000000.{number:03d}\n" for number in range(9)]
    assert feed(store, "".join(lines) + "# EOF\n").pages == 9
    (block,) = store.blocks(0, 2**50)
    assert block.values.shape == (9, 9) and len(samples_of([block])) == 9


def test_a_label_that_varies_stays_with_the_series(store):
    text = "".join(
        f'DCGM_FI_DEV_GPU_UTIL{{job="dcgm",instance="n1",node="n1",gpu="{gpu}",pod="p{gpu}"}} 5 1700000000\n'
        for gpu in range(2)
    )
    feed(store, text + "# EOF\n")
    (block,) = store.blocks(0, 2**50)
    assert block.target == {"instance": "n1", "job": "dcgm", "node": "n1"}
    assert block.labels == [{"gpu": "0", "pod": "p0"}, {"gpu": "1", "pod": "p1"}]
    before = everything(store)
    assert feed(store, text.splitlines(True)[0] + "# EOF\n").new_pages == 0
    assert everything(store) == before and len(store.targets()) == 1


def test_series_without_job_and_instance(store):
    feed(store, 'load{x="1"} 5 1700000000\nbare 6 1700000000\n# EOF\n')
    (block,) = store.blocks(0, 2**50)
    assert block.target == {} and sorted(block.names) == ["bare", "load"]
    assert feed(store, 'load{x="1"} 5 1700000000\n# EOF\n').new_pages == 0


def test_special_values(store):
    feed(store, "a NaN 1\na +Inf 2\na -Inf 3\na -5 4\na 1e-320 5\n# EOF\n")
    held = [bits for _, bits in sorted(everything(store).items(), key=lambda item: item[0][2])]
    assert held == [bits_of(value) for value in (float("nan"), float("inf"), float("-inf"), -5.0, 1e-320)]


def test_truncated_gzip_keeps_what_is_whole(store):
    packed = gzip.compress(text_of(scrapes=3000).encode())
    done = feed(store, packed[: len(packed) * 2 // 3])
    assert 0 < done.samples < 18_000 and any("gzip data is cut" in problem for problem in done.problems)
    assert len(everything(store)) == done.samples
    assert feed(store, packed).problems == [] and len(everything(store)) == 18_000


def test_half_a_line_and_lines_that_are_none(store):
    text = text_of().replace("# EOF\n", "") + "what is this\n" + f"up{labels(0)} 1 17000"
    done = feed(store, text)
    assert done.samples == 180 and len(everything(store)) == 180
    assert [problem for problem in done.problems if "line 184" in problem]
    assert [problem for problem in done.problems if "line 185" in problem]
    assert all("\n" not in problem for problem in done.problems)


def test_duplicate_series(store):
    text = text_of().replace("# EOF\n", f"up{labels(0)} 99 1700000000.000\n# EOF\n")
    done = feed(store, text)
    assert len(everything(store)) == 180 and done.samples == 181
    (problem,) = done.problems
    assert "1 samples repeat a series and time" in problem
    assert bits_of(99) not in everything(store).values()


def test_future_stamps_are_kept_and_told(store):
    done = feed(store, text_of(pods=(0,), scrapes=2, first_s=int(time.time()) + 9 * 86_400))
    assert len(everything(store)) == 6
    (problem,) = done.problems
    assert "vllm-0: scrapes 9.0 days in the future; kept, but never the latest" in problem


@pytest.mark.parametrize(
    "body",
    [b"", b"# EOF\n", b"<!DOCTYPE html><html><body>Sign in</body></html>\n", b"\x1f\x8b\x08\x00", b"\xff\xfe\x00" * 50],
)
def test_nothing_to_import_is_an_error(store, body):
    with pytest.raises(StoreError, match="nothing to import from") as caught:
        feed(store, body)
    assert "\n" not in str(caught.value) and store.targets() == []


def test_files_gzip_stdin_and_no_file(store, tmp_path, monkeypatch):
    plain, packed = tmp_path / "a.om", tmp_path / "a.om.gz"
    plain.write_text(text_of())
    packed.write_bytes(gzip.compress(text_of(scrapes=40).encode()))
    shares = []
    assert import_file(store, plain, shares.append).new_pages == 60
    assert shares == sorted(shares) and shares[-1] == 1.0
    assert import_file(store, str(packed)).new_pages == 20

    class Stdin:
        buffer = io.BytesIO(text_of(scrapes=41).encode())

    monkeypatch.setattr(sys, "stdin", Stdin)
    assert import_file(store, "-").new_pages == 2
    with pytest.raises(StoreError, match=r"cannot read .*none.om: no such file"):
        import_file(store, tmp_path / "none.om")
    with pytest.raises(StoreError, match="is a directory"):
        import_file(store, tmp_path)


def test_a_fault_in_the_middle_leaves_the_store_as_it_was(store, monkeypatch):
    feed(store, text_of(scrapes=5))
    before = everything(store)
    append, calls = store.writer.append, []

    def failing(*asked):
        calls.append(asked)
        if len(calls) == 30:
            raise KeyboardInterrupt
        return append(*asked)

    monkeypatch.setattr(store.writer, "append", failing)
    with pytest.raises(KeyboardInterrupt):
        feed(store, text_of())
    assert everything(store) == before
    monkeypatch.undo()
    assert feed(store, text_of()).new_pages == 50
    path = store.path
    store.close()
    assert len(held_by(path)) == 180


@pytest.mark.parametrize("most", [1, 7, 50, 179, 180, 1000])
def test_what_does_not_fit_in_memory_is_stored_the_same(store, tmp_path, monkeypatch, most):
    """Series by series, as exporters write it: each time has samples in every run."""
    lines = text_of().splitlines()
    head, samples = [line for line in lines if line.startswith("#")], [line for line in lines if line[0] != "#"]
    samples.sort(key=lambda line: line.rpartition(" ")[0])
    samples.append(samples[-1].rsplit(" ", 2)[0] + " 99 " + samples[-1].rsplit(" ", 1)[1])
    text = "\n".join([*head[:-1], *samples, "# EOF\n"])
    whole = feed(store, text)
    monkeypatch.setattr(importer, "RUN_SAMPLES", most)
    monkeypatch.setattr(openmetrics_file, "_READ_BYTES", 512)
    with Store.open(tmp_path / "runs.db", "w") as other:
        done = feed(other, text)
        assert everything(other) == everything(store)
        assert other.targets() == store.targets() and done == whole
        assert done.samples == 181 and len(done.problems) == 1
        assert feed(other, text).new_pages == 0
    assert sorted(path.name for path in tmp_path.iterdir() if "runs" in path.name) == ["runs.db", "runs.db.lock"]


@pytest.mark.parametrize("order", [1, -1])
def test_too_many_series_leave_out_whole_metrics(store, order):
    lines = [f'm{{pod="a",number="{number}"}} {number} 1700000000' for number in range(40)]
    lines += [f'{name}{{pod="a",id="{number}"}} 2 1700000001' for name in ("churn", "more") for number in range(300)]
    lines += ['up{pod="a"} 1 1700000000', 'up{pod="a"} 1 1700000060', 'churn{pod="a",id="7"} 3 1700000099']
    done = import_file(store, io.BytesIO("\n".join([*lines[::order], "# EOF\n"]).encode()), max_series=100)
    assert {name for name, _, _ in everything(store)} == {"m", "up"}
    assert done.samples == 42 and len(everything(store)) == 42
    assert "more than 100 series: churn, more left out whole" in done.problems[-1] or "more, churn" in done.problems[-1]


def test_no_room_to_sort(store, monkeypatch):
    monkeypatch.setattr(importer, "RUN_SAMPLES", 10)
    monkeypatch.setattr(spill, "_LEAST_FREE_BYTES", 2**62)
    with pytest.raises(StoreError, match=r"no space in .* to sort the import"):
        feed(store, text_of())
    assert everything(store) == {}

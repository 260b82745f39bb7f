"""Following a vLLM log for the EPLB line."""

from __future__ import annotations

from pathlib import Path

from inferdoc.collect.eplb_log import EplbLog, EplbSample, eplb_page, read_eplb_line
from inferdoc.collect.samples import Series

LINE = (
    "(EngineCore_DP0 pid=71) INFO 11-21 10:00:00 [eplb_state.py:571] EPLB step: {step} for model Qwen/Q:3: "
    "avg_tokens={average}, max_tokens=980, balancedness={balance}, steps until the next rearrangement: 20\n"
)


def line(step: int, balance: str = "0.5227", average: str = "512.25") -> str:
    return LINE.format(step=step, balance=balance, average=average)


def steps(samples: list[EplbSample]) -> list[float]:
    return [sample.step for sample in samples]


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def test_the_line_is_read_whatever_surrounds_it() -> None:
    assert read_eplb_line(line(300)) == EplbSample("Qwen/Q:3", 300, 512.25, 980, 0.5227)
    plain = "EPLB step: 1 for model m: avg_tokens=1.00, max_tokens=2, balancedness=0.5000."
    assert read_eplb_line(plain) == EplbSample("m", 1, 1.0, 2.0, 0.5)
    for other in ("EPLB step: x", "", "EPLB step: 1 for model m: avg_tokens=1..0, max_tokens=2, balancedness=0.5"):
        assert read_eplb_line(other) is None


def test_only_new_lines_are_read(tmp_path: Path) -> None:
    path = tmp_path / "vllm.log"
    path.write_text(line(1))
    with EplbLog(path) as log, EplbLog(path, from_start=True) as whole:
        assert log.read() == []
        assert steps(whole.read()) == [1]
        append(path, "INFO something else\n" + line(2) + line(3)[:60])
        assert steps(log.read()) == [2]
        append(path, line(3)[60:])
        assert steps(log.read()) == [3]
        assert log.read() == []
        assert log.problem is None


def test_rotation_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "vllm.log"
    path.write_text("start\n")
    with EplbLog(path) as log:
        append(path, line(1) + line(2).rstrip("\n"))
        assert steps(log.read()) == [1]
        path.rename(tmp_path / "vllm.log.1")
        path.write_text(line(3))
        assert steps(log.read()) == [2, 3]
        append(path, line(4))
        assert steps(log.read()) == [4]


def test_truncation_starts_over(tmp_path: Path) -> None:
    path = tmp_path / "vllm.log"
    path.write_text("x" * 1000 + "\n")
    with EplbLog(path) as log:
        append(path, line(1))
        assert steps(log.read()) == [1]
        path.write_text(line(2))
        assert steps(log.read()) == [2]


def test_a_file_that_comes_and_goes(tmp_path: Path) -> None:
    path = tmp_path / "vllm.log"
    with EplbLog(path) as log:
        assert log.read() == []
        assert log.problem == f"{path}: no such file yet"
        path.write_text(line(1))
        assert steps(log.read()) == [1]
        assert log.problem is None
        path.unlink()
        assert log.read() == []
        path.write_text(line(2))
        assert steps(log.read()) == [2]


def test_a_folder_is_a_problem_not_a_fault(tmp_path: Path) -> None:
    with EplbLog(tmp_path) as log:
        assert log.read() == []
        assert log.problem == f"{tmp_path}: Is a directory"


def test_binary_rubbish_is_skipped(tmp_path: Path) -> None:
    path = tmp_path / "vllm.log"
    path.write_bytes(b"")
    with EplbLog(path) as log:
        with path.open("ab") as file:
            file.write(b"\xff\xfe EPLB step: \xff\n" + b"\0" * (3 << 20) + b"\n" + line(1).encode())
        assert steps(log.read()) == [1]


def test_samples_of_an_interval_become_one_page() -> None:
    rows = [
        EplbSample("b", 10, 100, 200, 0.5),
        EplbSample("a", 7, 1, 1, 1.0),
        EplbSample("b", 11, 100, 400, 0.25),
    ]
    page = eplb_page(rows)
    assert page is not None
    assert page.layout.series[4:] == tuple(
        Series(f"inferdoc_eplb_{name}", (("model_name", "b"),))
        for name in ("step", "avg_tokens", "max_tokens", "balancedness")
    )
    assert page.values.tolist() == [7, 1, 1, 1.0, 11, 100, 300, 0.375]
    assert page.layout.types["inferdoc_eplb_balancedness"] == "gauge"
    assert eplb_page([]) is None

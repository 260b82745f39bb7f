"""Every script under benchmarks/ runs on tiny input, measures, and prints its table.

Scripts run in this process, so that the start of Python and the imports of inferdoc are paid once.
"""

from __future__ import annotations

import re
import runpy
import shlex
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.benchmarks.smoke_inputs import write_inputs

ROOT = Path(__file__).parents[2]
BENCHMARKS = ROOT / "benchmarks"
SCRIPT = re.compile(r'^if __name__ == "__main__":', re.MULTILINE)
TABLE_ROW = r"\|[ :]*-{3}[^\n]*\n\|[^\n]*\d[^\n]*\|"
"""The line below the head of a Markdown table, and a row with a number."""
EXEMPT = ("real_vllm/", "real_stacks/", "new_user.py")
"""`make real-vllm` and `make real-stacks` install gigabytes; the parts that need none have tests of their own. The
first hour of a new user has nothing to make smaller: two minutes of real servers."""
WRITTEN = ("docs/**/*.md", "diagnostics/calibration.yaml", "benchmarks/public/labels.json")
"""What scripts write by default."""


@dataclass(frozen=True)
class Smoke:
    """A command line. words: {inputs} is the folder of `write_inputs`; shows: what the output must match; needs:
    programs; slow: why the case takes more than four seconds of CPU."""

    words: str
    shows: str = TABLE_ROW
    needs: tuple[str, ...] = ()
    slow: str = ""


PROMETHEUS = ("prometheus", "promtool")
CASE = "12a224aa10"
"""Of the public benchmark: recordings/engine-down.om.gz."""
SMOKE = {
    "audit.py": Smoke("--only memory-fraction-low"),
    "bounds.py": Smoke(
        "--samples 2000 --pods 2 --label-sets 240 --page-series 500 --only 'store: the same*' --only 'import*' "
        "--only 'page of 500 series in*'"
    ),
    "breaks.py": Smoke("--day 8 --every 48 --only 'all leave'"),
    "calibration.py": Smoke("{inputs}/outcomes.json --out ."),
    "canary.py": Smoke("--seeds 1 --only alike"),
    "collector.py": Smoke("--rates 5 --seconds 1"),
    "conformance.py": Smoke("{inputs}/openmetrics {inputs}/common"),
    "decoded.py": Smoke("{inputs}/fleet.db --since 5m --rows 3"),
    "duckdb_scan.py": Smoke("--pods 2 --turns 1", slow="simulates two hours, and exports them to Parquet"),
    "demos.py": Smoke("--only prefill-compute-bound"),
    "diagnose.py": Smoke(
        "--pods 2 --health some --minutes 2 --turns 1 --cold", r"\| prometheus \| 2, some", PROMETHEUS
    ),
    "faulty_answers.py": Smoke(
        "--incidents 1 --controls 0 --answers 1 --only warnings --jobs 1", r"\| warnings \| 1 \| 1 \| 1 \|", PROMETHEUS
    ),
    "first_look.py": Smoke("--only engine-hung"),
    "forecast.py": Smoke("{inputs}/loads --without-arima --origins 1 --days 0.25 --cold 5 --pools 1"),
    "headroom.py": Smoke(
        "loss --only 'chat, 2 x l40s at 1.1, rehearsed' --tick 2", slow="simulates three hours of a loaded fleet"
    ),
    "health.py": Smoke("{inputs}/recordings"),
    "holidays.py": Smoke("--series {inputs}/loads/web.csv.gz --dates {inputs}/dates.txt"),
    "kv.py": Smoke("'prefixes, small' --minutes 5"),
    "leave_one_out.py": Smoke("--only slow-gpu --each 1 --jobs 1 --out anomaly.md"),
    "parse.py": Smoke("{inputs}/page.txt"),
    "perturbations.py": Smoke("{inputs}/recordings --only late-30 --only rollout --jobs 1"),
    "plan_cost.py": Smoke("1 1 1 120", needs=PROMETHEUS),
    "public/inferdoc_answers.py": Smoke("{inputs}/recordings/engine-down.om.gz 1795254748 1795255348", r"engine-down"),
    "public/rule_answers.py": Smoke(
        f"{{inputs}}/rules.yaml --folder . --only {CASE}", r'"cause": "engine-down"', ("promtool",)
    ),
    "public/score.py": Smoke("{inputs}/answers.json --misses"),
    "public/unpack.py": Smoke(f". --only {CASE}", rf"{CASE}"),
    "quiet_windows.py": Smoke("--fleets 1 --windows 1 --only as-is --kind control-steady --seed 501 --jobs 1"),
    "recordings.py": Smoke("{inputs}/recordings"),
    "reliability.py": Smoke("--flips 2 --truncations 2 --kills 1"),
    "rule_cost.py": Smoke(
        "--pods 2 --minutes 0.1 --hasten 60 --slowest 1", r"recorded series +\d", PROMETHEUS,
    ),
    "rule_scenarios.py": Smoke("--out . prefill-compute-bound", "^prefill-compute-bound$"),
    "scan_by_records.py": Smoke(
        "--calm 1 --sick 1 --ways records --folder .", needs=PROMETHEUS,
        slow="evaluates all rules over an hour of two clusters",
    ),
    "scoreboard.py": Smoke("--only kv-capacity-bound --plain --jobs 1"),
    "serve.py": Smoke(
        "engine-down --no-repeat --later 0", needs=(*PROMETHEUS, "prometheus-alertmanager"),
        slow="evaluates all rules over an hour, then waits for an alert",
    ),
    "size.py": Smoke("8b-l4 --hours 1.5 --rounds 1"),
    "size_outside.py": Smoke(
        f"{ROOT}/fixtures/sizing/points.csv --half 1", shows="TTFT ms, all", slow="predicts 300 results"
    ),
    "size_points.py": Smoke("--only 'dense FP4'", slow="fits the parts of a step to 287 results"),
    "size_silicon.py": Smoke(f"{ROOT}/fixtures/sizing/silicon_sample.csv", shows="TTFT, all"),
    "page_recall.py": Smoke(
        f"--rules {ROOT}/alerts/generated --only 33-", shows="^recall", needs=("promtool",),
        slow="replays all rules over an hour",
    ),
    "slow_clients.py": Smoke("--connections 20 --only 'begins a head'", r"\| begins a head \| 20 \| \d+ \| 0 \|"),
    "store.py": Smoke("{inputs}/recordings --pods 2 --minutes 5 --hours 1"),
    "tenants.py": Smoke("{inputs}/tenants --origins 1"),
    "thousands.py": Smoke("--pools 1x16 --minutes 2 --deep --alone"),
    "tuned.py": Smoke("{inputs}/loads --days 1"),
    "weekly_waste.py": Smoke("--days 0.05 --only lost"),
    "whatif.py": Smoke(
        "'small cache 8B, l40s' --change max-num-seqs=24 --minutes 15 --truths 2",
        slow="calibrates a simulation, and repeats it before and after the change",
    ),
}  # fmt: skip


def scripts() -> set[str]:
    """The modules under benchmarks/ that run as programs, by their paths there."""
    files = [path for path in BENCHMARKS.rglob("*.py") if SCRIPT.search(path.read_text("utf-8"))]
    return {path.relative_to(BENCHMARKS).as_posix() for path in files}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inputs")
    write_inputs(folder)
    return folder


@pytest.fixture(scope="module", autouse=True)
def committed_files_stay() -> Iterator[None]:
    """No script changes a file of the repository."""
    files = [path for pattern in WRITTEN for path in ROOT.glob(pattern)]
    before = {path: path.read_bytes() for path in files}
    yield
    assert [path.name for path in files if path.read_bytes() != before[path]] == []


def cases() -> list:
    made = []
    for name, smoke in SMOKE.items():
        marks = [pytest.mark.live] if smoke.needs else []
        if smoke.slow:
            marks += [pytest.mark.slow, pytest.mark.takes_long(smoke.slow)]
        made.append(pytest.param(name, marks=marks))
    return made


@pytest.mark.parametrize("name", cases())
def test_a_script_measures_and_prints(name, inputs, tmp_path, monkeypatch, capsys):
    smoke = SMOKE[name]
    missing = [program for program in smoke.needs if shutil.which(program) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} not on the PATH")
    monkeypatch.chdir(tmp_path)
    run(BENCHMARKS / name, smoke.words.format(inputs=inputs), monkeypatch)
    printed = capsys.readouterr()
    assert re.search(smoke.shows, printed.out or printed.err, re.MULTILINE), printed


def run(script: Path, words: str, monkeypatch) -> None:
    """Run a script as `python script words` does; fail unless it exits with 0."""
    monkeypatch.setattr(sys, "argv", [str(script), *shlex.split(words)])
    monkeypatch.syspath_prepend(str(script.parent))
    try:
        runpy.run_path(str(script), run_name="__main__")
    except SystemExit as end:
        assert not end.code, f"{script.name} exits with {end.code}"


def test_every_script_has_a_smoke_command():
    found = {name for name in scripts() if not name.startswith(EXEMPT)}
    assert found == set(SMOKE)


@pytest.mark.parametrize("module", ["benchmarks.real_vllm", "benchmarks.real_vllm.fleet"])
def test_programs_that_need_vllm_show_their_options(module, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [module, "--help"])
    monkeypatch.delitem(sys.modules, f"{module}.__main__", raising=False)
    with pytest.raises(SystemExit) as end:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    assert end.value.code == 0
    assert "--environment" in capsys.readouterr().out

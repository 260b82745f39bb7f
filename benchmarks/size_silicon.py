"""Errors of `inferdoc size` on served results that it was not fitted to, and beside those of aiconfigurator.

    python benchmarks/size_silicon.py CSV              errors on the results of CSV that are not in points.csv
    python benchmarks/size_silicon.py CSV --select 3   rows for points.csv: three of each model, tier, engine and dtype
    python benchmarks/size_silicon.py CSV --aic PYTHON errors of both on the results that points.csv has of CSV

CSV is silicon_sample.csv of the package aiconfigurator-core 0.12 (PyPI, folder aiconfigurator_core/systems): mean TTFT
and TPOT of closed loops, from InferenceX and from runs of its authors. PYTHON is the interpreter of an environment that
has aiconfigurator. Taken are aggregated layouts of one attention rank and at most 8 GPUs, whose experts are on one rank
or on all, with as many requests at once as the engine runs.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import re
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from measured import measured_line
from size_points import POINTS, Point, points, points_of

from inferdoc.catalogue.load import load_catalogue

MODELS = {
    "Llama-3.1-70B": "llama-3.3-70b",
    "Llama-3.1-8B-Instruct": "llama-3.1-8b",
    "Llama-3.1-8B-Instruct-FP8": "llama-3.1-8b",
    "Qwen3-32B": "qwen3-32b",
    "DeepSeek-R1": "deepseek-v3",
    "DeepSeek-V3": "deepseek-v3",
    "gpt-oss-120b": "gpt-oss-120b",
    "MiniMax-M2.5": "minimax-m2.5",
    "Kimi-K2.5": "kimi-k2.5",
    "Qwen3-235B-A22B-FP8": "qwen3-235b-a22b",
}
TIERS = {
    "b200_sxm": "b200-180",
    "b300_sxm": "b300-288",
    "gb300": "gb300-288",
    "h100_sxm": "h100-80",
    "h200_sxm": "h200-141",
}
DTYPES = {"fp4": "nvfp4", "fp8": "fp8", "bf16": "bf16", "": "bf16", "int4": "int4"}
DENSE = ("llama-3.3-70b", "llama-3.1-8b", "qwen3-32b")
FIT = ("model", "tier", "engine", "dtype", "tp", "prompt_tokens", "output_tokens", "max_num_seqs")
"""Columns that identify a result."""
KEPT = ("family", "source", "metric", "measured", "engine", "model", "tier", "dtype", "kv_dtype", "tp", "pp", "dp")
LOAD = (
    "prompt_tokens",
    "output_tokens",
    "max_num_seqs",
    "gpu_memory_utilization",
    "requests",
    "scheduler_recv_interval",
)
COLUMNS = (*KEPT, *LOAD)


def described(row: Mapping[str, str]) -> dict[str, str] | None:
    """A row of the sample in the columns of points.csv, without metric and measured; None if it is not taken."""
    model, streams = (
        row["model_path"].split("/")[1],
        re.search(r"silicon_concurrency=(\d+)", row["silicon_data_source"]),
    )
    experts, ranks = int(row["moe_ep_size"] or 1) or 1, row["attention_dp_size"] or "1"
    if row["mode"] != "agg" or model not in MODELS or row["system"] not in TIERS or streams is None:
        return None
    tensor = int(row["tp_size"])
    if tensor > 8 or ranks not in ("0", "1") or experts not in (1, tensor) or streams[1] != row["batch_size"]:
        return None
    name, engine = MODELS[model], row["backend"]
    dtype = (
        "mxfp4" if name == "gpt-oss-120b" else "fp8" if "fp8" in row["gemm_quant_mode"] else DTYPES[row["precision"]]
    )
    own = "gap" in row["silicon_data_source"].split(";")[0]
    who = "aiconfigurator" if own else "InferenceX"
    return {
        "family": f"{who} {'dense' if name in DENSE else 'MoE'} {engine}",
        "source": f"{'runs of its authors' if own else 'InferenceX results'}, as bundled with aiconfigurator 0.12",
        "engine": engine,
        "model": name,
        "tier": TIERS[row["system"]],
        "dtype": dtype,
        "kv_dtype": "fp8" if engine == "trtllm" and dtype in ("fp8", "nvfp4") else "",
        "tp": str(tensor),
        "pp": "1",
        "dp": "1",
        "prompt_tokens": row["isl"] if own else _drawn(row["isl"]),
        "output_tokens": row["osl"] if own else _drawn(row["osl"]),
        "max_num_seqs": streams[1],
        "gpu_memory_utilization": "",
        "requests": "" if own else str(10 * int(streams[1])),
        "scheduler_recv_interval": ""
        if own
        else _interval(TIERS[row["system"]], engine, dtype, tensor, int(streams[1])),
    }


def _drawn(tokens: str) -> str:
    """Mean and 95th percentile of InferenceX: lengths are drawn from 80 % of the named one to all of it."""
    return f"{tokens},{round(int(tokens) * 1.11)}"


def _interval(tier: str, engine: str, dtype: str, tensor: int, streams: int) -> str:
    """--scheduler-recv-interval in the start scripts of InferenceX: on Blackwell alone."""
    if engine != "sglang" or tier.startswith("h"):
        return ""
    return "30" if streams >= 16 and not (tensor == 4 and dtype == "fp8") else "10"


def sample(path: Path) -> dict[tuple[str, ...], list[dict[str, str]]]:
    """What identifies a result -> its rows of points.csv, TPOT and TTFT: the medians where it was measured again."""
    found: dict[tuple[str, ...], list[tuple[dict[str, str], float, float]]] = defaultdict(list)
    with path.open(encoding="utf-8") as lines:
        for row in csv.DictReader(lines):
            what = described(row)
            if what is not None:
                times = float(row["silicon_tpot_ms"]), float(row["silicon_ttft_ms"])
                found[tuple(what[name] for name in FIT)].append((what, *times))
    return {key: list(_rows(again)) for key, again in sorted(found.items())}


def _rows(again: list[tuple[dict[str, str], float, float]]) -> Iterator[dict[str, str]]:
    for place, metric in ((1, "TPOT ms"), (2, "TTFT ms")):
        middle = statistics.median(each[place] for each in again)
        yield {**again[0][0], "metric": metric, "measured": f"{middle:.4g}"}


def selected(every: Mapping[tuple[str, ...], list[dict[str, str]]], count: int) -> list[dict[str, str]]:
    """So many results of each model, tier, engine and dtype, drawn with a fixed seed."""
    groups: dict[tuple[str, ...], list[tuple[str, ...]]] = defaultdict(list)
    for key in every:
        groups[key[:4]].append(key)
    draw = random.Random(43)
    chosen = [key for keys in groups.values() for key in draw.sample(keys, min(count, len(keys)))]
    return [dict(point.row) for point in points_of([row for key in chosen for row in every[key]], skip=True)]


def errors(chosen: list[Point], values: list[tuple[float, float, float]]) -> str:
    """Median error, 90th percentile and the share inside the range."""
    off = sorted(abs(value / point.measured - 1.0) for point, (value, _, _) in zip(chosen, values, strict=True))
    inside = sum(low <= point.measured <= high for point, (_, low, high) in zip(chosen, values, strict=True))
    tail = off[int(0.9 * len(off))]
    return f"{len(off):,} | {statistics.median(off):.0%} | {tail:.0%} | {inside / len(off):.0%}"


def unseen(path: Path) -> str:
    """Errors on what points.csv does not have, by metric and engine."""
    efficiency = load_catalogue().efficiency
    known = {tuple(point.row[name] for name in FIT) for point in points()}
    rows = [row for key, both in sample(path).items() if key not in known for row in both]
    every = points_of(rows, skip=True)
    values = {point: point.answer(efficiency) for point in every}
    lines = ["| results outside the fit | number | median error | 90th percentile | inside the range |"]
    lines.append("| --- | ---: | ---: | ---: | ---: |")
    for metric in ("TPOT ms", "TTFT ms"):
        of_metric = [point for point in every if point.row["metric"] == metric]
        groups = {f"**{metric[:4]}, all**": of_metric}
        for engine in ("vllm", "trtllm", "sglang"):
            groups[f"{metric[:4]}, {engine}"] = [point for point in of_metric if point.row["engine"] == engine]
        for title, chosen in groups.items():
            if chosen:
                lines.append(f"| {title} | {errors(chosen, [values[point] for point in chosen])} |")
    return "\n".join(lines)


AIC = """
import csv, json, sys
from contextlib import redirect_stdout
from aiconfigurator.cli.api import cli_estimate
for row in json.load(sys.stdin):
    numbers = ("tp_size", "pp_size", "attention_dp_size", "moe_tp_size", "moe_ep_size", "batch_size")
    given = {name: int(row[name]) for name in numbers if row[name] not in ("", "0")}
    given |= {name: row[name] or None for name in ("gemm_quant_mode", "moe_quant_mode")}
    try:
        with redirect_stdout(sys.stderr):
            found = cli_estimate(
                model_path=row["model_path"], system_name=row["system"], mode="agg", backend_name=row["backend"],
                isl=int(row["isl"]), osl=int(row["osl"]), **given,
            )
        print(json.dumps([found.tpot, found.ttft]))
    except Exception as error:
        print(json.dumps(str(error)[:80]))
    sys.stdout.flush()
"""


def beside(path: Path, interpreter: str) -> str:
    """Errors of both on the results of points.csv that aiconfigurator answers."""
    efficiency = load_catalogue().efficiency
    first: dict[tuple[str, ...], dict[str, str]] = {}
    with path.open(encoding="utf-8") as lines:
        for row in csv.DictReader(lines):
            what = described(row)
            if what is not None:
                first.setdefault(tuple(what[name] for name in FIT), row)
    chosen = [point for point in points() if tuple(point.row[name] for name in FIT) in first]
    keys = list(dict.fromkeys(tuple(point.row[name] for name in FIT) for point in chosen))
    text = json.dumps([first[key] for key in keys])
    ran = subprocess.run([interpreter, "-c", AIC], input=text, capture_output=True, text=True, check=True)
    answers = dict(zip(keys, map(json.loads, ran.stdout.splitlines()), strict=True))
    lines = ["| results that both answer | number | inferdoc | aiconfigurator 0.12 |", "| --- | ---: | ---: | ---: |"]
    for place, metric in enumerate(("TPOT ms", "TTFT ms")):
        both = [
            (point, answers[tuple(point.row[name] for name in FIT)])
            for point in chosen
            if point.row["metric"] == metric and isinstance(answers[tuple(point.row[name] for name in FIT)], list)
        ]
        groups = {f"**{metric[:4]}, all**": both}
        for engine in ("vllm", "trtllm", "sglang"):
            groups[f"{metric[:4]}, {engine}"] = [pair for pair in both if pair[0].row["engine"] == engine]
        for title, pairs in groups.items():
            if pairs:
                ours = statistics.median(abs(each.answer(efficiency)[0] / each.measured - 1.0) for each, _ in pairs)
                theirs = statistics.median(abs(answer[place] / each.measured - 1.0) for each, answer in pairs)
                lines.append(f"| {title} | {len(pairs)} | {ours:.0%} | {theirs:.0%} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("csv", type=Path, help="silicon_sample.csv of aiconfigurator-core")
    parser.add_argument("--select", type=int, metavar="N", help="print rows for points.csv instead")
    parser.add_argument("--aic", metavar="PYTHON", help="interpreter that has aiconfigurator")
    options = parser.parse_args()
    if options.select:
        known = list(csv.DictReader(POINTS.read_text("utf-8").splitlines()))
        has = {(*(row[name] for name in FIT), row["metric"]) for row in known}
        every = sample(options.csv)
        again = dict.fromkeys(tuple(row[name] for name in FIT) for row in known)
        new = [row for key in again for row in every.get(key, [])] + selected(every, options.select)
        writer = csv.DictWriter(sys.stdout, COLUMNS, lineterminator="\n")
        for row in new:
            key = (*(row[name] for name in FIT), row["metric"])
            if key not in has:
                has.add(key)
                writer.writerow(row)
        return
    print(unseen(options.csv) if options.aic is None else beside(options.csv, options.aic))
    print()
    print(measured_line())


if __name__ == "__main__":
    main()

"""What `inferdoc size` predicts of public results it was not fitted to: leave one family of results out, fit the parts
of a step to the others, predict the family.

    python benchmarks/size_points.py          the table of docs/capacity.md, as Markdown on standard output
    python benchmarks/size_points.py --only 'dense FP4'   some of the families
    python benchmarks/size_points.py --fit    the shares fitted to all results, for collectors/efficiency.yaml

The results are those of fixtures/sizing/points.csv: answer tokens per second and GPU at saturation, and time per output
token (TPOT) and to the first token (TTFT) at a fixed number of requests. Each prediction is the answer of the command
with objectives of an hour, and with the layout, dtypes, lengths, engine and --concurrency (at saturation
--max-num-seqs) of the result. The fit moves each share around what kernels reach (PRIORS), and the two numbers of each
engine, so that the logarithms of the times agree; large misses count linearly. The priors were set with the results in
view, so that what is left out tests the fitted part alone; the last lines of the table are the priors without a fit.
Range: four of five of the misses on other families of the same cell: family, arithmetic, kind of hardware and engine.
"""

from __future__ import annotations

import argparse
import csv
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import numpy as np
from measured import measured_line
from scipy.optimize import least_squares

from inferdoc.catalogue.efficiency import Efficiency, StepSpread
from inferdoc.catalogue.load import load_catalogue
from inferdoc.sizing.answer import answered
from inferdoc.sizing.build import arithmetic_of, sized
from inferdoc.sizing.inputs import SizingInputs
from inferdoc.sizing.replica import Replica
from inferdoc.sizing.request import sizing_inputs

POINTS = Path(__file__).resolve().parents[1] / "fixtures" / "sizing" / "points.csv"
EVERY = ("hopper", "blackwell", "rtx-blackwell", "cdna3", "ampere", "ada", "other")
NVLINK = ("hopper", "blackwell", "rtx-blackwell", "ampere", "ada")
PRIORS: dict[str, tuple[tuple[str, ...], str, float, float]] = {
    "bf16 hopper": (("hopper", "blackwell"), "bf16", 0.60, 0.2),
    "fp8 hopper": (("hopper",), "fp8", 0.60, 0.15),
    "fp8 blackwell": (("blackwell",), "fp8", 0.45, 0.2),
    "fp4 blackwell": (("blackwell",), "fp4", 0.38, 0.2),
    "fp4 rtx": (("rtx-blackwell",), "fp4", 0.50, 0.2),
    "fp8 cdna3": (("cdna3",), "fp8", 0.30, 0.4),
    "experts hopper": (("hopper", "ampere", "ada", "cdna3", "other"), "experts", 0.60, 0.3),
    "experts blackwell": (("blackwell",), "experts", 0.50, 0.3),
    "experts rtx": (("rtx-blackwell",), "experts", 0.70, 0.3),
    "unpacked": (EVERY, "unpacked", 0.60, 0.5),
    "padding": (EVERY, "padding", 16.0, 0.7),
    "read hopper": (("hopper",), "read", 0.65, 0.25),
    "read blackwell": (("blackwell",), "read", 0.60, 0.25),
    "read cdna3": (("cdna3",), "read", 0.65, 0.15),
    "read experts": (EVERY, "read_experts", 1.0, 0.4),
    "cache": (EVERY, "cache", 0.75, 0.15),
    "attention": (EVERY, "attention", 0.55, 0.2),
    "latent": (EVERY, "latent", 0.35, 0.3),
    "layer": (NVLINK, "layer_us", 20.0, 0.5),
    "layer cdna3": (("cdna3",), "layer_us", 50.0, 0.4),
    "layer experts": (EVERY, "expert_layer_us", 40.0, 0.5),
    "collectives": (NVLINK, "collectives", 1.0, 0.2),
    "layer latent": (EVERY, "latent_layer_us", 20.0, 0.7),
    "collectives cdna3": (("cdna3",), "collectives", 1.5, 0.3),
    "front vllm": (("vllm",), "front_ms", 30.0, 0.7),
    "front sglang": (("sglang",), "front_ms", 20.0, 0.1),
    "front trtllm": (("trtllm",), "front_ms", 30.0, 0.7),
    "prompts vllm": (("vllm",), "prompt_layer_us", 150.0, 0.7),
    "prompts sglang": (("sglang",), "prompt_layer_us", 500.0, 0.4),
    "prompts trtllm": (("trtllm",), "prompt_layer_us", 150.0, 0.7),
}
"""What is fitted -> kinds of hardware or engines that share it, the share, its value in kernels (of an engine: 30 ms,
and 15 to 50 us for each of ten kernels of a layer), how far it may lie off (log). SGLang answers short prompts of an 8B
model after 27 ms in all (docs/capacity.md, other publishers), which bounds what passes outside of its engine."""
NOISE, FIRST_NOISE = 0.2, 0.4
"""Spread of the logarithm of a measured time about a perfect prediction: a step, the first token."""
ENOUGH, FAMILY_ENOUGH = 19, 9
"""Results of a cell, or of a family, that has a range of its own: two or one of them lie at each end or beyond."""
TAIL = 0.1
"""Of the misses, beyond each end of a range."""


@dataclass(frozen=True, eq=False)
class Point:
    """One result. streams: requests at once, of a rank at saturation."""

    row: Mapping[str, str]
    sizing: SizingInputs
    streams: int

    @property
    def throughput(self) -> bool:
        return self.row["metric"].startswith("tok")

    @property
    def first(self) -> bool:
        return self.row["metric"].startswith("TTFT")

    @property
    def measured(self) -> float:
        return float(self.row["measured"])

    @property
    def family(self) -> str:
        return "experts" if self.sizing.shape.experts else "dense"

    @property
    def near(self) -> str:
        return f"{self.family}-{arithmetic_of(self.sizing)}"

    @property
    def cells(self) -> tuple[str, str, str]:
        """From the narrowest to the family alone."""
        kind = self.sizing.efficiency.kind_of(self.sizing.tier_name)[0]
        return f"{self.near} {kind} {self.sizing.engine}", f"{self.near} {kind}", self.family

    def ratio(self, efficiency: Efficiency) -> float:
        """Measured over predicted time, of a step at the streams of the result or to the first token."""
        layout = self.sizing.layouts[0]
        replicas = sized(replace(self.sizing, efficiency=efficiency), layout, ("middle",)).replicas
        assert replicas is not None
        if self.first:
            return self.measured * 1e-3 / replicas["middle"].ttft(self.streams)
        itl = replicas["middle"].itl(self.streams)
        if not self.throughput:
            return self.measured * 1e-3 / itl
        rate = self.streams * layout.data / (itl * layout.gpus)
        return rate * self.of_run(replicas["middle"]) / self.measured

    def of_run(self, replica: Replica) -> float:
        """Throughput of a run of so many requests that all wait from the beginning, over that of one without end: equal
        requests come in waves, and the last wave is seldom full. 1 where their number is not known."""
        waves = int(self.row.get("requests") or 0) / replica.layout.data / self.streams
        if not waves:
            return 1.0
        full, last = divmod(waves, 1.0)
        rest = replica.itl(max(1.0, last * self.streams)) if last > 0.0 else 0.0
        return waves * replica.itl(self.streams) / (full * replica.itl(self.streams) + rest)

    def rests_on(self, efficiency: Efficiency) -> tuple[object, ...]:
        """The fitted numbers that its prediction follows from."""
        kind, engine = efficiency.kind_of(self.sizing.tier_name)[1], efficiency.engines[self.sizing.engine]
        shares = {share for _, share, *_ in PRIORS.values()}
        used = (value for share, value in msgspec.structs.asdict(kind).items() if share in shares)
        return (self, *used, engine.prompt_layer_us, engine.front_ms if self.first else 0.0)

    def answer(self, efficiency: Efficiency) -> tuple[float, float, float]:
        """Value, low and high of what the command prints, in the unit of the result."""
        answer = answered(replace(self.sizing, efficiency=efficiency))
        found = {each.name: each for part in answer.parts for each in part.numbers}
        name = "tokens" if self.throughput else "ttft_mean" if self.first else "itl_mean"
        number, unit = found[name], 1 / answer.gpus_per_replica if self.throughput else 1e3
        assert number.value is not None and number.high is not None
        if self.throughput:
            replicas = sized(self.sizing, self.sizing.layouts[0], ("middle",)).replicas
            assert replicas is not None
            unit *= self.of_run(replicas["middle"])
        return number.value * unit, number.low * unit, number.high * unit


def points() -> list[Point]:
    """The results, each with the request that describes it."""
    return points_of(csv.DictReader(POINTS.read_text("utf-8").splitlines()))


def points_of(rows: Iterable[Mapping[str, str]], *, skip: bool = False) -> list[Point]:
    """Rows in the columns of points.csv. skip: leave out those whose requests are more than the KV cache holds."""
    catalogue, found = load_catalogue(), []
    for row in rows:
        options: dict[str, object] = {key: row[key] or None for key in ("model", "tier", "dtype", "kv_dtype")}
        options["server"] = row["engine"]
        options |= {key: int(row[key]) for key in ("tp", "pp", "dp", "max_num_seqs")}
        closed, requests = not row["metric"].startswith("tok"), int(row.get("requests") or 0)
        if requests and not closed:
            options["max_num_seqs"] = min(int(row["max_num_seqs"]), -(-requests // int(row["dp"])))
        lengths = {key: row[key].partition(",") for key in ("prompt_tokens", "output_tokens")}
        options |= {key: f"{mean},{p95 or mean}" for key, (mean, _, p95) in lengths.items()}
        options["max_num_batched_tokens"] = max(8192, int(row["max_num_seqs"]))
        share = row["gpu_memory_utilization"]
        options |= {"ttft": "1h", "itl": "1h", "gpu_memory_utilization": float(share) if share else None}
        if closed:
            options |= {"concurrency": options["max_num_seqs"], "requests": requests or None}
            options |= {"scheduler_recv_interval": int(row.get("scheduler_recv_interval") or 1)}
        sizing = sizing_inputs(options, catalogue)
        replicas = sized(sizing, sizing.layouts[0]).replicas
        if skip and (replicas is None or replicas["middle"].room < int(row["max_num_seqs"])):
            continue
        assert replicas is not None
        streams = int(row["max_num_seqs"]) if closed else replicas["middle"].within(sizing.ttft, sizing.itl)[0]
        found.append(Point(row, sizing, streams))
    return found


def value_of(base: Efficiency, name: str) -> float:
    """The number that PRIORS has under a name."""
    kinds, share, *_ = PRIORS[name]
    section = base.engines if kinds[0] in base.engines else base.steps
    return float(getattr(section[kinds[0]], share))


def with_values(base: Efficiency, values: Mapping[str, float]) -> Efficiency:
    """The shares with fitted ones in their place."""
    changes: dict[str, dict[str, float]] = defaultdict(dict)
    for name, value in values.items():
        kinds, share, *_ = PRIORS[name]
        for kind in kinds:
            changes[kind][share] = value
    steps, engines = (
        {name: msgspec.structs.replace(known, **changes[name]) for name, known in section.items()}
        for section in (base.steps, base.engines)
    )
    return msgspec.structs.replace(base, steps=steps, engines=engines)


def fitted(base: Efficiency, chosen: Sequence[Point]) -> dict[str, float]:
    """The shares at which the steps of the results take as long as predicted, near those of kernels."""
    prior = np.log([PRIORS[name][2] for name in PRIORS])
    spread = np.array([PRIORS[name][3] for name in PRIORS])
    begin = np.log([value_of(base, name) for name in PRIORS])
    noise = np.array([FIRST_NOISE if point.first else NOISE for point in chosen])

    known: dict[tuple[object, ...], float] = {}

    def off(logs: np.ndarray) -> np.ndarray:
        efficiency = with_values(base, dict(zip(PRIORS, np.exp(logs), strict=True)))
        for point in chosen:
            key = point.rests_on(efficiency)
            if key not in known:
                known[key] = math.log(point.ratio(efficiency))
        misses = np.array([known[point.rests_on(efficiency)] for point in chosen]) / noise
        linear = np.sign(misses) * np.sqrt(2.0 * (np.sqrt(1.0 + misses**2) - 1.0))
        return np.concatenate([linear, (logs - prior) / spread])

    found = least_squares(off, begin, diff_step=1e-3, max_nfev=6).x
    return {name: float(value) for name, value in zip(PRIORS, np.exp(found), strict=True)}


def counted(base: Efficiency, chosen: Iterable[Point]) -> Efficiency:
    """The shares with the number of results that lie near."""
    near: dict[str, Counter[str]] = defaultdict(Counter)
    for point in chosen:
        if point.first:
            continue
        near[base.kind_of(point.sizing.tier_name)[0]][point.near] += 1
    steps = {kind: msgspec.structs.replace(known, points=dict(near[kind])) for kind, known in base.steps.items()}
    return msgspec.structs.replace(base, steps=steps)


def spreads(pairs: Iterable[tuple[Point, float]], wide: StepSpread) -> dict[str, StepSpread]:
    """Split conformal bounds of measured over predicted time by cell, where a cell has enough results; wide for a
    family that has too few."""
    found = {"unmeasured": wide, "dense": wide, "experts": wide}
    ratios: dict[str, list[float]] = defaultdict(list)
    for point, ratio in pairs:
        for cell in point.cells:
            ratios[cell].append(ratio)
    for cell, unsorted in sorted(ratios.items()):
        own = sorted(unsorted)
        low, high = math.floor((len(own) + 1) * TAIL), math.ceil((len(own) + 1) * (1.0 - TAIL))
        if len(own) >= (FAMILY_ENOUGH if cell in found else ENOUGH):
            found[cell] = StepSpread(min(own[low - 1], 1.0), max(own[high - 1], 1.0))
    return found


def with_spreads(base: Efficiency, pairs: Sequence[tuple[Point, float]]) -> Efficiency:
    """The shares with the ranges of these misses."""
    wide = base.spread["unmeasured"]
    step, first = (spreads([pair for pair in pairs if pair[0].first is kind], wide) for kind in (False, True))
    return msgspec.structs.replace(base, spread=step, first_spread=first)


@dataclass(frozen=True)
class Prediction:
    """Of one result by the others."""

    point: Point
    value: float
    low: float
    high: float

    @property
    def error(self) -> float:
        return self.value / self.point.measured - 1.0

    @property
    def within(self) -> bool:
        return self.low <= self.point.measured <= self.high


def left_out(
    base: Efficiency, every: Sequence[Point], only: Sequence[str] = ()
) -> tuple[list[Prediction], list[tuple[Point, float]]]:
    """Each family predicted from the others, and its misses. only: some of the families; the misses of the rest are
    then those of the fit that leaves the last of them out."""
    families = sorted({point.row["family"] for point in every if not only or point.row["family"] in only})
    fits = {}
    for family in families:
        others = [point for point in every if point.row["family"] != family]
        fits[family] = counted(with_values(base, fitted(base, others)), others)
    ratios = [(point, point.ratio(fits.get(point.row["family"], fits[families[-1]]))) for point in every]
    found = []
    for family in families:
        known = [(point, ratio) for point, ratio in ratios if point.row["family"] != family]
        efficiency = with_spreads(fits[family], known)
        own = [point for point in every if point.row["family"] == family]
        found += [Prediction(point, *point.answer(efficiency)) for point in own]
    return found, ratios


def shown(value: float) -> str:
    """A number with the digits that count."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def table(rows: Sequence[Prediction], plain: Sequence[Prediction]) -> str:
    """By family, then all, then the shares of kernels without a fit (plain), then the worst ten."""
    lines = [
        "| results | number | median error | 90th percentile | inside the range |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    groups = {f"{row.point.row['family']}, {row.point.row['metric']}": [] for row in rows}  # type: dict[str, list[Prediction]]
    for row in rows:
        groups[f"{row.point.row['family']}, {row.point.row['metric']}"].append(row)
    metrics = {"tok": "tokens/s", "TPOT": "TPOT", "TTFT": "TTFT"}
    for start, title in metrics.items():
        groups[f"**all, {title}**"] = [row for row in rows if row.point.row["metric"].startswith(start)]
    for start, title in metrics.items():
        of_metric = [row for row in plain if row.point.row["metric"].startswith(start)]
        groups[f"shares of kernels, no fit, {title}"] = of_metric
    for title, chosen in groups.items():
        if not chosen:
            continue
        errors = [abs(row.error) for row in chosen]
        inside = sum(row.within for row in chosen)
        lines.append(
            f"| {title} | {len(chosen)} | {np.median(errors):.0%} | {np.quantile(errors, 0.9):.0%} "
            f"| {inside} ({inside / len(chosen):.0%}) |"
        )
    for first, title in ((False, "tokens/s and TPOT"), (True, "TTFT")):
        lines += ["", f"| worst ten, {title} | measured | predicted | range |", "| --- | ---: | ---: | ---: |"]
        lines += _worst([row for row in rows if row.point.first is first])
    return "\n".join(lines)


def _worst(rows: Sequence[Prediction]) -> Iterator[str]:
    """The ten that are off most."""
    for row in sorted(rows, key=lambda each: -abs(math.log(each.value / each.point.measured)))[:10]:
        of = row.point.row
        layout, lengths = (
            row.point.sizing.layouts[0],
            "/".join(of[key].partition(",")[0] for key in ("prompt_tokens", "output_tokens")),
        )
        what = f"{of['family']}: {of['model']} {of['dtype']}, {of['tier']} {layout}, {lengths}"
        what += "" if row.point.throughput else f", {of['max_num_seqs']} requests"
        unit = "tokens/s" if row.point.throughput else "ms"
        measured, value, low, high = (shown(each) for each in (row.point.measured, row.value, row.low, row.high))
        yield f"| {what} | {measured} {unit} | {value} | {low} to {high} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fit", action="store_true", help="print the shares fitted to all results")
    parser.add_argument("--only", action="append", default=[], metavar="FAMILY", help="predict some families alone")
    options = parser.parse_args()
    base, every = load_catalogue().efficiency, points()
    rows, ratios = left_out(base, every, options.only)
    if options.fit:
        values = fitted(base, every)
        for name, (kinds, share, prior, _) in PRIORS.items():
            print(f"{share}: {values[name]:.4g}  # {', '.join(kinds)}; kernels {prior:g}")
        for kind, known in counted(base, every).steps.items():
            print(f"{kind} points: {known.points}")
        ranges = with_spreads(base, ratios)
        for section, cells in (("spread", ranges.spread), ("first_spread", ranges.first_spread)):
            print(f"{section}:")
            for cell, spread in cells.items():
                print(f"  {cell}: {{low: {spread.low:.3g}, high: {spread.high:.3g}}}")
        return
    priors = with_values(base, {name: prior for name, (_, _, prior, _) in PRIORS.items()})
    plain = [Prediction(point, *point.answer(priors)) for point in every]
    print(table(rows, plain))
    print()
    print(measured_line())


if __name__ == "__main__":
    main()

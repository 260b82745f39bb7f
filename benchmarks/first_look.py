"""One sick box, one address, no past: what is said at first look, of faults and controls drawn at random.

    python benchmarks/first_look.py --seed 81000 --draws 2
    python benchmarks/first_look.py --seed 81000 --only slow-gpu -v

Each draw is simulated (another fleet, load, model and tier every time); then the page of one engine that the fault
struck is scraped every five seconds for a minute, beginning three minutes after the onset, and nothing is known from
before but what the page holds. Counted are the first answer and the one after a minute: the cause named (or one that is
as right), the breach (users are hurt, no cause), another cause, unknown, healthy. Of controls, how many stay without
a finding. A draw that has not hurt anybody at that engine by then (no mean latency is up by 30 %, no work is lost; the
scoreboard's own measure) stands in a row of its own: there is nothing to tell yet.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from looks import catalogue
from measured import measured_line
from msgspec import structs
from scoreboard_harm import HARM, LEAST_LOSS, LOSS, REFUSES, growth, refused_share

from inferdoc import diagnose
from inferdoc.collect.discovery import Target, make_target
from inferdoc.collect.samples import Page
from inferdoc.collect.scrape import ScrapeResult
from inferdoc.judging.api import Options
from inferdoc.judging.impact import UNEXPLAINED
from inferdoc.judging.model import Diagnosis
from inferdoc.judging.references.lifetime import Lifetime
from inferdoc.pages.diagnosis import Pace, scrape_live
from inferdoc.simulate.scenario import Scenario
from inferdoc.source.store_source import StoreSource
from inferdoc.store import Store
from inferdoc_dev.incidents import CAUSES, CONTROLS
from inferdoc_dev.incidents.generator import draw
from inferdoc_dev.incidents.recording import record

ON_ONE_PAGE = (
    "admission-shedding", "batch-cap-reached", "client-retry-storm", "cpu-starvation", "decode-batch-saturation",
    "demand-beyond-capacity", "engine-hung", "fcfs-head-of-line", "frontend-bottleneck", "gpu-clock-throttle",
    "grammar-compile-stall", "kv-capacity-bound", "kv-handshake-failure", "kv-lease-expiry", "kv-oversized-request",
    "kv-preemption-thrash", "long-prefill-interference", "lora-thrash", "multimodal-encoder-bound",
    "prefill-compute-bound", "prefix-eviction-cascade", "prefix-unstable-prompt", "prompt-growth", "runaway-generation",
    "slow-gpu", "spec-acceptance-decay",
)  # fmt: skip
"""Causes that the page of one engine can show at all."""
LATE_SECONDS, LOOK_SECONDS, EVERY = 180.0, 60.0, 5.0
WORDS = ("named", "breach", "other", "unknown", "healthy")
CONTROL_AT = 900.0
"""When a control is looked at: seconds since it began."""


@dataclass(frozen=True)
class Engine:
    """One that the fault strikes: its pages from three minutes after it did, and whether anybody is hurt by then."""

    pages: list[tuple[int, Page]]
    hurt: bool


def engines(scenario: Scenario, struck: float) -> Iterator[Engine]:
    """Each that the fault strikes."""
    seen = struck + LATE_SECONDS
    scenario = structs.replace(scenario, scrape=EVERY, duration=seen + LOOK_SECONDS + 2 * EVERY)
    for target in record(scenario).targets:
        if target.labels["job"] == "vllm" and (
            not scenario.expect.pods or target.labels["pod"] in scenario.expect.pods
        ):
            began, since = 1000 * (scenario.start + struck), 1000 * (scenario.start + seen)
            pods, cause = {target.labels["pod"]}, scenario.expect.cause
            lost = refused_share([target], pods, since) >= LEAST_LOSS if cause == REFUSES else cause in LOSS
            hurt = lost or growth([target], pods, began, since_ms=since) >= HARM
            yield Engine([one for one in target.pages if one[0] >= since], hurt)


def answers(scraped: list[tuple[int, Page]]) -> list[Diagnosis]:
    """The first answer and the last of a look at these pages."""
    coming, told = iter(scraped), list[Diagnosis]()

    def scrape(target: Target) -> ScrapeResult:
        at, page = next(coming)
        return ScrapeResult(target, at, page, None, 0.01)

    with tempfile.TemporaryDirectory(prefix="inferdoc-first-look-") as folder:
        path = Path(folder) / "look.db"

        def judge(lifetime: Lifetime) -> Diagnosis:
            source = StoreSource(path)
            told.append(diagnose(source, options=Options(catalogue=catalogue(), baseline=lifetime)))
            source.close()
            return told[-1]

        pace = Pace(EVERY, LOOK_SECONDS, clock=lambda: 0.0, sleep=lambda wait: None)
        with Store.open(path, "w") as store:
            scrape_live([make_target("http://vllm:8000")], store, scrape, judge, pace, lambda line: None)
    return told


def grade(answer: Diagnosis, right: set[str]) -> str:
    """In one word."""
    told = {name for finding in answer.findings for name in (finding.id, *finding.effects)}
    if not told:
        return answer.verdict
    return "named" if told & right else "breach" if UNEXPLAINED in told else "other"


def main() -> None:
    """Draw, look, count."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=81000)
    parser.add_argument("--draws", type=int, default=1, help="of each cause and control")
    parser.add_argument("--only", action="append", help="one cause or control")
    parser.add_argument("-v", "--verbose", action="store_true")
    asked = parser.parse_args()
    kinds = ("fault", "fault that hurts nobody yet", "control")
    counted: dict[str, list[Counter[str]]] = {kind: [Counter(), Counter()] for kind in kinds}
    faults = [(name, False) for name in ON_ONE_PAGE]
    for name, control in [*faults, *((name, True) for name in CONTROLS)]:
        if asked.only and name not in asked.only:
            continue
        for number in range(asked.draws):
            scenario = draw(name, asked.seed + number, CONTROLS if control else CAUSES, control)
            struck = CONTROL_AT if control else scenario.expect.onset or 720.0
            long_enough = (each for each in engines(scenario, struck) if len(each.pages) > LOOK_SECONDS / EVERY)
            engine = next(long_enough, None)
            if engine is None:
                print(f"{name} {asked.seed + number}: no page to look at", file=sys.stderr)
                continue
            told = answers(engine.pages)
            grades = [grade(answer, {name, *scenario.expect.accepts}) for answer in told]
            kind = "control" if control else "fault" if engine.hurt else "fault that hurts nobody yet"
            for count, word in zip(counted[kind], grades, strict=True):
                count[word] += 1
            if asked.verbose or (control and any(answer.findings for answer in told)):
                ids = [sorted(f"{f.id} ({f.certainty})" for f in answer.findings) for answer in told]
                print(f"{name} {asked.seed + number} ({kind}): {grades} {ids}", file=sys.stderr, flush=True)
    print("| drawn | look | " + " | ".join(WORDS) + " |\n| --- | --- |" + " --- |" * len(WORDS))
    for kind, both in counted.items():
        for count, when in zip(both, ("first", "after 60 s"), strict=True):
            print(f"| {kind} | {when} | " + " | ".join(str(count[word]) for word in WORDS) + " |")
    print(f"\n{measured_line()}")


if __name__ == "__main__":
    main()

"""What the rules cost a Prometheus: series they add, and CPU of their evaluation, for a fleet of so many pods.

    python benchmarks/rule_cost.py --pods 64 --minutes 9 --past 7 --slowest 20
    python benchmarks/rule_cost.py --rules rules   the set that `inferdoc alerts build --set pages --out rules` wrote
    python benchmarks/rule_cost.py --rules before after    two sets side by side
    python benchmarks/rule_cost.py --pods 2 --minutes 0.1 --hasten 30    shorter intervals, for a trial

A simulated fleet is served on loopback and scraped by servers of one kind, one for each rule set and one without; the
CPU of the rules is the difference from that one, over as many whole rounds of the group that is judged least often as
the minutes take: of a part of a round it would count all or nothing. Rules that read hours of their own record
have little to read in the first minutes: `--past 7` back-fills that many hours of what they read, near its last value,
and starts the server anew before it measures. Needs `prometheus` and `promtool` on the PATH. A Prometheus is one
process, whose own page shows all of its CPU.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import requests
import yaml
from measured import measured_line

from inferdoc.catalogue.content import content_root
from inferdoc.generate.pack import CAUSE_INTERVAL, RECORDING, RULES, USUAL_INTERVAL
from inferdoc.simulate.output import Live
from inferdoc.simulate.scenario_files import adapted, load_scenario
from inferdoc.times import length_of
from tests import prometheus_server

SCRAPE_SECONDS, PAUSE_SECONDS = 15.0, 0.5
RECORDED_SECONDS = int(length_of(CAUSE_INTERVAL))
SETTLING_ROUNDS = 2.5
"""Until every signal has been recorded: its group is judged once an interval, and rates need two scrapes before."""
RECORDED = '{__name__=~".+:inferdoc_.+"}'
INTERVAL = re.compile(r"^(  interval: )(\S+)$", re.MULTILINE)


def main() -> None:
    """Print one line per figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pods", type=int, default=64)
    generated = content_root() / "alerts" / "generated"
    parser.add_argument("--rules", type=Path, nargs="+", default=[generated], help="folders of sets, side by side")
    parser.add_argument("--minutes", type=float, default=4.5)
    parser.add_argument("--scenario", default="control-steady")
    parser.add_argument("--past", type=float, default=0.0, help="hours of the recorded series, back-filled")
    parser.add_argument("--slowest", type=int, default=0, help="rules to show, those that take longest first")
    parser.add_argument("--most", type=int, default=0, help="records to show, those of most series first")
    parser.add_argument("--hasten", type=float, default=1.0, help="divide all intervals by this")
    given = parser.parse_args()
    scenario = adapted(load_scenario(given.scenario), given.pods, None, None, None)
    live = Live(scenario, 0, 1.0)
    live.start()
    with ExitStack() as open_, tempfile.TemporaryDirectory(prefix="inferdoc-") as temporary:
        open_.callback(live.stop)
        folders = [Path(temporary) / str(number) for number in range(1 + len(given.rules))]
        sets = [None, *given.rules]
        rules = [hastened(one, folder, given.hasten) for one, folder in zip(sets, folders, strict=True)]
        settling, scrape = SETTLING_ROUNDS * RECORDED_SECONDS / given.hasten, SCRAPE_SECONDS / given.hasten
        if given.past:
            with servers(folders[1:], live, rules[1:], scrape) as young:
                move(live, settling)
                past = [
                    values(address, read_over_hours(files)) for address, files in zip(young, rules[1:], strict=True)
                ]
            for folder, series in zip(folders[1:], past, strict=True):
                back_fill(folder / "data", series, given.past)
        bare, *ruled = open_.enter_context(servers(folders, live, rules, scrape))
        move(live, settling)
        before, began = [cpu_seconds(address) for address in (bare, *ruled)], time.monotonic()
        round_ = length_of(USUAL_INTERVAL) / given.hasten
        move(live, math.ceil(given.minutes * 60 / round_) * round_)
        minutes = (time.monotonic() - began) / 60
        after = [cpu_seconds(address) for address in (bare, *ruled)]
        scraping, *spent = [(now - then) / minutes for now, then in zip(after, before, strict=True)]
        raw = asked(bare, 'count({__name__!=""})')
        print(f"raw series       {raw:>10,.0f}")
        for folder, address, each in zip(given.rules, ruled, spent, strict=True):
            if len(ruled) > 1:
                print(f"\n{folder}")
            show(address, raw, each - scraping, scraping, given)
    print(f"\n{measured_line()}")


def show(address: str, raw: float, of_rules: float, of_scraping: float, given: argparse.Namespace) -> None:
    """Print the figures of one rule set. raw: series; of_rules, of_scraping: CPU seconds a minute."""
    recorded = asked(address, f"count({RECORDED})")
    print(f"recorded series  {recorded:>10,.0f}   {recorded / raw:.1%} of the raw ones")
    print(f"CPU of the rules {of_rules:>10.2f} s a minute; of scraping {of_scraping:.2f}")
    judged = groups(address)
    for group in sorted(judged, key=lambda each: -a_minute(each, each)):
        print(
            f"  {group['name']:<22} every {group['interval']:>4.0f} s  {group['evaluationTime']:.3f} s, "
            f"{a_minute(group, group):.3f} s a minute"
        )
    dear = sorted(((a_minute(group, rule), rule) for group in judged for rule in group["rules"]), key=lambda r: -r[0])
    for seconds, rule in dear[: given.slowest]:
        print(f"    {seconds * 1000:6.1f} ms a minute  {rule['name']}")
    if given.most:
        for name, count in counted(address, f"topk({given.most}, count by (__name__) ({RECORDED}))"):
            print(f"    {count:6.0f} series  {name}")


def hastened(rules: Path | None, folder: Path, factor: float) -> list[Path]:
    """A copy of the files of a rule set whose groups are evaluated that many times as often; none of no set."""
    folder.mkdir()
    copies = []
    for source in (rules / RECORDING, rules / RULES) if rules else ():
        text = INTERVAL.sub(lambda found: found[1] + duration(length_of(found[2]) / factor), source.read_text("utf-8"))
        copies.append(folder / source.name)
        copies[-1].write_text(text, "utf-8")
    return copies


def duration(seconds: float) -> str:
    """As Prometheus writes it."""
    return f"{round(1000 * seconds)}ms"


@contextmanager
def servers(folders: list[Path], live: Live, rules: list[list[Path]], scrape: float) -> Iterator[list[str]]:
    """As many servers at once; yields their addresses."""
    with ExitStack() as open_:
        yield [
            open_.enter_context(server(folder, live, files, scrape))
            for folder, files in zip(folders, rules, strict=True)
        ]


@contextmanager
def server(folder: Path, live: Live, rules: list[Path], scrape: float) -> Iterator[str]:
    """A Prometheus that scrapes the fleet and evaluates these rule files; yields its address. scrape: interval, s."""
    config = {
        "global": {"scrape_interval": duration(scrape), "scrape_timeout": duration(min(scrape, 10.0))},
        "rule_files": [str(path) for path in rules],
        "scrape_configs": live.scrape_jobs(),
    }
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config), "utf-8")
    address = f"127.0.0.1:{prometheus_server.free_port()}"
    command = [
        "prometheus", f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address={address}", "--log.level=error",
    ]  # fmt: skip
    with prometheus_server.started(command, f"http://{address}/-/ready", folder / "log") as is_ready:
        if not is_ready:
            raise SystemExit(f"prometheus did not start: {(folder / 'log').read_text('utf-8')[-2000:]}")
        yield f"http://{address}"


def read_over_hours(rules: list[Path]) -> list[str]:
    """The records that rules read over hours."""
    text = "".join(path.read_text("utf-8") for path in rules)
    return sorted(set(re.findall(r"(\w+:inferdoc_\w+:\w+)(?:\{[^}]*\})?\[\d+h(?::\w+)?\]", text)))


def values(address: str, names: list[str]) -> dict[str, list[tuple[str, float]]]:
    """Labels and value of every series of these names now."""
    told = {}
    for name in names:
        told[name] = [
            (",".join(f"{key}={json.dumps(text)}" for key, text in one["metric"].items() if key != "__name__"), value)
            for one in queried(address, name)
            if math.isfinite(value := float(one["value"][1]))
        ]
    return told


def back_fill(data: Path, series: dict[str, list[tuple[str, float]]], hours: float) -> None:
    """Samples at the interval of the records up to a quarter of an hour ago, within a tenth of the value, as blocks."""
    end = int(time.time()) - 900
    times = range(end - int(hours * 3600), end, RECORDED_SECONDS)
    wander = random.Random(0)
    text = data.with_suffix(".om")
    with text.open("w", encoding="utf-8") as out:
        for name, those in series.items():
            out.write(f"# TYPE {name} gauge\n")
            for labels, value in those:
                out.writelines(f"{name}{{{labels}}} {value * wander.uniform(0.9, 1.1):.6g} {at}\n" for at in times)
        out.write("# EOF\n")
    fill = ["promtool", "tsdb", "create-blocks-from", "openmetrics", "--quiet", str(text), str(data)]
    subprocess.run(fill, check=True, stdout=subprocess.DEVNULL)
    text.unlink()


def a_minute(group: dict[str, Any], timed: dict[str, Any]) -> float:
    """Seconds a minute that a group, or a rule of it, took when it was evaluated last."""
    return float(timed["evaluationTime"]) * 60 / float(group["interval"])


def move(live: Live, seconds: float) -> None:
    """Let the fleet go on for so long."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        live.step()
        time.sleep(PAUSE_SECONDS)


def cpu_seconds(address: str) -> float:
    """CPU that the server has used since it began, by its own page."""
    lines = requests.get(f"{address}/metrics", timeout=30).text.splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith("process_cpu_seconds_total "))


def queried(address: str, query: str) -> list[dict[str, Any]]:
    """The series that a query gives."""
    answer = requests.get(f"{address}/api/v1/query", params={"query": query}, timeout=60).json()
    found: list[dict[str, Any]] = answer["data"]["result"]
    return found


def asked(address: str, query: str) -> float:
    """The one number that a query gives."""
    return float(queried(address, query)[0]["value"][1])


def counted(address: str, query: str) -> list[tuple[str, float]]:
    """The numbers that a query gives by the name of a metric, the largest first."""
    counts = [(one["metric"]["__name__"], float(one["value"][1])) for one in queried(address, query)]
    return sorted(counts, key=lambda each: -each[1])


def groups(address: str) -> list[dict[str, Any]]:
    """The rule groups as the server tells of them."""
    told: list[dict[str, Any]] = requests.get(f"{address}/api/v1/rules", timeout=60).json()["data"]["groups"]
    return told


if __name__ == "__main__":
    main()

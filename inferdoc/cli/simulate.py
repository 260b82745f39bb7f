"""Simulated fleets: `inferdoc simulate`, `demo`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from inferdoc.cli import messages, options
from inferdoc.cli.messages import Progress
from inferdoc.cli.recipes import CAUSES, SCENARIOS
from inferdoc.cli.streams import exact, show
from inferdoc.escaping import one_line, page

if TYPE_CHECKING:
    from inferdoc.judging.model import Diagnosis


@click.command("simulate", short_help="Simulate a fleet, healthy or with a fault, and write its metrics.")
@click.option(
    "--scenario",
    "name",
    metavar="FILE|ID",
    shell_complete=SCENARIOS,
    help="Scenario file, or the id of a built-in scenario.",
)
@click.option("--list", "listed", is_flag=True, help="List of built-in scenarios.")
@click.option("--pods", type=click.IntRange(1, 4096), metavar="N", help="Number of pods of the first pool.")
@click.option("--seed", type=click.IntRange(0), metavar="S", help="Random seed.")
@click.option("--duration", metavar="D", help="Length, for example 30m (default: from the scenario).")
@click.option("--vllm", "version", metavar="VERSION", help="Metric names of an older vLLM, for example 0.11 or 0.15.")
@click.option("--out", metavar="FILE", help="Output file, OpenMetrics text; .gz compresses. Default: standard output.")
@click.option("--store", metavar="PATH", help="Embedded store to write instead.")
@click.option(
    "--live",
    is_flag=True,
    help="Server for the /metrics of every target on loopback; prints the scrape configuration.",
)
@click.option("--port", type=click.IntRange(1024, 60000), default=18000, help="First port of --live.")
@click.option("--speed", type=click.FloatRange(0.1, 1000), default=1.0, help="Speed factor. Requires --live.")
def simulate(**params: Any) -> int:
    """Simulate a fleet from the mechanisms up: schedulers, KV caches, links, routers and clients.

    The output can be imported (inferdoc import) or back-filled into Prometheus (promtool tsdb create-blocks-from
    openmetrics).
    """
    from inferdoc.errors import InferdocError
    from inferdoc.simulate.scenario_files import adapted, load_scenario, scenarios

    overlays = options.catalogue(options.configuration()).overlays
    name, out, store = params["name"], params["out"], params["store"]
    if params["listed"]:
        for scenario in scenarios(overlays):
            click.echo(one_line(f"{scenario.id:<34} {scenario.title}"))
        return 0
    if name is None:
        raise InferdocError("--scenario is required; run `inferdoc simulate --list` for the ids")
    if out and store:
        raise InferdocError("--out and --store are mutually exclusive")
    scenario = adapted(
        load_scenario(name, overlays), params["pods"], params["seed"], params["duration"], params["version"]
    )
    if params["live"]:
        from inferdoc.simulate.output import serve

        serve(scenario, params["port"], params["speed"], messages.note, lambda text: click.echo(text, nl=False))
        return 0
    from inferdoc.simulate.output import write_file, write_openmetrics, write_store
    from inferdoc.simulate.scrape import simulate

    shown = Progress(f"{scenario.id}, {len(scenario.pools)} pools, {scenario.duration / 60:.0f} min")
    targets = simulate(scenario, shown)
    if store:
        from inferdoc.store import Store

        with Store.open(options.store_path(options.configuration(), store), "w") as opened:
            samples, place = write_store(targets, opened), store
    elif out:
        samples, place = write_file(targets, Path(out)), out
    else:
        samples, place = write_openmetrics(targets, exact()), "standard output"
    messages.note(f"{place}: {samples} samples of {len(targets)} targets")
    return 0


@click.command("demo", short_help="Inject a fault into a simulated fleet and diagnose it.")
@click.option(
    "--fault",
    metavar="ID",
    shell_complete=CAUSES,
    help="Fault to inject (default: one on a fleet of two hardware tiers).",
)
@click.option("--recording", metavar="NAME", help="Recording to replay, by file or by cause. Requires a checkout.")
@click.option("--list", "listed", is_flag=True, help="List faults and recordings.")
@options.output("text", "json", "markdown", "html")
@click.option("-v", "--verbose", count=True, show_default=False, help="More evidence: -v, -vv.")
def demo(fault: str | None, recording: str | None, listed: bool, output: str, verbose: int) -> int:
    """Inject a fault into a simulated fleet, diagnose it, and print the next steps.

    Exit codes: 0 the fault is the first finding (or is named beside a correct one, or metrics cannot show it), 1 it is
    not, 2 usage. Only the diagnosis goes to standard output, as with `inferdoc diagnose`; with text, the next steps
    follow it.
    """
    if fault and recording:
        raise click.UsageError("--fault and --recording are mutually exclusive")
    if listed:
        return _list()
    if recording:
        return _recording(recording, output, verbose)
    from inferdoc.report.demo import FIRST, find, fleet, how_to_read, next_commands, run_demo, what_was_done

    catalogue = options.catalogue(options.configuration())
    scenario = find(fault or FIRST, catalogue)
    demo = run_demo(scenario, catalogue, Progress(f"{scenario.id}: {fleet(scenario)}"))
    done, after = what_was_done(demo), next_commands(demo)
    if output == "text":
        done = [*done, "", *how_to_read(demo.answer)]
    _show(demo.answer, output, verbose, [*done, "", *after])
    return 0 if demo.good else 1


def _show(answer: Diagnosis, output: str, verbose: int, after: list[str]) -> None:
    """The diagnosis on standard output; the lines after it there too with text, else on stderr."""
    from inferdoc.report import render

    colour = options.coloured() and output == "text"
    show(render(answer, output, detail=verbose, colour=colour), coloured=colour)
    click.echo(page(["", *after] if output == "text" else after), err=output != "text")


def _list() -> int:
    from inferdoc.report.demo import listing, recorded

    lines = listing(options.catalogue(options.configuration()))
    if of_checkout := [f"{name:<37} {words}" for name, words in recorded()]:
        lines += ["", f"{'recording (--recording)':<37} what was done", *of_checkout]
    click.echo(page(lines))
    return 0


def _recording(name: str, output: str, verbose: int) -> int:
    from inferdoc.report.demo import cause_of, replay_recording

    cause = cause_of(name)
    answer = replay_recording(name, options.catalogue(options.configuration()))
    first = answer.findings[0].id if answer.findings else None
    right = first == cause if cause else answer.verdict == "healthy"
    if cause is None:
        words = "a control: nothing was done to it"
    else:
        words = f"recorded under {cause}; the first finding is {first or 'none'}"
    lines = [f"what was done  {words}", "", "next steps"]
    lines += [f"  inferdoc runbook {cause}", f"  inferdoc recipes show {cause}"] if cause else []
    _show(answer, output, verbose, [*lines, "  inferdoc demo --list"])
    return 0 if right else 1

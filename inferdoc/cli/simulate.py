"""`inferdoc simulate`."""

from __future__ import annotations

from pathlib import Path

import click

from inferdoc.cli import messages, options
from inferdoc.cli.completion import SCENARIOS
from inferdoc.cli.progress import Progress
from inferdoc.cli.streams import exact
from inferdoc.escaping import one_line


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
@click.option(
    "--port", type=click.IntRange(1024, 60000), default=18000, show_default=True, help="First port of --live."
)
@click.option(
    "--speed", type=click.FloatRange(0.1, 1000), default=1.0, show_default=True, help="Speed factor. Requires --live."
)
def command(
    name: str | None,
    listed: bool,
    pods: int | None,
    seed: int | None,
    duration: str | None,
    version: str | None,
    out: str | None,
    store: str | None,
    live: bool,
    port: int,
    speed: float,
) -> int:
    """Simulate a fleet from the mechanisms up: schedulers, KV caches, links, routers and clients.

    The output can be imported (inferdoc import) or back-filled into Prometheus (promtool tsdb create-blocks-from
    openmetrics).
    """
    from inferdoc.errors import InferdocError
    from inferdoc.simulate.scenario_files import adapted, load_scenario, scenarios

    overlays = options.catalogue(options.configuration()).overlays
    if listed:
        for scenario in scenarios(overlays):
            click.echo(one_line(f"{scenario.id:<34} {scenario.title}"))
        return 0
    if name is None:
        raise InferdocError("--scenario is required; run `inferdoc simulate --list` for the ids")
    if out and store:
        raise InferdocError("--out and --store are mutually exclusive")
    scenario = adapted(load_scenario(name, overlays), pods, seed, duration, version)
    if live:
        from inferdoc.simulate.output import serve

        serve(scenario, port, speed, messages.note, lambda text: click.echo(text, nl=False))
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

"""`inferdoc diagnose`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from inferdoc.cli import messages, options
from inferdoc.cli.streams import show, terminal
from inferdoc.errors import ExitCode

if TYPE_CHECKING:
    from inferdoc.catalogue.load import Catalogue
    from inferdoc.config import Config
    from inferdoc.source.recognise import Recognised
    from inferdoc.watch.rounds import Watch

WATCH_SECONDS = 30.0


@click.command("diagnose", short_help="Find the cause, its onset, its pods and the next steps.")
@options.source_options
@click.option("--since", metavar="DURATION", help="How far back from --until: 90s, 15m, 1h, 2d (default 1h).")
@options.FROM
@click.option(
    "--around",
    metavar="TIME",
    help="Center of a one-hour window, such as the time of an alert.",
)
@options.window_end
@click.option(
    "--baseline",
    metavar="TIME..TIME|NAME",
    help="Time range or stored baseline to compare with (default: the history before the window).",
)
@options.part_of_fleet
@options.output("text", "json", "markdown", "html")
@click.option(
    "--fail-on",
    type=click.Choice(["critical", "warning", "info"]),
    default="info",
    show_default=False,
    help="Lowest severity with exit code 1 (default: any).",
)
@click.option(
    "-v", "--verbose", count=True, show_default=False, help="Every finding with evidence and changes; -vv: all details."
)
@options.named_sources("60s")
@options.engine_options
@click.option("--deep", is_flag=True, help="Full read of all pods (default: large fleets are scanned first).")
@click.option("--predict", is_flag=True, help="Simulation of the steps that name replicas or a setting; takes minutes.")
@click.option(
    "--kubernetes", is_flag=True, help="Terminations, events and last log lines of the affected pods, from kubectl."
)
@click.option("--probe", is_flag=True, help="One request of one token to each affected engine, as with `probe`.")
@click.option("--watch", is_flag=True, help="Repetition every 30 s until q; prints only changes if not on a terminal.")
def command(**params: Any) -> int:
    """Diagnose a time window of a source.

    URL or PATH is one of: a server with the Prometheus API, a store, the URL of an engine or a router
    (http://vllm:8000), a saved /metrics file (curl http://vllm:8000/metrics > vllm-0@$(date +%s).prom), or a folder of
    such files. The type is detected. A live URL is scraped for the time in --for and compared with its counters since
    process start; --store keeps the samples.

    Exit codes: 0 healthy, 1 a finding at or above --fail-on, 2 usage, 3 unknown (not enough data), 4 source not
    readable.
    """
    from inferdoc.audit.persistent import diagnosis
    from inferdoc.audit.request import audited_beside
    from inferdoc.cluster.evidence import add_cluster_evidence, probe_pods, urls_of
    from inferdoc.cluster.traces import link_traces
    from inferdoc.cost.reading import price_findings
    from inferdoc.judging.request import exit_code
    from inferdoc.report import render
    from inferdoc.watch.rounds import Glance, Watch
    from inferdoc.whatif.answer import predict_steps

    config = options.configuration()
    catalogue = options.catalogue(config)
    named = options.named(params)
    if named is not None:
        return _diagnose_pages(named, config, catalogue, params)
    source = options.source(config, params)

    def run() -> Glance:
        answer = diagnosis(source, config, catalogue, params)
        price_findings(answer, source, config, catalogue)
        link_traces(answer, source, catalogue, config.links.trace_url)
        if params["kubernetes"]:
            add_cluster_evidence(answer, catalogue)
        if params["probe"]:
            probe_pods(answer, catalogue, urls_of(answer), {})
        if params["predict"]:
            predict_steps(answer, source, config, catalogue)
        standing = audited_beside(answer, source, config, catalogue, params) if params["output"] == "html" else None
        return Glance(
            answer, render(answer, params["output"], detail=params["verbose"], colour=colour, standing=standing)
        )

    colour = options.coloured() and params["output"] == "text"
    if params["watch"]:
        in_place = params["output"] == "text" and sys.stdout.isatty()
        fault = messages.traced if options.debugging() and not in_place else messages.describe_error
        watch = Watch(run, WATCH_SECONDS, fault)
        if not in_place:
            from inferdoc.watch.rounds import print_changes

            print_changes(watch, show, messages.fail, whole=params["output"] != "text")
        return _watch_in_place(watch, source.location, params, colour)
    with options.working(f"reading {source.location}"):
        found = run()
    show(found.shown, coloured=colour)
    messages.warn(found.answer.source.warnings)
    return exit_code(found.answer, params["fail_on"])


def _watch_in_place(watch: Watch, place: str, params: dict[str, Any], colour: bool) -> int:
    """Repeat the diagnosis on the terminal; the last report stays on screen."""
    from inferdoc.judging.request import exit_code
    from inferdoc.watch.rounds import WatchState, left_on_screen, show_in_place

    try:
        rounds = show_in_place(watch, terminal(), place)
    except KeyboardInterrupt as interrupted:
        for each in interrupted.args:
            if isinstance(each, WatchState):
                show(left_on_screen(each), coloured=colour)
        raise
    show("\n".join([*rounds.changes, "", left_on_screen(rounds)]), coloured=colour)
    return exit_code(rounds.last.answer, params["fail_on"]) if rounds.last else int(ExitCode.UNKNOWN)


def _diagnose_pages(found: list[Recognised], config: Config, catalogue: Catalogue, params: dict[str, Any]) -> int:
    """Diagnose pages, live or saved."""
    from inferdoc.cluster.evidence import probe_pods, urls_of
    from inferdoc.judging.request import exit_code
    from inferdoc.pages.diagnosis import diagnose_pages
    from inferdoc.report import render

    scraping, pace = options.scraping(params), options.pace(params)
    answer = diagnose_pages(found, config, catalogue, params, scraping, pace, messages.note)
    if params["probe"]:
        pages = [one.target.url for one in found if one.target is not None]
        probe_pods(answer, catalogue, urls_of(answer, pages), options.parse_headers(params["headers"]))
    colour = options.coloured() and params["output"] == "text"
    show(render(answer, params["output"], detail=params["verbose"], colour=colour), coloured=colour)
    messages.warn(answer.source.warnings)
    return exit_code(answer, params["fail_on"])

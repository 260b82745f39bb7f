"""Incidents: `inferdoc serve`, `history`, `diff`, `capsule`, `mcp`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import click

from inferdoc.cli import messages, options
from inferdoc.cli.streams import show
from inferdoc.errors import ExitCode


@click.command("serve", short_help="Diagnose Alertmanager notifications as a service.")
@options.source_options
@click.option("--listen", metavar="ADDRESS", help="Listen address (default: [serve] listen, or 127.0.0.1:9109).")
@options.RECORD
@click.option("--judge-every", metavar="DURATION", help="Interval at which the whole fleet is diagnosed.")
@click.option("--forecast-every", metavar="DURATION", help="Interval at which the next day of every pool is forecast.")
def serve(**params: Any) -> None:
    """Receive Alertmanager webhooks at /alertmanager, diagnose each incident, and send the result to the outputs in
    [serve].

    Every verdict is stored in the incident database (`inferdoc history`). The web UI is at /, the API at /api/v1,
    metrics at /metrics. Other hosts need credentials. SIGTERM finishes running diagnoses first.
    """
    from inferdoc.serve.command import serve

    config = options.configuration()
    headers = options.parse_headers(params.get("headers") or ())
    options.one_source(params)
    serve(
        config,
        options.catalogue(config),
        params,
        headers,
        messages.note,
        options.config_path(),
        options.overlays(config),
    )


@click.command("history", short_help="List the incidents of `inferdoc serve`.")
@click.argument("incident", required=False)
@options.RECORD
@click.option("--open", "only_open", is_flag=True, help="Only open incidents.")
@click.option(
    "--limit",
    type=click.IntRange(1, 1000),
    default=50,
    metavar="N",
    help="Number of incidents, the newest first.",
)
@options.output("text", "json", "markdown", "html")
def history(incident: str | None, record: str | None, only_open: bool, limit: int, output: str) -> None:
    """List the incidents, or show one: its alerts, its diagnosis runs, and the last incident with the same cause.
    INCIDENT is an id or the start of one; -o json, markdown or html prints its diagnosis."""
    from inferdoc.incidents.capsule import find_conclusive_run
    from inferdoc.report import render
    from inferdoc.report.comparisons import incident_text, listing_text

    opened = options.record(record)
    try:
        if incident is None:
            options.show_as(output, opened.incidents(only_open=only_open, limit=limit), listing_text)
            return
        one = opened.incident(incident)
        if output != "text":
            show(render(opened.diagnosis(find_conclusive_run(opened, one.id)), output))
            return
        show(incident_text(one, opened.runs(one.id), opened.like(one)))
    finally:
        opened.close()


@click.command("diff", short_help="Compare two diagnoses.")
@click.argument("before")
@click.argument("after")
@options.RECORD
@options.output("text", "json")
def diff(before: str, after: str, record: str | None, output: str) -> int:
    """Compare two diagnoses: verdict, findings, pods, certainty, onset, changes. Each is an incident of the record, a
    capsule, or a file that `inferdoc diagnose -o json` wrote.

    Exit codes: 0 same diagnosis, 1 they differ, 2 usage.
    """
    from inferdoc.incidents.capsule import diagnosis_named
    from inferdoc.incidents.model import differences, same_story
    from inferdoc.report.comparisons import differences_text

    opened = partial(options.record, record)
    one, other = diagnosis_named(before, opened), diagnosis_named(after, opened)
    options.show_as(output, differences(one, other), differences_text)
    return ExitCode.OK if same_story(one, other) else ExitCode.FINDINGS


FILE = click.Path(dir_okay=False, path_type=Path)


@click.group("capsule", short_help="Save a diagnosis with its samples and replay it.")
def capsule() -> None:
    """Keep a diagnosis with the samples that it was made of, and judge them again: on another machine, by another
    release, in a test."""


@capsule.command("save")
@click.argument("file", type=FILE)
@options.source_options
@click.option("--since", metavar="DURATION", help="How far back from --until: 90s, 15m, 1h, 2d (default 1h).")
@options.FROM
@click.option("--around", metavar="TIME", help="Center of a one-hour window.")
@options.window_end
@options.part_of_fleet
def save(file: Path, **params: Any) -> int:
    """Diagnose a window and write FILE: the diagnosis, its samples and baseline, and the configuration (pods,
    objectives, labels; no address, no secret). The file is replayed immediately as a check.

    Exit codes: 0 the replay gives the same diagnosis, 1 it does not, 2 usage, 4 source not readable.
    """
    from inferdoc.incidents import capsule

    config = options.configuration()
    catalogue, source = options.catalogue(config), options.source(config, params)
    with options.working(f"reading {source.location}"):
        kept = capsule.save(file, source, config, catalogue, params)
    messages.warn(source.warnings)
    messages.note(f"{file}: {file.stat().st_size / 1e6:.1f} MB: {kept.document.summary}")
    return _replayed(file)


@capsule.command("replay")
@click.argument("files", nargs=-1, required=True, type=FILE)
def replay(files: tuple[Path, ...]) -> int:
    """Diagnose the samples of each FILE again and print the differences.

    Exit codes: 0 every diagnosis is the same, 1 one differs, 2 usage.
    """
    return max(_replayed(file) for file in files)


def _replayed(file: Path) -> int:
    from inferdoc.incidents import capsule
    from inferdoc.incidents.model import differences, same_story
    from inferdoc.report.comparisons import differences_text

    with options.working(f"judging {file}"):
        kept, answer = capsule.replay(file, options.overlays(options.configuration()))
    same = same_story(kept.document, answer)
    show(f"{file}: {'same diagnosis' if same else 'different diagnosis'}: {answer.summary}")
    if not same:
        show(differences_text(differences(kept.document, answer)))
    return ExitCode.OK if same else ExitCode.FINDINGS


@click.command("mcp", short_help="Read-only tools for agents, over stdio (Model Context Protocol).")
@options.source_options
def mcp(**params: Any) -> None:
    """Serve diagnose, around, focus, signals, recipes, runbook, forecast and audit to an agent, over standard input and
    output. Each tool reads and changes nothing, and answers in under 2,000 tokens. Configure it in the client as the
    command `inferdoc` with the arguments `mcp --prometheus URL`; it ends with its input.
    """
    from inferdoc.agents.mcp_server import server
    from inferdoc.agents.tools import Tools

    config = options.configuration()
    opened = options.in_context(lambda: options.source(config, params))
    server(Tools(config, options.catalogue(config), opened, options.overlays(config))).run("stdio")

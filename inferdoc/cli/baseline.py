"""`inferdoc baseline save | show`."""

from __future__ import annotations

from typing import Any

import click

from inferdoc.cli import messages, options
from inferdoc.escaping import one_line


@click.group(
    "baseline",
    short_help="Manage stored baselines for windows without history.",
    context_settings={"help_option_names": ["-h", "--help"]},
)
def command() -> None:
    """Stored baselines. `diagnose` uses one by itself where the source holds nothing before the window, and by name
    with --baseline NAME. It must be of the same pools (model, role, tier) and vLLM release."""


@command.command("save", short_help="Save a healthy time range.")
@options.source_options
@click.option("--name", default="default", show_default=True, help="Name of the baseline.")
@click.option("--file", metavar="PATH", help="Output file instead of the baseline folder.")
@click.option("--since", metavar="DURATION", help="How far back from --until: 15m, 1h, 2d (default 1h).")
@click.option("--from", "begin", metavar="TIME", help="Start of the time range: RFC 3339 or Unix seconds.")
@options.window_end
@click.option("-l", "--label", "labels", multiple=True, metavar="LABEL=VALUE", help="Only series with this label.")
@click.option("--force", is_flag=True, help="Save a time range that is not healthy.")
def save(**params: Any) -> int:
    """Diagnose a time range and save its signals as a baseline.

    Exit codes: 0 saved, 1 the time range contains an incident, 2 usage, 3 not enough data, 4 source not readable.
    """
    from inferdoc.judging.references import save as baseline

    config = options.configuration()
    source = options.source(config, params)
    with options.working(f"reading {source.location}"):
        path, header = baseline.save(source, config, options.catalogue(config), params)
    click.echo(one_line(f"{path}: {baseline.described(header)}"))
    messages.warn(source.warnings)
    return 0


@command.command("show", short_help="List the stored baselines, or show one.")
@click.argument("name", required=False)
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def show(name: str | None, output: str) -> int:
    """List the stored baselines; with a NAME (or a path) its span, its pools, and the medians of what users waited
    for."""
    from inferdoc.config import baselines_folder
    from inferdoc.judging.references.stored import named
    from inferdoc.report import baselines

    config = options.configuration()
    folder = baselines_folder(config)
    if name is None:
        rows = baselines.listed(folder)
        click.echo(baselines.list_json(rows) if output == "json" else baselines.list_text(rows, folder))
        return 0
    stored = named(folder, name)
    click.echo(baselines.as_json(stored) if output == "json" else baselines.text(stored, options.catalogue(config)))
    return 0

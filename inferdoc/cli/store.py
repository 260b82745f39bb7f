"""`inferdoc store info | prune`."""

from __future__ import annotations

import json

import click

from inferdoc.cli import messages, options

STORE = click.option("--store", metavar="PATH", help="Path of the embedded store (default: the configured one).")


@click.group(
    "store",
    short_help="Inspect the embedded store and drop old scrapes.",
    context_settings={"help_option_names": ["-h", "--help"]},
)
def command() -> None:
    """Inspect the embedded store and drop old scrapes."""


@command.command("info", short_help="Show time ranges, origin, series and bytes.")
@STORE
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--check", is_flag=True, help="Checksum verification of every scrape.")
def info(store: str | None, output: str, check: bool) -> None:
    """Say what the store holds: how much was collected and how much imported, from when to when, series and bytes."""
    from inferdoc.report.stores import inventory_lines
    from inferdoc.store import Store, inventory, verify
    from inferdoc.store.faults import damaged

    path = options.store_path(options.configuration(), store)
    with Store.open(path) as opened:
        messages.warn(opened.warnings)
        verified = verify(opened) if check else None
        if verified is not None and verified.damages:
            for damage in verified.damages:
                click.echo(f"damaged: {damage.line()}")
            what = f"{len(verified.damages)} of its parts are damaged, {verified.scrapes:,} scrapes are whole"
            raise damaged(opened.path, what)
        found = inventory(opened)
    if output == "json":
        click.echo(json.dumps(found.document(), indent=2))
        return
    for line in inventory_lines(found):
        click.echo(line)
    if verified is not None:
        click.echo(f"  checked: {verified.scrapes:,} scrapes, none damaged")


@command.command("prune", short_help="Drop the oldest scrapes, by age or by size.")
@STORE
@click.option("--older-than", metavar="DURATION", help="Maximum age, counted from the newest scrape.")
@click.option("--max-mb", type=click.IntRange(min=1), metavar="MB", help="Maximum store size.")
@click.option("--imported", is_flag=True, help="Also drop what was imported; without this it is kept.")
@click.option("--dry-run", is_flag=True, help="Report without changes.")
def prune(store: str | None, older_than: str | None, max_mb: int | None, imported: bool, dry_run: bool) -> None:
    """Drop the oldest scrapes. What was imported stays without --imported; the newest scrapes always stay.

    Not while a collector writes the store: it keeps its own --retention.
    """
    from inferdoc.report.stores import pruned_line
    from inferdoc.store import Store, retention
    from inferdoc.times import seconds_of

    if older_than is None and max_mb is None:
        raise click.UsageError("--older-than or --max-mb is required")
    limits = (
        None if older_than is None else seconds_of(older_than, "--older-than") * 1000,
        None if max_mb is None else max_mb * 1_000_000,
    )
    path = options.store_path(options.configuration(), store)
    if dry_run:
        with Store.open(path) as opened:
            done = retention.would_prune(opened, *limits, imported=imported)
    else:
        with Store.open_existing(path) as opened:
            done = retention.prune(opened, *limits, imported=imported)
    click.echo(pruned_line(done, dry_run) or "retention: nothing to drop")

"""`inferdoc recipes`."""

from __future__ import annotations

from pathlib import Path

import click

from inferdoc.cli import options


@click.group("recipes", short_help="The catalogue of causes.", invoke_without_command=True)
@click.pass_context
def command(context: click.Context) -> None:
    """The causes that inferdoc knows, and checking your own."""
    if context.invoked_subcommand is None:
        context.invoke(list_)


@command.command("list")
def list_() -> None:
    """Every cause: id, severity, phase, title."""
    from inferdoc.report.recipes import listing

    click.echo(listing(options.catalogue(options.configuration())))


@command.command("show")
@click.argument("cause", metavar="ID")
def show(cause: str) -> None:
    """One cause in words: symptoms, harm, what rules it out, what to do."""
    from inferdoc.report.recipes import details

    click.echo(details(options.catalogue(options.configuration()), cause))


@command.command("check")
@click.argument("path", metavar="PATH", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def check(path: Path) -> int:
    """Check your own cause file: form, signals, thresholds, ids. Exit 1 where something is wrong."""
    from inferdoc.report.recipes import problems

    found = problems(options.catalogue(options.configuration()), path)
    for line in found:
        click.echo(line)
    if not found:
        click.echo(f"{path}: good")
    return 1 if found else 0

"""`inferdoc recipes`."""

from __future__ import annotations

from pathlib import Path

import click

from inferdoc.cli import options
from inferdoc.cli.completion import CAUSES
from inferdoc.escaping import page


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
@click.argument("cause", metavar="ID", shell_complete=CAUSES)
def show(cause: str) -> None:
    """One cause in words: symptoms, harm, what rules it out, what to do."""
    from inferdoc.report.recipes import details

    click.echo(details(options.catalogue(options.configuration()), cause))


@command.command("check")
@click.argument("path", metavar="[PATH]", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path))
def check(path: Path | None) -> int:
    """Check your own cause file, or the whole catalogue: names, numbers, limits, what is still to be filled in, and
    whether rules, dashboards and pages can be generated. Exit 1 if something is wrong."""
    from inferdoc.report.recipes import catalogue_problems, problems

    catalogue = options.catalogue(options.configuration())
    found = catalogue_problems(catalogue) if path is None else problems(catalogue, path)
    click.echo(page(found or [f"{path or 'the catalogue'}: good"]))
    return 1 if found else 0


@command.command("new")
@click.argument("cause", metavar="ID")
@click.option(
    "--into",
    metavar="DIR",
    default=".",
    type=click.Path(file_okay=False, path_type=Path),
    show_default=True,
    help="Catalogue folder to write to; pass it with --catalogue later.",
)
def new(cause: str, into: Path) -> None:
    """Write the three files of a cause of your own, to be filled in: the cause, its page, its scenario."""
    from inferdoc.report.recipes import write_new

    written = write_new(into, cause, options.catalogue(options.configuration()))
    done = f"fill them in; inferdoc recipes check {written[0]} says what is missing"
    click.echo(page([*(f"wrote {path}" for path in written), done]))

"""Causes and their runbooks: `inferdoc recipes`, `runbook`; what a shell completes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from inferdoc.cli import options
from inferdoc.cli.streams import show
from inferdoc.errors import InferdocError
from inferdoc.escaping import page
from inferdoc.escaping import page as lines

Offer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def _offered(named: Callable[[], Iterable[tuple[str, str]]]) -> Offer:
    """Ids with their titles, of those that begin with what was typed. A catalogue that cannot be read offers nothing:
    the command itself says why."""

    def offer(_context: click.Context, _parameter: click.Parameter, typed: str) -> list[CompletionItem]:
        try:
            return [CompletionItem(name, help=title) for name, title in named() if name.startswith(typed)]
        except InferdocError:
            return []

    return offer


def _overlays() -> tuple[str, ...]:
    from inferdoc.config import load_config

    return tuple(load_config().catalogue)


def _causes() -> Iterable[tuple[str, str]]:
    from inferdoc.catalogue.load import load_catalogue

    return [(recipe.id, recipe.title) for recipe in load_catalogue(_overlays()).recipes.values()]


def _pages() -> Iterable[tuple[str, str]]:
    from inferdoc.report.runbook import pages

    return pages(_overlays())


def _scenarios() -> Iterable[tuple[str, str]]:
    from pathlib import Path

    from inferdoc.simulate.scenario_files import scenarios

    return [(scenario.id, scenario.title) for scenario in scenarios(tuple(map(Path, _overlays())))]


CAUSES, PAGES, SCENARIOS = (_offered(each) for each in (_causes, _pages, _scenarios))


@click.group("recipes", short_help="The catalogue of causes.", invoke_without_command=True)
@click.pass_context
def recipes(context: click.Context) -> None:
    """The causes that inferdoc knows, and checking your own."""
    if context.invoked_subcommand is None:
        context.invoke(list_)


@recipes.command("list")
def list_() -> None:
    """Every cause: id, severity, phase, title."""
    from inferdoc.report.recipes import listing

    click.echo(listing(options.catalogue(options.configuration())))


@recipes.command("show")
@click.argument("cause", metavar="ID", shell_complete=CAUSES)
def show_recipe(cause: str) -> None:
    """One cause in words: symptoms, harm, what rules it out, what to do."""
    from inferdoc.report.recipes import details

    click.echo(details(options.catalogue(options.configuration()), cause))


@recipes.command("check")
@click.argument("path", metavar="[PATH]", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path))
def check(path: Path | None) -> int:
    """Check your own cause file, or the whole catalogue: names, numbers, limits, what is still to be filled in, and
    whether rules, dashboards and pages can be generated. Exit 1 if something is wrong."""
    from inferdoc.report.recipes import catalogue_problems, problems

    catalogue = options.catalogue(options.configuration())
    found = catalogue_problems(catalogue) if path is None else problems(catalogue, path)
    click.echo(page(found or [f"{path or 'the catalogue'}: good"]))
    return 1 if found else 0


@recipes.command("new")
@click.argument("cause", metavar="ID")
@click.option(
    "--into",
    metavar="DIR",
    default=".",
    type=click.Path(file_okay=False, path_type=Path),
    help="Catalogue folder to write to; pass it with --catalogue later.",
)
def new(cause: str, into: Path) -> None:
    """Write the three files of a cause of your own, to be filled in: the cause, its page, its scenario."""
    from inferdoc.report.recipes import write_new

    written = write_new(into, cause, options.catalogue(options.configuration()))
    done = f"fill them in; inferdoc recipes check {written[0]} says what is missing"
    click.echo(page([*(f"wrote {path}" for path in written), done]))


@click.command("runbook", short_help="Show the runbook of a cause.")
@click.argument("cause", metavar="[ID]", required=False, shell_complete=PAGES)
def runbook(cause: str | None) -> None:
    """Show the runbook page of a cause; without an ID, list the pages."""
    from inferdoc.report.runbook import page, pages, pretty

    overlays = options.overlays(options.configuration())
    if cause is None:
        click.echo(lines(f"{name:<28} {title}" for name, title in pages(overlays)))
        return
    text = page(cause, overlays)
    coloured = options.coloured()
    show(pretty(text) if coloured else text, coloured=coloured)

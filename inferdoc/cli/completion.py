"""What a shell offers for an id: causes, pages, faults, scenarios. Read from the catalogue at the moment of the
key press, with the overlays of the configuration file."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import click
from click.shell_completion import CompletionItem

from inferdoc.errors import InferdocError

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

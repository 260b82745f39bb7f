"""`inferdoc capsule`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from inferdoc.cli import messages, options
from inferdoc.cli.streams import show
from inferdoc.errors import ExitCode

FILE = click.Path(dir_okay=False, path_type=Path)


@click.group("capsule", short_help="Save a diagnosis with its samples and replay it.")
def command() -> None:
    """Keep a diagnosis with the samples that it was made of, and judge them again: on another machine, by another
    release, in a test."""


@command.command("save")
@click.argument("file", type=FILE)
@options.source_options
@click.option("--since", metavar="DURATION", help="How far back from --until: 90s, 15m, 1h, 2d (default 1h).")
@click.option("--from", "begin", metavar="TIME", help="Start of the window: RFC 3339 or Unix seconds.")
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


@command.command("replay")
@click.argument("files", nargs=-1, required=True, type=FILE)
def replay(files: tuple[Path, ...]) -> int:
    """Diagnose the samples of each FILE again and print the differences.

    Exit codes: 0 every diagnosis is the same, 1 one differs, 2 usage.
    """
    return max(_replayed(file) for file in files)


def _replayed(file: Path) -> int:
    from inferdoc.incidents import capsule
    from inferdoc.incidents.model import differences, same_story
    from inferdoc.report import render_differences

    with options.working(f"judging {file}"):
        kept, answer = capsule.replay(file, options.overlays(options.configuration()))
    same = same_story(kept.document, answer)
    show(f"{file}: {'same diagnosis' if same else 'different diagnosis'}: {answer.summary}")
    if not same:
        show(render_differences(differences(kept.document, answer), "text"))
    return ExitCode.OK if same else ExitCode.FINDINGS

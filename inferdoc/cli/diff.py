"""`inferdoc diff`."""

from __future__ import annotations

from functools import partial

import click

from inferdoc.cli import options
from inferdoc.cli.streams import show
from inferdoc.errors import ExitCode


@click.command("diff", short_help="Compare two diagnoses.")
@click.argument("before")
@click.argument("after")
@options.RECORD
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def command(before: str, after: str, record: str | None, output: str) -> int:
    """Compare two diagnoses: verdict, findings, pods, certainty, onset, changes. Each is an incident of the record, a
    capsule, or a file that `inferdoc diagnose -o json` wrote.

    Exit codes: 0 same diagnosis, 1 they differ, 2 usage.
    """
    from inferdoc.incidents.capsule import diagnosis_named
    from inferdoc.incidents.model import differences, same_story
    from inferdoc.report import render_differences

    opened = partial(options.record, record)
    one, other = diagnosis_named(before, opened), diagnosis_named(after, opened)
    show(render_differences(differences(one, other), output))
    return ExitCode.OK if same_story(one, other) else ExitCode.FINDINGS

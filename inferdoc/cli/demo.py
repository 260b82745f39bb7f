"""`inferdoc demo`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from inferdoc.cli import options
from inferdoc.cli.completion import CAUSES
from inferdoc.cli.progress import Progress
from inferdoc.cli.streams import show
from inferdoc.escaping import page

if TYPE_CHECKING:
    from inferdoc.judging.model import Diagnosis


@click.command("demo", short_help="Inject a fault into a simulated fleet and diagnose it.")
@click.option(
    "--fault",
    metavar="ID",
    shell_complete=CAUSES,
    help="Fault to inject (default: one on a fleet of two hardware tiers).",
)
@click.option("--recording", metavar="NAME", help="Recording to replay, by file or by cause. Requires a checkout.")
@click.option("--list", "listed", is_flag=True, help="List faults and recordings.")
@click.option(
    "-o", "--output", type=click.Choice(["text", "json", "markdown", "html"]), default="text", show_default=True
)
@click.option("-v", "--verbose", count=True, help="More evidence: -v, -vv.")
def command(fault: str | None, recording: str | None, listed: bool, output: str, verbose: int) -> int:
    """Inject a fault into a simulated fleet, diagnose it, and print the next steps.

    Exit codes: 0 the fault is the first finding (or is named beside a correct one, or metrics cannot show it), 1 it is
    not, 2 usage. Only the diagnosis goes to standard output, as with `inferdoc diagnose`; with text, the next steps
    follow it.
    """
    if fault and recording:
        raise click.UsageError("--fault and --recording are mutually exclusive")
    if listed:
        return _list()
    if recording:
        return _recording(recording, output, verbose)
    from inferdoc.report.demo import FIRST, find, fleet, how_to_read, next_commands, run_demo, what_was_done

    catalogue = options.catalogue(options.configuration())
    scenario = find(fault or FIRST, catalogue)
    demo = run_demo(scenario, catalogue, Progress(f"{scenario.id}: {fleet(scenario)}"))
    done, after = what_was_done(demo), next_commands(demo)
    if output == "text":
        done = [*done, "", *how_to_read(demo.answer)]
    _show(demo.answer, output, verbose, [*done, "", *after])
    return 0 if demo.good else 1


def _show(answer: Diagnosis, output: str, verbose: int, after: list[str]) -> None:
    """The diagnosis on standard output; the lines after it there too with text, else on stderr."""
    from inferdoc.report import render

    colour = options.coloured() and output == "text"
    show(render(answer, output, detail=verbose, colour=colour), coloured=colour)
    click.echo(page(["", *after] if output == "text" else after), err=output != "text")


def _list() -> int:
    from inferdoc.report.demo import listing, recorded

    lines = listing(options.catalogue(options.configuration()))
    if of_checkout := [f"{name:<37} {words}" for name, words in recorded()]:
        lines += ["", f"{'recording (--recording)':<37} what was done", *of_checkout]
    click.echo(page(lines))
    return 0


def _recording(name: str, output: str, verbose: int) -> int:
    from inferdoc.report.demo import cause_of, replay_recording

    cause = cause_of(name)
    answer = replay_recording(name, options.catalogue(options.configuration()))
    first = answer.findings[0].id if answer.findings else None
    right = first == cause if cause else answer.verdict == "healthy"
    if cause is None:
        words = "a control: nothing was done to it"
    else:
        words = f"recorded under {cause}; the first finding is {first or 'none'}"
    lines = [f"what was done  {words}", "", "next steps"]
    lines += [f"  inferdoc runbook {cause}", f"  inferdoc recipes show {cause}"] if cause else []
    _show(answer, output, verbose, [*lines, "  inferdoc demo --list"])
    return 0 if right else 1

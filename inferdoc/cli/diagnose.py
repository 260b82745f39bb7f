"""`inferdoc diagnose`."""

from __future__ import annotations

import time
from typing import Any

import click

from inferdoc.cli import faults, options
from inferdoc.cli.streams import show
from inferdoc.errors import ExitCode

WATCH_SECONDS = 30.0


@click.command("diagnose", short_help="What is wrong, since when, on which pods, and what to do next.")
@options.source_options
@click.option("--since", metavar="DURATION", help="How far back from --until: 90s, 15m, 1h, 2d (default 1h).")
@click.option("--from", "begin", metavar="TIME", help="Where the window begins: RFC 3339 or Unix seconds.")
@click.option(
    "--around",
    metavar="TIME",
    help="Instead: half an hour before and after this time, such as that of an alert, which began late.",
)
@options.window_end
@click.option(
    "--baseline",
    metavar="TIME..TIME|NAME",
    help="Compare with this stretch, or with a stored baseline, instead of the history before the window.",
)
@options.part_of_fleet
@click.option(
    "-o", "--output", type=click.Choice(["text", "json", "markdown", "html"]), default="text", show_default=True
)
@click.option(
    "--fail-on",
    type=click.Choice(["critical", "warning", "info"]),
    default="info",
    help="Exit 1 only from this severity on (default: any finding).",
)
@click.option(
    "-v", "--verbose", is_flag=True, help="Also the evidence in full, what was ruled out and what could not be judged."
)
@click.option("--watch", is_flag=True, help="Again every 30 s until interrupted.")
def command(**asked: Any) -> int:
    """Judge a window of a source.

    Exit codes: 0 healthy, 1 a finding at or above --fail-on, 2 usage, 3 unknown (not enough data to judge), 4 the
    source could not be read.
    """
    from inferdoc.audit.request import audited_beside
    from inferdoc.judging.request import diagnosis, exit_code
    from inferdoc.report import render

    config = options.configuration()
    source = options.source(config, asked)
    catalogue = options.catalogue(config)

    def judged() -> int:
        with options.working(f"reading {source.location}"):
            answer = diagnosis(source, config, catalogue, asked)
            standing = audited_beside(answer, source, config, catalogue, asked) if asked["output"] == "html" else None
        colour = options.coloured() and asked["output"] == "text"
        shown = render(answer, asked["output"], verbose=asked["verbose"], colour=colour, standing=standing)
        show(shown, coloured=colour)
        options.warn(answer.source.warnings)
        return exit_code(answer, asked["fail_on"])

    if not asked["watch"]:
        return judged()
    while True:
        try:
            judged()
        except BrokenPipeError:
            raise
        except Exception as error:  # one that passes, such as a server that restarts, does not end a watch
            code = faults.report(error, debug=options.debugging())
            if code == ExitCode.USAGE:
                return code
        time.sleep(WATCH_SECONDS)

"""`inferdoc demo`."""

from __future__ import annotations

import sys

import click

from inferdoc.cli import options


@click.command("demo", short_help="Diagnose a real incident that comes with inferdoc.")
@click.option("--fault", metavar="ID", default="kv-preemption-thrash", show_default=True, help="Which recorded fault.")
@click.option("-o", "--output", type=click.Choice(["text", "json", "markdown"]), default="text", show_default=True)
@click.option("--list", "listed", is_flag=True, help="The faults that can be shown.")
def command(fault: str, output: str, listed: bool) -> int:
    """Import a recording of a real vLLM under a real fault into a fresh store and diagnose it.

    Exits 0 when the named fault is found.
    """
    from inferdoc.report import render
    from inferdoc.report.demo import faults, play

    if listed:
        for name, title in faults():
            click.echo(f"{name:<28} {title}")
        return 0
    answer = play(fault, options.catalogue(options.configuration()))
    coloured = click.get_current_context().color is not False and sys.stdout.isatty()
    click.echo(render(answer, output, colour=coloured))
    if output == "text":
        click.echo("\nYour own fleet:  inferdoc diagnose --prometheus http://YOUR-PROMETHEUS:9090 --since 1h")
        click.echo("Without one:     inferdoc collect --target http://POD:8000/metrics --store fleet.db")
    return 0 if any(f.id == fault for f in answer.findings) else 1

"""The command line: the module of each command, and errors as exit codes."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from inferdoc.cli import messages
from inferdoc.cli.streams import guarded
from inferdoc.errors import ExitCode
from inferdoc.version import __version__

COMMANDS = {
    "init": "inferdoc.cli.sources:init",
    "diagnose": "inferdoc.cli.diagnose:command",
    "collect": "inferdoc.cli.collect:command",
    "import": "inferdoc.cli.store:import_",
    "export": "inferdoc.cli.store:export",
    "store": "inferdoc.cli.store:store",
    "doctor": "inferdoc.cli.sources:doctor",
    "probe": "inferdoc.cli.sources:probe",
    "signals": "inferdoc.cli.sources:signals",
    "audit": "inferdoc.cli.health:audit",
    "size": "inferdoc.cli.capacity:size",
    "cost": "inferdoc.cli.capacity:cost",
    "headroom": "inferdoc.cli.capacity:headroom",
    "bench": "inferdoc.cli.capacity:bench",
    "canary": "inferdoc.cli.health:canary",
    "kv": "inferdoc.cli.capacity:kv",
    "whatif": "inferdoc.cli.capacity:whatif",
    "verify": "inferdoc.cli.health:verify",
    "baseline": "inferdoc.cli.health:baseline",
    "slo": "inferdoc.cli.health:slo",
    "recipes": "inferdoc.cli.recipes:recipes",
    "runbook": "inferdoc.cli.recipes:runbook",
    "alerts": "inferdoc.cli.alerts:alerts",
    "dashboards": "inferdoc.cli.alerts:dashboards",
    "forecast": "inferdoc.cli.forecast:command",
    "prewarm": "inferdoc.cli.prewarm:command",
    "simulate": "inferdoc.cli.simulate:simulate",
    "demo": "inferdoc.cli.simulate:demo",
    "serve": "inferdoc.cli.incidents:serve",
    "history": "inferdoc.cli.incidents:history",
    "diff": "inferdoc.cli.incidents:diff",
    "capsule": "inferdoc.cli.incidents:capsule",
    "mcp": "inferdoc.cli.incidents:mcp",
}

THREADS_OF_NUMPY = "OPENBLAS_NUM_THREADS"
"""Read when numpy is loaded. Our matrices are small: its threads would wait for each other."""


class Commands(click.Group):
    """Commands in the order people need them; a module is imported with its command."""

    def list_commands(self, context: click.Context) -> list[str]:
        """Their names in order."""
        return list(COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """A command, imported; None where there is none of this name."""
        if name not in COMMANDS:
            return None
        module, _, function = COMMANDS[name].partition(":")
        command: click.Command = getattr(import_module(module), function)
        return command

    def resolve_command(
        self, context: click.Context, arguments: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the arguments name. Raises click.NoSuchCommand with the nearest names."""
        try:
            return super().resolve_command(context, arguments)
        except click.exceptions.NoSuchCommand as error:
            raise click.exceptions.NoSuchCommand(error.command_name, possibilities=COMMANDS, ctx=context) from None

    def format_epilog(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """The environment variables."""
        from inferdoc.environment import ENVIRONMENT

        with formatter.section("Environment"):
            formatter.write_dl(list(ENVIRONMENT.items()))


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.version_option(__version__, "--version", message="inferdoc %(version)s")
@click.option(
    "--config", "config_file", metavar="FILE", help="Configuration file. Default: ./inferdoc.toml, then the user's."
)
@click.option(
    "--catalogue", multiple=True, metavar="DIR", help="Overlay folder with your own causes, signals and pages."
)
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    help="Format of messages on standard error.",
)
@click.option("--debug", is_flag=True, help="Traceback of an error.")
@click.option("--no-color", is_flag=True, help="No color, as with NO_COLOR.")
@click.pass_context
def cli(
    context: click.Context,
    config_file: str | None,
    catalogue: tuple[str, ...],
    log_format: messages.Form,
    debug: bool,
    no_color: bool,
) -> None:
    """Diagnose LLM inference fleets: the cause, its onset, its pods, the confidence, and the next step."""
    messages.write_as(log_format)
    context.obj = {"config_file": config_file, "catalogue": catalogue, "debug": debug}
    if no_color or os.environ.get("NO_COLOR"):
        context.color = False


def main(arguments: list[str] | None = None) -> None:
    """Entry point. Every expected error is one line on stderr; the exit code says which kind."""
    os.environ.setdefault(THREADS_OF_NUMPY, "1")
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: list[str]) -> int:
    """Run one command line and answer its exit code. Whatever it writes is printable."""
    try:
        with guarded():
            return _run(arguments)
    except BrokenPipeError:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115, PTH123  (the reader is gone; nothing may be flushed to it)
        return int(ExitCode.OK)


def _run(arguments: list[str]) -> int:
    messages.write_as("text")
    try:
        if any("\x00" in argument for argument in arguments):
            raise click.UsageError("an argument holds a NUL character; leave it out")
        result: Any = cli.main(args=arguments, prog_name=_called(), standalone_mode=False)
        return int(result) if isinstance(result, int) else int(ExitCode.OK)
    except BrokenPipeError:
        raise
    except click.exceptions.NoArgsIsHelpError as group:
        click.echo(group.message)
        return int(ExitCode.OK)
    except (Exception, KeyboardInterrupt) as error:
        return messages.report(error, debug="--debug" in arguments)


def _called() -> str:
    """How the user called it, for the lines about usage: kubectl runs `kubectl-inferdoc` from the PATH as a command of
    its own (https://kubernetes.io/docs/tasks/extend-kubectl/kubectl-plugins/)."""
    return "kubectl inferdoc" if Path(sys.argv[0]).name == "kubectl-inferdoc" else "inferdoc"

"""`inferdoc mcp`."""

from __future__ import annotations

from typing import Any

import click

from inferdoc.cli import options


@click.command("mcp", short_help="Read-only tools for agents, over stdio (Model Context Protocol).")
@options.source_options
def command(**params: Any) -> None:
    """Serve diagnose, around, focus, signals, recipes, runbook, forecast and audit to an agent, over standard input and
    output. Each tool reads and changes nothing, and answers in under 2,000 tokens. Configure it in the client as the
    command `inferdoc` with the arguments `mcp --prometheus URL`; it ends with its input.
    """
    from inferdoc.agents.mcp_server import server
    from inferdoc.agents.tools import Tools

    config = options.configuration()
    opened = options.in_context(lambda: options.source(config, params))
    server(Tools(config, options.catalogue(config), opened, options.overlays(config))).run("stdio")

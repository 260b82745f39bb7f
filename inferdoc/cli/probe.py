"""`inferdoc probe`."""

from __future__ import annotations

import click

from inferdoc.cli import options
from inferdoc.times import timeout_of

WORDS = {
    "alive": "the engine generates tokens",
    "slow": "the engine generates tokens, and slowly",
    "hung": "the engine accepts requests and generates no token",
    "refused": "the server refuses the request",
    "down": "the server does not accept connections",
}


@click.command("probe", short_help="Send one request of one token: alive, slow, hung, refused or down.")
@click.argument("url")
@click.option("--timeout", default="20s", show_default=True, metavar="DURATION", help="Deadline of the request.")
@options.HEADER
@click.option("--model", metavar="NAME", help="Model to request. Default: the first that the server lists.")
def command(url: str, timeout: str, headers: tuple[str, ...], model: str | None) -> int:
    """Send one completion request of one token to an engine or a router.

    Metrics cannot distinguish a hung engine from one whose gauges are stale; a request can. Nothing is sent unless you
    run this command. Example: inferdoc probe http://localhost:8000

    Exit codes: 0 alive, 1 slow, hung, refused or down, 2 usage error.
    """
    from inferdoc.collect.probe import probe

    found = probe(url, timeout_of(timeout), options.parse_headers(headers), model)
    click.echo(f"{found.outcome.upper()}  {url}: {WORDS[found.outcome]} ({found.detail}, {found.seconds:.2f} s)")
    return 0 if found.outcome == "alive" else 1

"""`inferdoc verify`."""

from __future__ import annotations

from typing import Any

import click

from inferdoc.cli import messages, options
from inferdoc.cli.streams import show


@click.command("verify", short_help="What a step after a finding has brought, measured; keeps a ledger.")
@click.argument("finding", required=False)
@options.source_options
@click.option("--at", "step_at", metavar="TIME", help="When the step was taken.")
@click.option("--diagnosis", metavar="FILE", help="As `diagnose -o json` wrote it: the onset and the evidence.")
@click.option("--onset", metavar="TIME", help="Since when it was wrong, without --diagnosis.")
@click.option("--pool", metavar="POOL", help="May be left out where there is one.")
@click.option("--prediction", metavar="FILE", help="As `whatif -o json` wrote it: is held against what came.")
@click.option("--ttft", metavar="DURATION", help="First tokens within it are good (default: the objective in force).")
@click.option("--tpot", metavar="DURATION", help="Requests at most so slow per token are good (default likewise).")
@click.option("--ledger", metavar="FILE", help="Where it is written down (default: beside the store).")
@click.option("--list", "listed", is_flag=True, help="Show the ledger.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def command(**params: Any) -> int:
    """Compare the time between a finding's onset and a step with the time after it: requests beyond their limits, mean
    latencies, and the signals that the finding rests on. FINDING is the id of a cause.

    The answer is helped, no difference, worse or cannot tell, and is added to the ledger, with the what-if that
    foretold it where one is given.

    Exit codes: 0 helped or no difference, 1 worse, 2 usage, or too little time on a side, 3 cannot tell, 4 the source
    could not be read.
    """
    from inferdoc.report import render_ledger, render_verification
    from inferdoc.verify.answer import exit_code, verified
    from inferdoc.verify.ledger import appended, ledger_lines, ledger_path

    config = options.configuration()
    store = None if params["prometheus"] else options.store_path(config, params["store"])
    path = ledger_path(params["ledger"], store)
    if params["listed"]:
        show(render_ledger(ledger_lines(path), params["output"]))
        return 0
    source, catalogue = options.source(config, params), options.catalogue(config)
    with options.working(f"reading {source.location}"):
        answer = verified(source, config, catalogue, params)
    appended(path, answer)
    colour = options.coloured() and params["output"] == "text"
    show(render_verification(answer, params["output"], colour=colour), coloured=colour)
    messages.warn(source.warnings)
    return exit_code(answer)

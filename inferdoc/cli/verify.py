"""`inferdoc verify`."""

from __future__ import annotations

from typing import Any

import click

from inferdoc.cli import options
from inferdoc.cli.answers import answer_from_source, print_answer
from inferdoc.cli.streams import show


@click.command("verify", short_help="Measure the effect of a step after a finding.")
@click.argument("finding", required=False)
@options.source_options
@click.option("--at", "step_at", metavar="TIME", help="Time of the step.")
@click.option("--diagnosis", metavar="FILE", help="Output of `diagnose -o json`, for onset and evidence.")
@click.option("--onset", metavar="TIME", help="Onset, if there is no --diagnosis.")
@click.option("--pool", metavar="POOL", help="Pool name; optional if there is one pool.")
@click.option("--prediction", metavar="FILE", help="Output of `whatif -o json` to compare with the result.")
@click.option("--ttft", metavar="DURATION", help="TTFT limit of a good request (default: the SLO).")
@click.option("--tpot", metavar="DURATION", help="TPOT limit of a good request (default: the SLO).")
@click.option("--ledger", metavar="FILE", help="Ledger file (default: beside the store).")
@click.option("--list", "listed", is_flag=True, help="List of the ledger.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def command(**params: Any) -> int:
    """Compare the time before a step with the time after it: requests over their limits, mean latencies, and the
    signals of the finding. FINDING is the id of a cause.

    The result is helped, no difference, worse or cannot tell. It is added to the ledger with the what-if prediction, if
    there is one.

    Exit codes: 0 helped or no difference, 1 worse, 2 usage, or too little time on a side, 3 not enough data, 4 source
    not readable.
    """
    from inferdoc.report.verify_text import render_ledger, verify_text
    from inferdoc.verify.answer import exit_code, verified
    from inferdoc.verify.model import appended, ledger_lines, ledger_path

    config = options.configuration()
    store = None if params["prometheus"] else options.store_path(config, params["store"])
    path = ledger_path(params["ledger"], store)
    if params["listed"]:
        show(render_ledger(ledger_lines(path), params["output"]))
        return 0
    answer, warnings = answer_from_source(params, verified)
    appended(path, answer)
    print_answer(answer, params, verify_text, warnings=warnings)
    return exit_code(answer)

"""`inferdoc serve`."""

from __future__ import annotations

from typing import Any

import click

from inferdoc.cli import messages, options


@click.command("serve", short_help="Alerts in, diagnoses out: a service beside Alertmanager.")
@options.source_options
@click.option("--listen", metavar="ADDRESS", help="Where to listen (default: [serve] listen, or 127.0.0.1:9109).")
@options.RECORD
@click.option("--judge-every", metavar="DURATION", help="Look at the whole fleet so often, for the pages and /metrics.")
@click.option(
    "--forecast-every", metavar="DURATION", help="Forecast the next day of every pool so often, for /metrics."
)
def command(**params: Any) -> None:
    """Take Alertmanager's webhook at /alertmanager, look at each incident, and tell the outputs of [serve] what is
    wrong, since when, on which pods, and what to do next.

    Every verdict is kept in the incident record (`inferdoc history`). Pages at /, an API at /api/v1, metrics at
    /metrics. Others than this machine are served only with credentials. SIGTERM finishes what is under way.
    """
    from inferdoc.serve.command import serve

    config = options.configuration()
    headers = options.parse_headers(params.get("headers") or ())
    options.one_source(params)
    serve(
        config,
        options.catalogue(config),
        params,
        headers,
        messages.note,
        options.config_path(),
        options.overlays(config),
    )

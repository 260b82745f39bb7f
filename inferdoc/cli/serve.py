"""`inferdoc serve`."""

from __future__ import annotations

from typing import Any

import click

from inferdoc.cli import messages, options


@click.command("serve", short_help="Diagnose Alertmanager notifications as a service.")
@options.source_options
@click.option("--listen", metavar="ADDRESS", help="Listen address (default: [serve] listen, or 127.0.0.1:9109).")
@options.RECORD
@click.option("--judge-every", metavar="DURATION", help="Interval at which the whole fleet is diagnosed.")
@click.option("--forecast-every", metavar="DURATION", help="Interval at which the next day of every pool is forecast.")
def command(**params: Any) -> None:
    """Receive Alertmanager webhooks at /alertmanager, diagnose each incident, and send the result to the outputs in
    [serve].

    Every verdict is stored in the incident database (`inferdoc history`). The web UI is at /, the API at /api/v1,
    metrics at /metrics. Other hosts need credentials. SIGTERM finishes running diagnoses first.
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

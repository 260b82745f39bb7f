"""From the command line to a running service."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from inferdoc.catalogue.load import Catalogue
from inferdoc.catalogue.own_metrics import Families
from inferdoc.config import Config, record_file
from inferdoc.expose.exporter import address_of
from inferdoc.expose.rounds import Rounds
from inferdoc.expose.work import FORECAST_SECONDS, forecasts
from inferdoc.extras import needed
from inferdoc.fleet.members import assignments_of
from inferdoc.forecast.command import Origin
from inferdoc.forecast.result import Forecast
from inferdoc.incidents.alert_rules import own_rules
from inferdoc.incidents.record import Record
from inferdoc.serve.callers import callers_of, known_hosts
from inferdoc.serve.dispatch import Dispatcher
from inferdoc.serve.gate import Gate
from inferdoc.serve.runner import Runner
from inferdoc.serve.outputs.sending import address
from inferdoc.serve.overview import Overview
from inferdoc.source.configured import open_configured
from inferdoc.times import seconds_of


def serve(
    config: Config,
    catalogue: Catalogue,
    asked: Mapping[str, Any],
    headers: Mapping[str, str],
    say: Callable[[str], None],
    config_file: str | None = None,
    overlays: Sequence[str] = (),
) -> None:
    """Run until told to end. asked: the options of the command line by name. Raises ConfigError, RecordError."""
    with needed("starlette", "inferdoc serve"):
        import starlette  # noqa: F401
    with needed("uvicorn", "inferdoc serve"):
        import uvicorn  # noqa: F401
    from inferdoc.serve.app import Service
    from inferdoc.serve.server import bound, server, shown_address

    section = config.serve
    if asked.get("listen"):
        section = msgspec.structs.replace(section, listen=asked["listen"])
    if asked.get("record"):
        section = msgspec.structs.replace(section, record=asked["record"])
    host, port = address_of(section.listen, "[serve] listen =")
    access = callers_of(section, host)
    for output in section.outputs:
        if output.kind not in ("file", "pagerduty"):
            address(output)
    every = float(seconds_of(asked["judge_every"], "--judge-every")) if asked.get("judge_every") else None
    source = {name: asked.get(name) for name in SOURCE if asked.get(name)}
    looker = Runner(source, own_rules(), config_file, tuple(overlays), headers, section.deadline)
    listening = bound(host, port)
    record = Record(record_file(msgspec.structs.replace(config, serve=section)), writing=True)
    try:
        dispatcher = Dispatcher(
            record,
            looker,
            section.outputs,
            say,
            section.concurrency,
            section.public_url,
            section.record_days * 86_400,
            section.retry_hours * 3600,
        )
        overview = Overview(looker, every, say)
        families = Families(catalogue.exporters["inferdoc"])
        ahead = _forecasts(config, catalogue, asked, headers, overlays, say)
        service = Service(section, record, dispatcher, overview, families, overlays, ahead)
        app = Gate(service.application(), access, known_hosts(section, host) if not access.needed else None)
        # uvicorn hands the signal on when it is done: without a handler that would end the process before the record
        # is closed, and with another exit code than 0.
        signal.signal(signal.SIGTERM, lambda *_: None)
        say(f"listening on {shown_address(listening)}")
        server(app, section.deadline).run(sockets=[listening])
    finally:
        record.close()
        listening.close()


def _forecasts(
    config: Config,
    catalogue: Catalogue,
    asked: Mapping[str, Any],
    headers: Mapping[str, str],
    overlays: Sequence[str],
    say: Callable[[str], None],
) -> Rounds[Sequence[Forecast]] | None:
    """The load of the next day of every pool, made again and again, where that is asked for."""
    if not asked.get("forecast_every"):
        return None

    def opened() -> tuple[Any, Any, Any, Any]:
        source = open_configured(config, asked, overlays, headers)
        return source, catalogue.tiers, assignments_of(config.pods), catalogue.slos

    work = forecasts(Origin(open=opened), FORECAST_SECONDS)
    return Rounds("forecast", work, seconds_of(asked["forecast_every"], "--forecast-every"), say)


SOURCE = ("prometheus", "store", "bearer_token_file", "username", "password_file", "ca_file", "timeout")
"""Options of the source, which every look opens anew."""

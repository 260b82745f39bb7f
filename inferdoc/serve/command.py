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
from inferdoc.incidents.intake import own_rules
from inferdoc.incidents.record import Record
from inferdoc.serve.callers import callers_of, known_hosts
from inferdoc.serve.dispatch import Dispatcher
from inferdoc.serve.gate import Gate
from inferdoc.serve.outputs.sending import address
from inferdoc.serve.overview import Overview
from inferdoc.serve.runner import Runner
from inferdoc.source.configured import open_configured
from inferdoc.times import seconds_of


def serve(
    config: Config,
    catalogue: Catalogue,
    params: Mapping[str, Any],
    headers: Mapping[str, str],
    log: Callable[[str], None],
    config_file: str | None = None,
    overlays: Sequence[str] = (),
) -> None:
    """Run until stopped. params: the options of the command line by name. Raises ConfigError, RecordError."""
    with needed("starlette", "inferdoc serve"):
        import starlette  # noqa: F401
    with needed("uvicorn", "inferdoc serve"):
        import uvicorn  # noqa: F401
    from inferdoc.serve.app import Service
    from inferdoc.serve.server import bound, server, shown_address

    section = config.serve
    if params.get("listen"):
        section = msgspec.structs.replace(section, listen=params["listen"])
    if params.get("record"):
        section = msgspec.structs.replace(section, record=params["record"])
    host, port = address_of(section.listen, "[serve] listen =")
    access = callers_of(section, host)
    for output in section.outputs:
        if output.kind not in ("file", "pagerduty") and output.channel is None:
            address(output)
    every = float(seconds_of(params["judge_every"], "--judge-every")) if params.get("judge_every") else None
    source = {name: params.get(name) for name in SOURCE if params.get(name)}
    runner = Runner(source, own_rules(), config_file, tuple(overlays), headers, section.deadline)
    listening = bound(host, port)
    record = Record(record_file(msgspec.structs.replace(config, serve=section)), writing=True)
    try:
        dispatcher = Dispatcher(
            record,
            runner,
            section.outputs,
            log,
            section.concurrency,
            section.public_url,
            section.record_days * 86_400,
            section.retry_hours * 3600,
        )
        overview = Overview(runner, every, log)
        families = Families(catalogue.exporters["inferdoc"])
        ahead = _forecasts(config, catalogue, params, headers, overlays, log)
        service = Service(section, record, dispatcher, overview, families, overlays, ahead)
        app = Gate(service.application(), access, known_hosts(section, host) if not access.needed else None)
        # uvicorn hands the signal on when it is done: without a handler that would end the process before the record
        # is closed, and with another exit code than 0.
        signal.signal(signal.SIGTERM, lambda *_: None)
        log(f"listening on {shown_address(listening)}")
        server(app, section.deadline).run(sockets=[listening])
    finally:
        record.close()
        listening.close()


def _forecasts(
    config: Config,
    catalogue: Catalogue,
    params: Mapping[str, Any],
    headers: Mapping[str, str],
    overlays: Sequence[str],
    log: Callable[[str], None],
) -> Rounds[Sequence[Forecast]] | None:
    """Repeated forecasts of the next day of every pool; None without --forecast-every."""
    if not params.get("forecast_every"):
        return None

    def opened() -> tuple[Any, Any, Any, Any]:
        source = open_configured(config, params, overlays, headers)
        return source, catalogue.tiers, assignments_of(config.pods), catalogue.slos

    work = forecasts(Origin(open=opened), FORECAST_SECONDS)
    return Rounds("forecast", work, seconds_of(params["forecast_every"], "--forecast-every"), log)


SOURCE = ("prometheus", "store", "bearer_token_file", "username", "password_file", "ca_file", "timeout")
"""Options of the source, which every run opens again."""

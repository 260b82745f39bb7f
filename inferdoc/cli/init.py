"""`inferdoc init`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from inferdoc.cli import messages, options
from inferdoc.escaping import one_line, page


@dataclass(frozen=True)
class FoundServer:
    """A server that responds. address: where it is read now; stored: what the configuration names; comment: how that is
    reached; how: where it was found."""

    address: str
    stored: str
    how: str
    comment: str | None = None


@click.command("init", short_help="Find a Prometheus, show the fleet and write inferdoc.toml.")
@options.source_options
@click.option(
    "--out",
    "path",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("inferdoc.toml"),
    show_default=True,
    metavar="FILE",
    help="Configuration file to write.",
)
@click.option("--force", is_flag=True, help="Replacement of an existing FILE.")
def command(path: Path, force: bool, **params: Any) -> int:
    """Find a Prometheus, show engines, pools, tiers and what is missing, and write inferdoc.toml.

    Looks at --prometheus, INFERDOC_PROMETHEUS_URL, the configuration, localhost:9090, services of the cluster that this
    pod runs in, and services that kubectl lists. Exit 1 where no engine is found, 4 without a server.
    """
    from inferdoc.errors import InferdocError, SourceError
    from inferdoc.replacing import replace_file
    from inferdoc.report.first_run import NEXT, configuration_text, fleet_lines, fleet_of

    if params.get("store"):
        raise click.UsageError("--store is not supported by init; run `inferdoc doctor --store PATH`")
    if path.exists() and not force:
        raise InferdocError(f"{path}: file exists; pass --force to replace it, or --out FILE")
    config = options.configuration()
    with _server(config.source.prometheus, params) as server:
        if server is None:
            raise SourceError(
                "no Prometheus found: give --prometheus URL, run where kubectl reaches the cluster, or fill a store "
                "with inferdoc collect --target URL"
            )
        click.echo(one_line(f"prometheus  {server.stored} ({server.how})"))
        messages.note(f"reading the last 15 minutes of {server.address}")
        source = options.source(config, params | {"prometheus": server.address})
        fleet, visibility = fleet_of(source, config, options.catalogue(config))
    click.echo(page(list(fleet_lines(fleet, visibility))))
    text = configuration_text(server.stored, [member.pool for member in fleet.members], server.comment)
    try:
        replace_file(path, text.encode())
    except OSError as error:
        raise InferdocError(f"{path}: cannot be written: {error.strerror}") from None
    click.echo(one_line(f"written     {path}"))
    first = [server.comment] if server.comment else []
    click.echo("\nTry:\n" + "\n".join(f"  {one_line(line)}" for line in (*first, *NEXT)))
    return 0 if fleet.members else 1


@contextmanager
def _server(configured: str | None, params: dict[str, Any]) -> Iterator[FoundServer | None]:
    """The first server that responds, one after the other. A configured server is not tested here: the first read
    reports its error."""
    from inferdoc.cluster.port_forward import forwarded, server_services
    from inferdoc.errors import SourceError
    from inferdoc.source import find_server

    named = params.get("prometheus")
    if named or configured:
        how = "--prometheus" if named else "configured"
        yield FoundServer(str(named or configured), str(named or configured), how)
        return
    messages.note("looking for a Prometheus: localhost:9090, services of this cluster, kubectl")
    for how, addresses in (
        ("on this machine", [find_server.LOCAL]),
        ("service of this cluster", list(find_server.in_cluster(os.environ))),
    ):
        found = find_server.responding(addresses)
        if found is not None:
            yield FoundServer(found, found, how)
            return
    try:
        services = server_services()
    except SourceError as error:
        messages.note(str(error))
        services = []
    for service in services[: find_server.MOST_TRIED]:
        messages.note(f"trying service {service.namespace}/{service.name} through kubectl port-forward")
        with forwarded(service) as address:
            if address is not None and find_server.responding([address]) is not None:
                yield FoundServer(address, find_server.LOCAL, f"kubectl: {service.inside}", service.forward)
                return
    yield None

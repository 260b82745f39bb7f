"""Sources and their metrics: `inferdoc init`, `doctor`, `probe`, `signals`."""

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
from inferdoc.times import timeout_of


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
    metavar="FILE",
    help="Configuration file to write.",
)
@click.option("--force", is_flag=True, help="Replacement of an existing FILE.")
def init(path: Path, force: bool, **params: Any) -> int:
    """Find a Prometheus, show engines, pools, tiers and what is missing, and write inferdoc.toml.

    Looks at --prometheus, INFERDOC_PROMETHEUS_URL, the configuration, localhost:9090, services of the cluster that this
    pod runs in, and services that kubectl lists. Exit 1 where no engine is found, 4 without a server.
    """
    from inferdoc.errors import InferdocError, SourceError
    from inferdoc.replacing import replace_file
    from inferdoc.report.doctor import NEXT, configuration_text, fleet_lines, fleet_of

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


@click.command("doctor", short_help="Check the metrics of a source and list what is missing.")
@options.source_options
@options.named_sources("40s")
@options.WINDOW_LATEST
@click.option("-v", "--verbose", is_flag=True, help="Metrics that would only add evidence.")
def doctor(**params: Any) -> int:
    """Check a source: reachable, fresh, which engines, roles and tiers, which signals are missing and why.

    URL or PATH is as for `inferdoc diagnose`.

    Exit code 1 if no engine can be diagnosed.
    """
    from inferdoc.report.doctor import examine

    config = options.configuration()
    catalogue, place = options.catalogue(config), ", ".join(params["sources"])
    with options.opened(config, params) as source:
        lines, good = examine(source, config, catalogue, params["until"], place=place, verbose=params["verbose"])
    click.echo(page(lines))
    return 0 if good else 1


WORDS = {
    "alive": "the engine generates tokens",
    "slow": "the engine generates tokens, and slowly",
    "hung": "the engine accepts requests and generates no token",
    "refused": "the server refuses the request",
    "down": "the server does not accept connections",
}


@click.command("probe", short_help="Send one request of one token: alive, slow, hung, refused or down.")
@click.argument("url")
@click.option("--timeout", default="20s", metavar="DURATION", help="Deadline of the request.")
@options.HEADER
@click.option("--model", metavar="NAME", help="Model to request. Default: the first that the server lists.")
def probe(url: str, timeout: str, headers: tuple[str, ...], model: str | None) -> int:
    """Send one completion request of one token to an engine or a router.

    Metrics cannot distinguish a hung engine from one whose gauges are stale; a request can. Nothing is sent unless you
    run this command. Example: inferdoc probe http://localhost:8000

    Exit codes: 0 alive, 1 slow, hung, refused or down, 2 usage error.
    """
    from inferdoc.collect.probe import probe

    found = probe(url, timeout_of(timeout), options.parse_headers(headers), model)
    click.echo(f"{found.outcome.upper()}  {url}: {WORDS[found.outcome]} ({found.detail}, {found.seconds:.2f} s)")
    return 0 if found.outcome == "alive" else 1


@click.command("signals", short_help="Show the newest signals and their target range.")
@options.source_options
@options.named_sources("40s")
@options.WINDOW_LATEST
@click.option("--pod", help="Pod to show.")
@click.option("--namespace", help="Namespace to show.")
@click.option("--signal", "signals", multiple=True, help="Signal to show. Repeatable.")
@click.option("--health", is_flag=True, help="Monitoring table with target ranges and SLOs.")
@click.option("--list", "listed", is_flag=True, help="List of all signals; no source is read.")
@options.output("text", "json")
def signals(**params: Any) -> int:
    """Show the newest value of every signal per pod. With --health, the monitoring table: each row per tier and role
    against its target band, its objective and what was usual before, and how to switch on what is not visible. ! marks
    what affects users, with what it means and what to do; ~ what is outside its target and affects nobody. Exit 1 if
    anything affects users.

    URL or PATH is as for `inferdoc diagnose`.
    """
    from inferdoc.report.health import HURTING, Shown, table
    from inferdoc.report.health import as_json as health_json
    from inferdoc.report.health import as_text as health_text
    from inferdoc.report.signals import as_json, as_text, listing, readings

    config = options.configuration()
    catalogue = options.catalogue(config)
    if params["listed"]:
        click.echo(listing(catalogue))
        return 0
    as_document, shown = params["output"] == "json", Shown(params["pod"], params["namespace"], params["signals"])
    with options.opened(config, params) as source:
        if not params["health"]:
            rows = shown.rows(readings(source, config, catalogue, params["until"]), catalogue)
            click.echo(as_json(rows) if as_document else as_text(rows))
            return 0
        lines = shown.lines(table(source, config, catalogue, params["until"]), catalogue)
    click.echo(health_json(lines) if as_document else health_text(lines))
    return 1 if any(line.state in HURTING for line in lines) else 0

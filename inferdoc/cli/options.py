"""Options that several commands share, and what they open."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from inferdoc.cli import messages
from inferdoc.cli.streams import StatusLine, show

if TYPE_CHECKING:
    from inferdoc.catalogue.load import Catalogue
    from inferdoc.collect.scrape import ScrapeOptions
    from inferdoc.config import Config
    from inferdoc.incidents.record import Record
    from inferdoc.json_document import JsonDocument
    from inferdoc.pages.diagnosis import Pace
    from inferdoc.source.identified import Identified
    from inferdoc.source.recognise import Recognised


Decorated = TypeVar("Decorated", bound=Callable[..., Any])
Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]
T = TypeVar("T")
D = TypeVar("D", bound="JsonDocument")


def stacked(*decorators: Decorator) -> Decorator:
    """Several options as one decorator, in the order of the help."""

    def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(decorators):
            function = option(function)
        return function

    return decorated


HEADER = click.option(
    "--header",
    "headers",
    multiple=True,
    metavar="NAME: VALUE",
    help="Header of every request, e.g. X-Scope-OrgID: team-a.",
)
source_options = stacked(
    click.option("--prometheus", metavar="URL", help="URL of a server with the Prometheus HTTP API."),
    click.option("--store", metavar="PATH", help="Path of the embedded store."),
    click.option("--bearer-token-file", metavar="FILE", help="File with the bearer token of the server."),
    click.option("--username", metavar="NAME", help="User for basic authentication. Requires --password-file."),
    click.option("--password-file", metavar="FILE", help="Password file (or INFERDOC_PROMETHEUS_PASSWORD)."),
    click.option("--ca-file", metavar="FILE", help="CA bundle that verifies the server certificate."),
    HEADER,
    click.option(
        "--timeout",
        metavar="DURATION",
        help="Time limit of one read with retries (default: 60s for a server, 10m for a store).",
    ),
)
"""--prometheus, --store and how to authenticate."""
engine_options = stacked(
    click.option(
        "--engine",
        type=click.Choice(["local", "ray", "dask"]),
        help="Workers that read a store: local processes, or actors of a Ray or Dask cluster.",
    ),
    click.option("--workers", type=click.IntRange(min=1), metavar="N", help="Number of workers (default: all)."),
    click.option(
        "--address", metavar="ADDRESS", help="Address of a running Ray or Dask cluster that can read the store path."
    ),
)
"""Who reads a store."""
part_of_pools = stacked(
    click.option(
        "-l",
        "--label",
        "labels",
        multiple=True,
        metavar="LABEL=VALUE",
        help="Filter on series before they are read and compared (also !=, =~, !~). Use --pod to report on one pod.",
    ),
    click.option("--model", help="Served model to report on; all pods are still compared."),
    click.option("--namespace", help="Namespace to report on."),
    click.option("--cluster", help="Cluster to report on."),
    click.option("--tier", help="Hardware tier to report on."),
    click.option("--role", type=click.Choice(["prefill", "decode", "both"]), help="Role to report on."),
)
"""-l filters series, the others filter the report."""
part_of_fleet = stacked(part_of_pools, click.option("--pod", help="Pod to report on."))


window_end = click.option(
    "--until",
    default="now",
    metavar="TIME",
    help="End of the window: a time, now, or latest (the newest sample).",
)
WINDOW_LATEST = click.option(
    "--until", default="latest", metavar="TIME", help="End of the window: a time, now, or latest."
)
FROM = click.option("--from", "begin", metavar="TIME", help="Start of the window: RFC 3339 or Unix seconds.")
NUMBERS = click.option("-v", "--verbose", is_flag=True, help="Formula, inputs and source of each number.")
GOOD_REQUEST = stacked(
    click.option("--ttft", metavar="DURATION", help="TTFT limit of a good request (default: the SLO)."),
    click.option("--tpot", metavar="DURATION", help="TPOT limit of a good request (default: the SLO)."),
)
SERVED_MODEL = click.option(
    "--model", metavar="FILE|NAME", help="Model: a config.json, its folder, or a known name (default: as served)."
)
STORE_TO_WRITE = click.option("--store", metavar="PATH", help="Embedded store to write (default: the configured one).")


def named_sources(look_for: str) -> Decorator:
    """Source arguments whose type is detected. look_for: default scrape time of a live URL."""
    return stacked(
        click.argument("sources", nargs=-1, metavar="[URL|PATH]..."),
        click.option(
            "--for",
            "look_for",
            default=look_for,
            metavar="DURATION",
            help="Scrape time of a live URL.",
        ),
        click.option(
            "--interval",
            default="5s",
            metavar="DURATION",
            help="Scrape interval of a live URL.",
        ),
    )


def output(*forms: str, words: str | None = None) -> Callable[[Decorated], Decorated]:
    """-o, --output: the forms of an answer, the default first."""
    return click.option("-o", "--output", type=click.Choice(forms), default=forms[0], help=words)


def most_series(default: int, of_what: str) -> Callable[[Decorated], Decorated]:
    """--max-series: a bound on what one input may bring."""
    return click.option(
        "--max-series",
        type=click.IntRange(min=1),
        default=default,
        metavar="N",
        help=f"Series limit of a {of_what}; metrics with the most series are dropped first.",
    )


RECORD = click.option(
    "--record", metavar="PATH", help="Incident database (default: [serve] record, or the data folder)."
)


def configuration() -> Config:
    """The configuration of this run."""
    from inferdoc.config import load_config

    return load_config(_globals().get("config_file"))


def _globals() -> dict[str, Any]:
    """The values of the global flags; empty where a command runs on its own."""
    found: dict[str, Any] = click.get_current_context().find_root().obj or {}
    return found


def in_context(work: Callable[[], T]) -> Callable[[], T]:
    """The work as another thread can do it, with the global flags of this command."""
    context = click.get_current_context()

    def done() -> T:
        with context.scope(cleanup=False):
            return work()

    return done


def debugging() -> bool:
    """Whether --debug was given."""
    return bool(_globals().get("debug"))


def overlays(config: Config) -> tuple[str, ...]:
    """Overlay folders: those of the configuration, then --catalogue."""
    return (*config.catalogue, *_globals().get("catalogue", ()))


def catalogue(config: Config) -> Catalogue:
    """The catalogue with the user's overlays."""
    from inferdoc.catalogue.load import load_catalogue
    from inferdoc.config import config_file, promises_of

    promises = promises_of(config_file(config_path()), config.slo)
    return load_catalogue(overlays(config), disabled=config.recipes.disabled, promises=promises)


def source(config: Config, params: dict[str, Any]) -> Identified:
    """Open the source: flag, environment, configuration, else the default embedded store."""
    from inferdoc.source.configured import open_configured

    one_source(params)
    store_path(config, params.get("store"))
    headers = parse_headers(params.get("headers") or ())
    return open_configured(config, params, overlays(config), headers, _show_parts)


@contextmanager
def opened(config: Config, params: dict[str, Any]) -> Iterator[Identified]:
    """The source by its name or its flag. Pages are kept in a store for as long."""
    pages = named(params)
    if pages is None:
        yield source(config, params)
        return
    _only_one(params, "store")
    from inferdoc.pages.diagnosis import store_pages

    with store_pages(pages, scraping(params), pace(params), messages.note) as path:
        yield source(config, params | {"store": str(path)})


def pace(params: dict[str, Any]) -> Pace:
    """Scrape time and interval of a live URL."""
    from inferdoc.pages.diagnosis import Pace
    from inferdoc.times import length_of

    return Pace(max(1.0, length_of(params["interval"], "--interval")), length_of(params["look_for"], "--for"))


def one_source(params: dict[str, Any]) -> None:
    """Refuse two sources."""
    if params.get("prometheus") and params.get("store"):
        raise click.UsageError("--prometheus and --store are mutually exclusive")


def config_path() -> str | None:
    """The configuration file that was named, None where none was."""
    path: str | None = _globals().get("config_file")
    return path


def scraping(params: dict[str, Any]) -> ScrapeOptions:
    """How pages are scraped: with the credentials of the flags alone. Those of the configuration belong to its server,
    not to whatever is named on a command line."""
    from inferdoc.collect.scrape import ScrapeOptions

    def path(name: str) -> Path | None:
        return Path(params[name]) if params.get(name) else None

    return ScrapeOptions(
        ca_file=path("ca_file"),
        bearer_token_file=path("bearer_token_file"),
        username=params.get("username"),
        password_file=path("password_file"),
        headers=parse_headers(params.get("headers") or ()),
    )


def named(params: dict[str, Any]) -> list[Recognised] | None:
    """What the arguments of a command are, where they are pages; a server or a store among them is put in the place of
    its flag instead."""
    texts = params.get("sources") or ()
    if not texts:
        return None
    from inferdoc.pages.diagnosis import is_served, recognised

    _only_one(params, "prometheus")
    found = recognised(texts, scraping(params))
    if not is_served(found):
        return found
    _only_one(params, "store")
    params[found[0].kind] = found[0].address
    return None


def _only_one(params: dict[str, Any], flag: str) -> None:
    """Refuse a flag that names another source than the arguments do."""
    if params.get(flag):
        raise click.UsageError(f"{params['sources'][0]} and --{flag} are mutually exclusive")


def parse_headers(texts: Iterable[str]) -> dict[str, str]:
    """The values of --header as a dict. A text that is refused is not repeated: it may be a secret."""
    headers = {}
    for text in texts:
        name, colon, value = text.partition(":")
        if not colon or not name.strip():
            raise click.UsageError("--header must be NAME: VALUE")
        headers[name.strip()] = value.strip()
    return headers


def record(params: str | None) -> Record:
    """The incident database."""
    from inferdoc.config import record_file
    from inferdoc.incidents.record import Record

    return Record(params or record_file(configuration()))


def store_path(config: Config, params: str | None) -> str:
    """The embedded store of this run: flag, environment, configuration, else the default one."""
    from inferdoc.config import default_store

    if params is not None and not params.strip():
        raise click.UsageError("--store must not be empty")
    path = params or config.source.store or str(default_store())
    if any(0xD800 <= ord(character) <= 0xDFFF for character in path):
        raise click.UsageError(f"--store {path}: the path must be UTF-8")
    return path


def coloured() -> bool:
    """Whether to colour what goes to standard output: only on a terminal, and not with NO_COLOR or --no-color."""
    return click.get_current_context().color is not False and sys.stdout.isatty()


@contextmanager
def working(what: str) -> Iterator[None]:
    """A line on stderr while something longer runs; nothing where stderr is no terminal."""
    with StatusLine() as line:
        line.show(f"{what} ...")
        token = _status.set(lambda part: line.show(f"{what}: {part}"))
        try:
            yield
        finally:
            _status.reset(token)


_status: ContextVar[Callable[[str], None] | None] = ContextVar("status", default=None)


def _show_parts(done: int, of: int) -> None:
    """Show in the status line how many workers responded."""
    show_part = _status.get()
    if show_part is not None:
        show_part(f"{done} of {of} workers responded")


def answer_from_source(
    params: dict[str, Any], answer: Callable[[Identified, Config, Catalogue, dict[str, Any]], T]
) -> tuple[T, list[str]]:
    """The answer of a command that reads a source, and the warnings of the source."""
    config = configuration()
    opened = source(config, params)
    with working(f"reading {opened.location}"):
        found = answer(opened, config, catalogue(config), params)
    return found, opened.warnings


def show_as(form: str, rows: Sequence[T], text: Callable[[Sequence[T]], str]) -> None:
    """Print rows as JSON, else as text."""
    from inferdoc.report.printable import indented_json

    show(indented_json(rows) if form == "json" else text(rows))


def print_answer(
    answer: D,
    params: dict[str, Any],
    text: Callable[..., str],
    *,
    warnings: Iterable[str] = (),
    **forms: Callable[[D], str],
) -> None:
    """Print an answer, then warnings. text: lines for a terminal; forms: what else --output may name."""
    from inferdoc.escaping import lines
    from inferdoc.report.printable import printable

    form = params["output"]
    if form == "text":
        verbose = {"verbose": params["verbose"]} if "verbose" in params else {}
        colour = coloured()
        show(text(printable(answer, type(answer)), **verbose, colour=colour), coloured=colour)
    else:
        show(lines(answer.to_json()) if form == "json" else forms[form](answer))
    messages.warn(warnings)

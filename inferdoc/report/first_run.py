"""What a first run shows of a source, and the configuration file that it writes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from inferdoc.catalogue.load import Catalogue
from inferdoc.config import Config
from inferdoc.fleet.members import Fleet, Pool, assignments_of, resolve
from inferdoc.judging.reading import read_window
from inferdoc.judging.session import needed_signals
from inferdoc.judging.visibility import Visibility, gains, scraped_once
from inferdoc.report.wrapping import wrap
from inferdoc.source.base import Source
from inferdoc.words import how_many

LOOK_BACK = "15m"
MOST_POOLS, MOST_MISSING = 12, 3
NEXT = (
    "inferdoc diagnose --since 1h",
    "inferdoc alerts build --set pages --out rules",
    "inferdoc dashboards build --out boards",
)


def fleet_of(source: Source, config: Config, catalogue: Catalogue) -> tuple[Fleet, Visibility]:
    """Who is there, and which signals are visible. Raises SourceError where the source cannot be read."""
    frame, scrapes = read_window(source, needed_signals(catalogue), catalogue, LOOK_BACK, None, "latest")
    names = source.names(frame.grid.oldest_ms, frame.grid.end_ms)
    fleet = resolve(frame, catalogue.tiers, assignments_of(config.pods))
    return fleet, Visibility(catalogue, names, frame.signals, scraped_once(scrapes))


def fleet_lines(fleet: Fleet, visibility: Visibility) -> Iterator[str]:
    """Engines, pools, tiers and what is missing, for people."""
    pools = Counter(member.pool for member in fleet.members)
    yield f"engines     {how_many(len(fleet.members), 'engine')} in {how_many(len(pools), 'pool')}"
    for pool, pods in list(pools.items())[:MOST_POOLS]:
        yield from wrap(f"{pool.model or '?'}: {how_many(pods, 'pod')}, {_about(pool)}", "pool        ")
    if len(pools) > MOST_POOLS:
        yield f"            and {len(pools) - MOST_POOLS} more; inferdoc doctor lists all"
    recipes = visibility.catalogue.recipes.values()
    evaluated = sum(visibility.judges(recipe) for recipe in recipes)
    yield f"causes      {evaluated} of {len(recipes)} can be evaluated"
    absent = (name for name in needed_signals(visibility.catalogue) if name not in visibility.visible)
    missing = [(fix, names) for fix, names in gains(visibility, recipes, absent).items() if names]
    for fix, names in missing[:MOST_MISSING]:
        yield from wrap(f"{fix} (adds {how_many(len(names), 'cause')})", "missing     ")
    if len(missing) > MOST_MISSING:
        yield f"            and {len(missing) - MOST_MISSING} more; inferdoc doctor lists all"


def configuration_text(prometheus: str, pools: Sequence[Pool], comment: str | None = None) -> str:
    """The text of an inferdoc.toml for a server. comment: how the address is reached, in the line above it."""
    unknown = sorted({pool.model for pool in pools if pool.tier == "unknown"})
    models = sorted({pool.model for pool in pools if pool.model})
    reach = f"# {comment}\n" if comment else ""
    return f"""\
# inferdoc.toml, written by `inferdoc init`. All settings: inferdoc.toml.example.

[source]
{reach}prometheus = {_quoted(prometheus)}
# bearer_token_file = "/var/run/secrets/token"

# Where runbooks and dashboards are: links in alerts and reports.
[links]
# runbook_base = "https://runbooks.example.org"      # default: public_url of [serve], which hosts them
# dashboard_base = "https://grafana.example.org"

# What you promise your users. `inferdoc slo suggest` prints entries from your history.
# [[slo]]
# signal = "ttft"
# percentile = 99
# target = 2.5
# model = {_quoted(models[0] if models else "llama-3.1-70b")}

# The hardware of pods, if the metrics do not show it{f" (here: {', '.join(unknown)})" if unknown else ""}.
# [[pods]]
# pod = "vllm-.*"
# tier = "h100-80"
"""


def _about(pool: Pool) -> str:
    place = f", {pool.place}" if pool.place else ""
    return f"role {pool.role}, tier {pool.tier}{place}"


def _quoted(text: str) -> str:
    """A TOML string: its escapes are those of JSON."""
    return msgspec.json.encode(text).decode()

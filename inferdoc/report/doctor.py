"""Check a source, show the fleet that it holds, and write a configuration for it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import msgspec

from inferdoc.catalogue.load import Catalogue
from inferdoc.catalogue.recognise_names import by_form
from inferdoc.config import Config
from inferdoc.extras import DISTRIBUTION
from inferdoc.fleet.down_targets import unscraped
from inferdoc.fleet.members import Fleet, Pool, assignments_of, resolve
from inferdoc.generate.board_spec import load_boards
from inferdoc.installed import rivals
from inferdoc.judging.reading import read_window
from inferdoc.judging.session import needed_signals
from inferdoc.judging.visibility import ONE_SCRAPE, Visibility, gains, scraped_once
from inferdoc.report.wrapping import fitted, wrap
from inferdoc.source.base import Scrapes, Source
from inferdoc.source.frame import Entity, SignalFrame
from inferdoc.source.identified import Findings, Identified
from inferdoc.source.processes import Copies, Crowd
from inferdoc.times import Moment
from inferdoc.words import figure, how_many, lasting, some

POD_FIX = "relabel __meta_kubernetes_pod_name to pod, or name the label that holds it under [labels] in inferdoc.toml"
GPU_FIX = "mount the kubelet's pod-resources socket (/var/lib/kubelet/pod-resources) into the GPU exporter"
NAMED = 4


def label_lines(found: Findings, replica: tuple[str, ...], scraped: bool) -> Iterator[str]:
    """One line per problem of the labels, nothing for ordinary labels. replica: labels of the
    server that stored a series; scraped: whether there is any `up`."""
    yield from (_copies(each, replica) for each in found.copies)
    clusters = [crowd for crowd in found.crowds if crowd.is_cluster]
    if clusters:
        names, label = sorted({crowd.name for crowd in clusters}), clusters[0].by
        yield (
            f"several processes behind each of {len(names)} pod labels ({_some(names)}), which {label} distinguishes: "
            f'taken for the cluster; say so with cluster = "{label}" under [labels] in inferdoc.toml'
        )
    crowds: dict[tuple[str, str | None], Crowd] = {}
    for crowd in found.crowds:
        crowds.setdefault((crowd.name, crowd.by), crowd)
    for crowd in crowds.values():
        head = f"{crowd.processes} processes behind one pod label ({crowd.name})"
        if crowd.is_cluster:
            continue
        if crowd.by is None:
            yield f"{head} and no label that distinguishes them: keep the label instance; {POD_FIX}"
        else:
            yield f"{head}: kept apart by {crowd.by}; {POD_FIX}"
    if found.mixed:
        yield (
            f"several processes write the same series ({_some(found.mixed)}), whose totals fall all the time: "
            "no rate of them is right; keep the label instance"
        )
    if found.without_pod and not found.crowds and found.gpus and not found.gpus_joined:
        yield f"engines carry no pod label, so no GPU can be joined to them; {POD_FIX}"
    elif not found.without_pod:
        yield from _gpus(found)
    if found.without_model:
        yield (
            f"{found.without_model} of {found.engines} engines show no model_name: pools of several models cannot be "
            "distinguished; remove the labeldrop of model_name"
        )
    if found.engines and not scraped:
        yield "no up series: outages and gaps of targets are not visible; keep up if series are dropped"


def _copies(copies: Copies, replica: tuple[str, ...]) -> str:
    first, values = copies.labels[0], _some(copies.values)
    engines = f"{copies.processes} engine{'' if copies.processes == 1 else 's'}"
    if set(copies.labels) <= set(replica):
        return f"{engines} stored by several servers ({first}: {values}), counted once; let the store deduplicate"
    return f"{engines} scraped twice ({first}: {values}), counted once; drop one of the scrape jobs"


def _gpus(found: Findings) -> Iterator[str]:
    hosts = found.hosts
    if hosts.alone:
        yield (
            f"GPU exporters name no pod; by Hostname the GPUs of {_some(sorted(hosts.alone))} are those of the one "
            f"engine there; to be sure, {GPU_FIX}"
        )
    if hosts.crowded:
        names = ", ".join(f"{count} engines on {host}" for host, count in sorted(hosts.crowded.items())[:NAMED])
        yield f"GPU exporters name no pod, and there are {names}: their GPUs are not joined; {GPU_FIX}"
    if hosts.unknown and not found.gpus_joined:
        yield (
            f"GPU exporters name no pod of an engine, and no engine is known on {_some(sorted(hosts.unknown))}: GPUs "
            f"are not joined; {GPU_FIX}, or scrape kube-state-metrics (kube_pod_info has the node of a pod)"
        )


def _some(names: tuple[str, ...] | list[str]) -> str:
    return some(names, NAMED)


LOOK_BACK = "15m"
STALE_SECONDS = 300.0
MOST_PODS = 8
"""Maximum names in a line; of more, the number is printed."""
HEADS = {"off": "not in use: nothing to do unless you expect it", "later": "shows with its first event: nothing to do"}


def examine(
    source: Source, config: Config, catalogue: Catalogue, until: Moment, *, place: str = "", verbose: bool = False
) -> tuple[list[str], bool]:
    """Lines for people, and whether any engine can be judged. place: what the source was called on the command line;
    verbose: also what would only add evidence. Raises SourceError where the source cannot be read."""
    latest = source.latest_ms()
    lines = [*_installed(rivals()), f"source      {place or f'{source.kind} {source.location}'}"]
    if latest is None:
        lines.append(
            "newest      no sample at all: is anything scraped into it? inferdoc collect --target URL fills a store"
        )
        return list(fitted(lines)), False
    age = time.time() - latest / 1000
    note = "  (old: nothing has been written for a while; diagnose with --until latest)" if age > STALE_SECONDS else ""
    lines.append(f"newest      {lasting(max(age, 0.0))} ago{note}")
    needed = needed_signals(catalogue)
    frame, scrapes = read_window(source, needed, catalogue, LOOK_BACK, None, until)
    lines.append(
        f"interval    {figure(frame.grid.interval_ms / 1000, 's')}, rates over {figure(frame.grid.rate_ms / 1000, 's')}"
    )
    fleet = resolve(frame, catalogue.tiers, assignments_of(config.pods))
    lines += _targets(scrapes, fleet)
    names = source.names(frame.grid.oldest_ms, frame.grid.end_ms)
    visibility = _visibility(catalogue, names, frame, scrapes, fleet)
    lines += _fleet(fleet, visibility)
    if isinstance(source, Identified):
        found = label_lines(source.findings, source.replica, bool(scrapes))
        lines += [part for line in found for part in wrap(line, "labels      ")]
        lines += _names(source, catalogue, names)
    lines += _unscraped(unscraped(source, frame.grid, names, fleet))
    lines += _cannot(visibility)
    lines += _missing(visibility, needed, verbose)
    lines += _empty_rows(visibility, catalogue.overlays)
    lines += [f"warning     {warning}" for warning in source.warnings]
    return list(fitted(lines)), bool(fleet.members)


def _installed(others: Sequence[str]) -> Iterator[str]:
    if others:
        names = ", ".join(others)
        yield from wrap(
            f"{names} brings the same module or command as {DISTRIBUTION}, so it is chance which of them runs: pip "
            f"uninstall {' '.join(name.split()[0] for name in others)}, and install {DISTRIBUTION} again",
            "installed   ",
        )


def _targets(scrapes: list[Scrapes], fleet: Fleet) -> list[str]:
    down = [fleet.called(Entity.of_labels(t.labels)) for t in scrapes if len(t.up) and t.up[-1] < 0.5]
    lines = [f"targets     {len(scrapes)}" + (f", down: {', '.join(sorted(down)[:8])}" if down else "")]
    if scraped_once(scrapes):
        lines += wrap(ONE_SCRAPE, " " * 12)
    return lines


def _fleet(fleet: Fleet, visibility: Visibility) -> list[str]:
    if not fleet.members:
        lines = ["engines     none: no series of any in the last 15 minutes; scrape the /metrics page of the API port"]
        titles = ", ".join(exporter.title for exporter in visibility.beside_engines)
        return [*lines, *wrap(titles, "exporters   ")] if titles else lines
    lines = []
    for number, member in enumerate(fleet.members):
        why = dict(member.why)
        head = "engines" if number == 0 else ""
        role, tier = f"role {member.role} ({why['role']})", f"tier {member.tier} ({why['tier']})"
        place = f", {member.pool.place}" if member.pool.place else ""
        lines.append(f"{head:<11} {member.shown}: model {member.pool.model or '?'}, {role}, {tier}{place}")
    return lines


def _names(source: Identified, catalogue: Catalogue, names: Collection[str]) -> Iterator[str]:
    """Under which names series are read, and which names are not understood."""
    found = [each for name, each in source.renamed.found.items() if name in names]
    for (title, prefix, form), families in sorted(by_form(found, catalogue.exporters).items()):
        what = f"{how_many(families, 'metric')} read as {title} under the prefix {prefix}"
        yield from wrap(f"{what} ({form})" if form else what, "names       ")
    for unread in source.not_understood(names):
        near = f"; nearest known: {unread.nearest}" if unread.nearest else ""
        hidden = "an engine is not read: " if unread.hidden else ""
        yield from wrap(
            f"{hidden}{how_many(unread.families, 'metric')} under {unread.word or unread.example} not understood, such "
            f"as {unread.example}{near}",
            "names       ",
        )


def _cannot(visibility: Visibility) -> Iterator[str]:
    """What the engines that are there do not show, and vLLM does."""
    for engine in visibility.engines:
        if engine.cannot:
            yield from wrap(f"{engine.title} cannot show {'; '.join(engine.cannot)}", "cannot      ")


def _missing(visibility: Visibility, needed: Sequence[str], verbose: bool) -> Iterator[str]:
    """What cannot be judged: blind spots by the causes gained, features that are off, series that come later."""
    recipes = visibility.catalogue.recipes.values()
    unjudged = [recipe for recipe in recipes if not visibility.judges(recipe)]
    seen = sum(name in visibility.visible for name in needed)
    yield f"causes      {len(recipes) - len(unjudged)} of {len(recipes)} can be judged"
    yield f"signals     {seen} of {len(needed)} visible"
    reasons = {recipe.id: visibility.reason(recipe) for recipe in unjudged}
    fixes = gains(visibility, recipes, (name for name in needed if name not in visibility.visible))
    if fixes:
        yield ""
        yield "could be seen, by the causes that it would let inferdoc judge"
    for fix, names in fixes.items():
        if names:
            yield from wrap(f"{fix}: {', '.join(names)}", f"  {f'+{len(names)}':<4}")
    idle = [fix for fix, names in fixes.items() if not names]
    if idle and not verbose:
        yield f"      {len(idle)} more would add evidence to causes that can be judged; -v names them"
    for fix in idle if verbose else ():
        yield from wrap(fix, "      evidence: ")
    alone = {name for names in fixes.values() for name in names}
    several = [name for name, reason in reasons.items() if reason.kind == "blind" and name not in alone]
    if several:
        yield from wrap(f"only with several of these: {', '.join(several)}", "      ")
    for kind in ("off", "later"):
        causes: dict[str, list[str]] = {}
        for name, reason in reasons.items():
            if reason.kind == kind:
                causes.setdefault(reason.remedy, []).append(name)
        if causes:
            yield ""
            yield HEADS[kind]
        for fix, names in sorted(causes.items(), key=lambda item: -len(item[1])):
            yield from wrap(f"{fix}: {', '.join(names)}", "  ")


def _empty_rows(visibility: Visibility, overlays: tuple[Path, ...]) -> Iterator[str]:
    """Rows of boards of which no panel shows anything; panels of pods with a feature do not speak for a row."""
    for board, _ in load_boards(overlays).values():
        rows = [(row, [p for p in row.panels if p.signals and p.only is None]) for row in board.rows]
        empty = [
            row.title
            for row, shown in rows
            if shown and not any(name in visibility.visible for panel in shown for name in panel.signals)
        ]
        if empty:
            rows_named = f"row{'s' if len(empty) > 1 else ''} " + ", ".join(f'"{title}"' for title in empty)
            yield from wrap(f"{board.title}: no data for the {rows_named}", "boards      ")


def _unscraped(pods: Sequence[tuple[str, str]]) -> Iterator[str]:
    if not pods:
        return
    shown = some([f"{namespace}/{pod}" for namespace, pod in pods], MOST_PODS)
    yield from wrap(
        f"{shown}: by the image they run an engine, and no page of theirs is scraped. Does a PodMonitor or "
        "ServiceMonitor select them, and does your Prometheus select that monitor (podMonitorSelector, namespaces)?",
        "unscraped   ",
    )


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
    return fleet, _visibility(catalogue, names, frame, scrapes, fleet)


def _visibility(
    catalogue: Catalogue, names: Collection[str], frame: SignalFrame, scrapes: Collection[Scrapes], fleet: Fleet
) -> Visibility:
    models = {member.pool.model for member in fleet.members}
    dense = bool(models) and all(catalogue.is_dense(model or "") for model in models)
    return Visibility(catalogue, names, frame.signals, scraped_once(scrapes), dense)


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

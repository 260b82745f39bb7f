"""Causes that could not be judged, and what would change that; of a source without a working engine the next step."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence

import numpy as np

from inferdoc.catalogue.aliases import declared_series
from inferdoc.catalogue.names import load_identity
from inferdoc.fleet.down_targets import unscraped
from inferdoc.fleet.members import Member
from inferdoc.judging import probes
from inferdoc.judging.judge import SEEN_SHARE, WORK, Judgement, can_judge, waits_seen
from inferdoc.judging.model import Diagnosis, NotJudged, Unknown, stamp
from inferdoc.judging.places import DEFAULT_PORT
from inferdoc.judging.session import Session
from inferdoc.judging.view import HEALTH, Unit, View, by_family
from inferdoc.judging.visibility import Absence, Visibility, scraped_once
from inferdoc.source.base import Scrapes
from inferdoc.source.frame import Entity
from inferdoc.words import how_many, percent

WAITING = "kube_pod_container_status_waiting_reason"
FAILS_TO_START = re.compile(r"CrashLoopBackOff|RunContainerError|StartError")
NO_IMAGE_OR_CONFIG = re.compile(r"ErrImage\w*|ImagePullBackOff|InvalidImageName|CreateContainer\w*Error")
LEAST_NAMES = 3
"""So many names under one prefix are no coincidence."""
MOST_NAMED = 3
PORT = re.compile(r":(\d+)$")
PROBE_MS = 120_000
"""A health check that times out under load for less is no engine that is not healthy (own choice: several probes of the
usual intervals of 15 to 30 s)."""
MOST = 0.5
DOWN_MS = 60_000
"""A router or an engine without a successful scrape for longer is down, and does not only restart."""


def not_judged(judgement: Judgement, visibility: Visibility) -> list[NotJudged]:
    """Causes that no unit could be judged on."""
    found = []
    for name, by_unit in judgement.verdicts.items():
        applying = [verdict for verdict in by_unit.values() if verdict.applies]
        if not applying or not all(verdict.missing for verdict in applying):
            continue
        recipe = visibility.catalogue.recipes[name]
        if not visibility.judges(recipe):
            found.append(_entry(recipe.id, visibility.lacking(recipe), visibility.reason(recipe)))
        else:
            missing = list(dict.fromkeys(signal for verdict in applying for signal in verdict.missing))
            found.append(_entry(recipe.id, missing, _for_these_pods(missing, visibility)))
    return found


def nothing_to_judge(visibility: Visibility) -> list[NotJudged]:
    """Without any engine in the source nothing is judged: every cause with the signals it would need."""
    recipes = [recipe for recipe in visibility.catalogue.recipes.values() if not visibility.judges(recipe)]
    return [_entry(recipe.id, visibility.lacking(recipe), visibility.reason(recipe)) for recipe in recipes]


def _for_these_pods(missing: list[str], visibility: Visibility) -> Absence:
    """Of signals that others show."""
    ways = dict.fromkeys(visibility.catalogue.signals[name].enable for name in missing)
    remedies = "; ".join(way for way in ways if way)
    return Absence("blind", f"not shown for these pods, or not joined to them{': ' if remedies else ''}{remedies}")


def _entry(name: str, missing: list[str], reason: Absence) -> NotJudged:
    return NotJudged(name, missing, reason.remedy, reason.kind)


def explain_unknown(answer: Diagnosis, session: Session) -> None:
    """Put into an answer without a verdict why no engine could be evaluated, and the right next step.

    Without findings, a router or engine that went down in the window is a reason too: engines then show nothing amiss,
    while requests fail before they reach them."""
    if answer.verdict not in ("unknown", "healthy") or answer.rising or answer.stopped:
        return
    found = _probed(session) or _stopped_responding(session)
    if found is None and answer.verdict == "unknown" and not can_judge(session.context):
        ways = (_waiting, _down, _no_engine, _idle, _no_latency)
        found = next((one for way in ways if (one := way(session)) is not None), None)
    if found is not None:
        answer.verdict = "unknown"
        answer.unknown, answer.summary = found, f"{found.because}. {found.do}."


def _stopped_responding(session: Session) -> Unknown | None:
    """A target named like a router or an engine that responded in the window and has been down for a minute. One that
    is no longer scraped was removed, and is not down."""
    identity = load_identity()
    named = re.compile(f"{identity.router_names}|{identity.engine_names}")
    newest = max((int(target.times_ms[-1]) for target in session.scrapes if len(target.up)), default=0)
    for target in session.scrapes:
        good = np.flatnonzero(target.up >= 0.5)
        called = " ".join(target.labels.get(name, "") for name in ("pod", "job"))
        scraped = len(good) and newest - target.times_ms[-1] < DOWN_MS / 2
        if scraped and named.search(called) and target.times_ms[-1] - target.times_ms[good[-1]] > DOWN_MS:
            return _down_target(session, [target])
    return None


def _in_window(view: View, unit: Unit, name: str) -> np.ndarray:
    """The values of a signal in the window, where it has some: float64[n]."""
    found = view.get(unit, name)
    values = np.empty(0) if found is None else found.values[view.begin :]
    return values[np.isfinite(values)]


def _probed(session: Session) -> Unknown | None:
    view = session.context.view
    return next((found for unit in view.units if (found := probe_trouble(view, unit)) is not None), None)


def probe_trouble(view: View, unit: Unit) -> Unknown | None:
    """Why a pod is not healthy by its probes: the one of the pod or of its Service failed lately or for most of the
    window, or its metrics could not be read lately while its health probe succeeded."""
    member, lately = unit.member, max(1, PROBE_MS // view.frame.grid.step_ms)
    for name, of in ((HEALTH, ""), (probes.SERVICE, "the Service of ")):
        failed = _in_window(view, unit, name) < 1
        if len(failed) and (failed[-lately:].all() or failed.mean() > MOST):
            return Unknown(
                "probe-fails",
                f"The health probe of {of}{member.shown} fails, for {percent(failed.mean())} of the window",
                "Send the request of the probe: it shows an engine that is not healthy, or a wrong URL",
                _show_page(_labels(member), "health"),
            )
    unread = _in_window(view, unit, probes.UNREAD)
    if len(unread) and (unread[-lately:] == 1).all():
        return Unknown(
            "metrics-unread",
            f"The metrics of {member.shown} cannot be read, although its health probe succeeds",
            "Request its /metrics endpoint with a longer deadline, then send one request of one token",
            _show_page(_labels(member)),
        )
    return None


def _waiting(session: Session) -> Unknown | None:
    """A container that does not start, by kube-state-metrics: no scrape can succeed."""
    series = session.source.info(WAITING, session.frame.grid) if WAITING in session.names else []
    now = [one.labels for one in series if np.nan_to_num(one.values[-1:]).any()]
    for reasons, word, do in (
        (FAILS_TO_START, "logs", "Read the log of the previous container: its last lines name what ended it"),
        (
            NO_IMAGE_OR_CONFIG,
            "describe",
            "Read the events of the pod: image name, registry, pull secret, configuration",
        ),
    ):
        hit = _engines_first([one for one in now if reasons.search(one.get("reason", ""))], "pod", "container")
        if hit:
            first = hit[0]
            pod, container, at = first.get("pod", ""), first.get("container", ""), first.get("namespace", "")
            others = f" (and {how_many(len(hit) - 1, 'more container')})" if len(hit) > 1 else ""
            where = f"kubectl{_flag(at)}"
            log = f"{where} logs {shlex.quote(pod)} -c {shlex.quote(container)} --previous --tail=300"
            return Unknown(
                "container-waiting",
                f"Container {container} of pod {at}/{pod} is in {first['reason']}{others}, so it exposes no metrics",
                do,
                log if word == "logs" else f"{where} describe pod {shlex.quote(pod)}",
            )
    return None


def _down(session: Session) -> Unknown | None:
    """Targets whose newest scrape failed."""
    return _down_target(session, [target for target in session.scrapes if len(target.up) and target.up[-1] < 0.5])


def _down_target(session: Session, down: Sequence[Scrapes]) -> Unknown | None:
    """What to do about the first of these targets, engines first; None without any."""
    named = _engines_first([target.labels for target in down], "pod", "job")
    if not named:
        return None
    target = next(each for each in down if each.labels is named[0])
    labels, instance = target.labels, target.labels.get("instance", "")
    called = session.context.view.fleet.called(Entity.of_labels(labels))
    who = f"{called} ({instance})" if instance not in called else called
    others = f" and {how_many(len(named) - 1, 'more target')}" if len(named) > 1 else ""
    error = session.source.scrape_errors().get(instance, "")
    status = re.search(r"HTTP status (\d{3})", error)
    if status:
        do = "The process responds and fails to write its metrics: read its log"
    elif error:
        do = "Check that the process runs and listens on this port"
    else:
        do = "See what its /metrics endpoint returns: nothing, or an HTTP error"
    because = f"Target {who}{others} is down: up is 0 {_since(target)}{f' ({error})' if error else ''}"
    return Unknown("scrape-error" if status else "target-down", because, do, _query(labels, logs=bool(status)))


def _since(target: Scrapes) -> str:
    good = np.flatnonzero(target.up >= 0.5)
    return f"since {stamp(float(target.times_ms[good[-1] + 1]) / 1000)}" if len(good) else "in the whole window"


def _query(labels: Mapping[str, str], logs: bool) -> str:
    """What shows why a target is down: the log of its pod, or its page by way of the API server."""
    pod, at = labels.get("pod", ""), labels.get("namespace", "")
    if logs and pod:
        return f"kubectl{_flag(at)} logs {shlex.quote(pod)} --tail=300"
    where = f"kubectl{_flag(at)} get pod {shlex.quote(pod)} -o wide; " if pod else ""
    return f"{where}{_show_page(labels)}"


def _labels(member: Member) -> dict[str, str]:
    pod = "" if member.pod == member.instance else member.pod
    return {"pod": pod, "namespace": member.pool.namespace, "instance": member.instance}


def _show_page(labels: Mapping[str, str], path: str = "metrics") -> str:
    """What prints the metrics of a target, or another of its pages, of a pod by way of the API server."""
    pod, at, instance = labels.get("pod", ""), labels.get("namespace", ""), labels.get("instance", "")
    if not pod:
        return f"curl -sS -i -m 10 {shlex.quote(f'http://{instance}/{path}')}"
    port = found.group(1) if (found := PORT.search(instance)) else DEFAULT_PORT
    proxy = f"/api/v1/namespaces/{at or 'default'}/pods/{pod}:{port}/proxy/{path}"
    return f"kubectl get --raw {shlex.quote(proxy)}"


def _no_engine(session: Session) -> Unknown | None:
    """Targets that respond, none of which shows the names of an engine."""
    if any(unit.member.shows_engine for unit in session.context.view.units) or not session.scrapes:
        return None
    renamed = _other_names(session)
    if renamed is not None:
        prefix, title, family, example, count = renamed
        return Unknown(
            "other-names",
            f"No engine metrics under their own names, but {how_many(count, 'name')} of {title} under the prefix "
            f"{prefix} ({example})",
            f'Rename them in metric_relabel_configs of the scrape job: source_labels [__name__], regex "{prefix}(.+)", '
            f'target_label __name__, replacement "{family}$1"',
            None,
        )
    (labels, *_) = _engines_first([target.labels for target in session.scrapes], "pod", "job")
    pods = [f"{at}/{pod}" for at, pod in _unscraped(session)]
    more = f"; {', '.join(pods[:MOST_NAMED])} run an engine image, and nothing scrapes them" if pods else ""
    return Unknown(
        "no-engine-metrics",
        f"{how_many(len(session.scrapes), 'target')} responded, none with metrics of an engine{more}",
        "Scrape /metrics on the port of the API server (vLLM: 8000), and let no relabelling drop its names",
        _show_page(labels) if PORT.search(labels.get("instance", "")) else None,
    )


def _unscraped(session: Session) -> list[tuple[str, str]]:
    return unscraped(session.source, session.frame.grid, session.names, session.context.view.fleet)


def _other_names(session: Session) -> tuple[str, str, str, str, int] | None:
    """Prefix, title and family of an engine, an example and the number of its names, where they stand under a prefix
    that no exporter declares."""
    engines = [exporter for exporter in session.catalogue.exporters.values() if exporter.page == "engine"]
    ends = {
        re.sub(rf"^{engine.family}[:_]", "", name): (engine, name)
        for engine in engines
        for name in declared_series([engine])
        if re.match(rf"{engine.family}[:_]", name)
    }
    declared = {*declared_series(session.catalogue.exporters.values())}
    found: dict[tuple[str, str], list[str]] = {}
    for name in session.names:
        if name in declared:  # of another program, which has a name of its own for it
            continue
        for at in (each.end() for each in re.finditer(r"[:_]", name)):
            if name[at:] in ends:
                found.setdefault((name[:at], ends[name[at:]][0].exporter), []).append(name)
                break
    (prefix, exporter), names = max(found.items(), key=lambda each: len(each[1]), default=(("", ""), []))
    if len(names) < LEAST_NAMES:
        return None
    engine, name = session.catalogue.exporters[exporter], min(names)
    own = ends[name.removeprefix(prefix)][1]
    return prefix, engine.title, own.removesuffix(name.removeprefix(prefix)), name, len(names)


def _idle(session: Session) -> Unknown | None:
    """Engines that show no work at all."""
    view = session.context.view
    rows = [series.values for unit in view.units for name in WORK if (series := view.get(unit, name)) is not None]
    seen = [row[np.isfinite(row)] for row in rows]
    if not any(map(len, seen)) or any(row.any() for row in seen):
        return None
    member = view.units[0].member
    at = member.pool.namespace
    port = PORT.search(member.instance)
    probe = f"inferdoc probe {shlex.quote(f'http://{member.instance}')}" if port else None
    if member.pod != member.instance and port:
        forward = f"kubectl{_flag(at)} port-forward {shlex.quote(member.pod)} {port.group(1)}"
        probe = f"{forward} & sleep 3; inferdoc probe http://localhost:{port.group(1)}; kill $!"
    return Unknown(
        "idle",
        f"The metrics of {how_many(len({unit.member.key for unit in view.units}), 'pod')} are there, and no request "
        "arrived: nothing runs, nothing waits, no token is counted",
        "Send one request of one token, and diagnose again; if users send requests, they do not reach this engine",
        probe,
    )


def _no_latency(session: Session) -> Unknown | None:
    """Engines with work, of a model whose latencies hardly show: how long its users wait is unknown."""
    context = session.context
    if scraped_once(session.scrapes):  # no rate and no mean yet
        return None
    shares = {
        family[2]: (seen, units[0].member)
        for family, units in by_family(context.view.units).items()
        if (seen := waits_seen(context, units)) is not None and seen < SEEN_SHARE
    }
    if not shares:
        return None
    model, (seen, member) = min(shares.items(), key=lambda each: each[1][0])
    target = {"pod": member.pod, "namespace": member.pool.namespace, "instance": member.instance}
    return Unknown(
        "no-latency",
        f"Engines{f' of model {model}' if model else ''} have work, and {percent(seen)} of that time shows a latency: "
        "how long users wait is unknown",
        "Keep the latency histograms of the engine or its router (metric_relabel_configs may drop them), or look at a "
        "longer window (--since)",
        _show_page(target) if PORT.search(member.instance) else None,
    )


def _engines_first(labels: Sequence[Mapping[str, str]], *names: str) -> list[Mapping[str, str]]:
    """Those that are named like an engine; all where none is."""
    engine = re.compile(load_identity().engine_names)
    named = [one for one in labels if engine.search(" ".join(one.get(name, "") for name in names))]
    return named or list(labels)


def _flag(namespace: str) -> str:
    return f" -n {shlex.quote(namespace)}" if namespace else ""

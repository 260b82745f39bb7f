"""Panels that show no signal: verdicts and forecasts of inferdoc, adapters, what is scraped.

Each view is one function; a board file names it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

from inferdoc.catalogue.load import Catalogue
from inferdoc.generate.board_panel import AxisBounds, ColourStep, Panel, Query, any_of, view_panel
from inferdoc.generate.board_rules import alerts, budget, burn, firing
from inferdoc.generate.board_scope import MATCHED, matched, pods, pods_without_info
from inferdoc.generate.board_spec import PanelSpec, board_titles, load_boards
from inferdoc.generate.links import BOARD, GeneratedLinks, drill, with_board
from inferdoc.generate.pod_info import CARDS
from inferdoc.judging.conditions.render import ENGINE_SIGN, POOL, clause, owner
from inferdoc.judging.model import VerdictWord
from inferdoc.source.reads import selector

View = Callable[[PanelSpec, Catalogue, GeneratedLinks], Panel]

STALE = "1h"
"""A verdict older than this says nothing of now."""
STALE_SECONDS = 3600
WELL = {"healthy": "green", "degraded": "orange", "critical": "red", "unknown": "text"}
COLLECT = "run inferdoc collect --expose"
SIGNS = (
    f"{ENGINE_SIGN}|llm_d_epp_ready_endpoints|{CARDS}|kube_pod_info|container_cpu_cfs_periods_total|inferdoc_build_info"
)
"""Series of an exporter that this fleet needs."""


def view(spec: PanelSpec, catalogue: Catalogue, links: GeneratedLinks) -> Panel:
    """The panel of a declared view."""
    return VIEWS[str(spec.view)](spec, catalogue, links)


def _verdict(spec: PanelSpec, catalogue: Catalogue, links: GeneratedLinks) -> Panel:
    fresh = f"and on () (time() - max(inferdoc_diagnosis_timestamp_seconds) < {STALE_SECONDS})"
    queries = tuple(
        Query(f'max(inferdoc_verdict{{verdict="{word}"}}) == 1\n{fresh}', word, colour=WELL[word])
        for word in get_args(VerdictWord)
    )
    return view_panel(
        spec,
        "Verdict",
        "The verdict of the newest diagnosis; nothing where it is older than an hour.",
        queries,
        unit="short",
        word=True,
        nothing="no verdict",
    )


def _findings(spec: PanelSpec, catalogue: Catalogue, links: GeneratedLinks) -> Panel:
    boards = {name: board for name, (board, _) in load_boards(catalogue.overlays).items()}
    found = with_board(_own_metric("inferdoc_finding"), boards)
    by = f"cause, severity, namespace, model_name, role, tier, {BOARD}"
    onset = _own_metric("inferdoc_finding_onset_timestamp_seconds")
    age = f"min by (cause, namespace, model_name, role, tier) (time() - {onset})"
    severe = f"group by ({by}) ({found})"
    joined = f"{severe}\n* on (cause, namespace, model_name, role, tier) group_left () {clause(age)}"
    runbook = links.runbook("${__data.fields.cause}")
    return view_panel(
        spec,
        "Findings",
        f"Each finding of the newest diagnosis. Empty? Nothing was found, or {COLLECT} is missing.",
        (Query(joined, "For", unit="dtdurations"), Query(f"count by ({by}) ({found})", "Pods", unit="short")),
        columns={
            "cause": "Cause",
            BOARD: "Open",
            "severity": "Severity",
            "namespace": "Namespace",
            "model_name": "Model",
            "role": "Role",
            "tier": "Tier",
        },
        drill=(
            *((("Runbook", runbook),) if runbook else ()),
            *drill(("model_name", "role", "tier"), rows=True),
        ),
        first=("Cause", "For", "Open", "Severity", "Model", "Role", "Tier"),
        opens=board_titles(boards),
        nothing="nothing found",
    )


def _broken_for(spec: PanelSpec, catalogue: Catalogue, links: GeneratedLinks) -> Panel:
    onset = _own_metric("inferdoc_finding_onset_timestamp_seconds")
    return view_panel(
        spec,
        "Broken for",
        f"Time since the onset of the earliest finding. Empty? Nothing was found, or {COLLECT} is missing.",
        (Query(f"time() - min({onset})", "broken for"),),
        unit="s",
        nothing="no finding",
    )


def _own_metric(name: str) -> str:
    """A series about a finding: what it says of namespace and pod wins over where inferdoc itself runs."""
    scope = matched(("model_name", "role", "tier"))
    here = selector(name, (("namespace", "=~", "$namespace"), ("exported_namespace", "=", ""), *scope))
    there = selector(name, (("exported_namespace", "=~", "$namespace"), ("exported_namespace", "!=", ""), *scope))
    return owner(f"({here} or {there})")


def _exporters(spec: PanelSpec, catalogue: Catalogue, links: GeneratedLinks) -> Panel:
    signs = selector("", (("__name__", "=~", SIGNS), *matched(("cluster",))))
    here = f"and on (cluster, job, instance) max_over_time(group by (cluster, job, instance) ({signs})[{STALE}:1m])"
    up, took = selector("up", matched(("cluster",))), selector("scrape_duration_seconds", matched(("cluster",)))
    return view_panel(
        spec,
        "Scrape targets",
        "Targets that had series of this fleet within the last hour, by job; down are those whose scrape fails now.",
        (
            Query(f"count by (job) ({up} {here})", "Targets", unit="short"),
            Query(
                f"count by (job) (({up} {here}) == 0)\nor 0 * count by (job) ({up} {here})",
                "Down",
                unit="short",
                steps=any_of("red"),
            ),
            Query(f"max by (job) ({took} {here})", "Slowest scrape", unit="s"),
        ),
        columns={"job": "Job"},
    )


def _unknown_pods(spec: PanelSpec, catalogue: Catalogue, links: GeneratedLinks) -> Panel:
    return view_panel(
        spec,
        "Engines without role and tier",
        "Engine pods that the recording rules do not cover. More than none: load inferdoc-recording.yaml; until "
        "then totals count prefill and decode twice, and the variables role, tier and pool narrow nothing.",
        (Query(pods_without_info(), "pods"),),
        steps=any_of("red"),
    )


def _diagnosis_age(spec: PanelSpec, catalogue: Catalogue, links: GeneratedLinks) -> Panel:
    return view_panel(
        spec,
        "Age of the newest diagnosis",
        f"Empty? {COLLECT[:1].upper()}{COLLECT[1:]}, and let Prometheus scrape it.",
        (Query("time() - max(inferdoc_diagnosis_timestamp_seconds)", "age"),),
        unit="s",
        steps=(ColourStep("green", None), ColourStep("red", STALE_SECONDS)),
    )


def _own_scrapes(spec: PanelSpec, catalogue: Catalogue, links: GeneratedLinks) -> Panel:
    return view_panel(
        spec,
        "Scrapes of inferdoc collect",
        "By result: failed, and left out because the one before still ran or the collector did not keep up.",
        (Query("sum by (result) (rate(inferdoc_scrapes_total[$__rate_interval]))", "{{result}}"),),
        unit="cps",
        bounds=AxisBounds(0),
    )


def _not_judged(spec: PanelSpec, catalogue: Catalogue, links: GeneratedLinks) -> Panel:
    return view_panel(
        spec,
        "Causes not evaluated",
        "blind: a metric that decides is missing; off: the feature is not in use; later: too little history.",
        (Query("max by (kind) (inferdoc_causes_not_judged)", "{{kind}}"),),
        bounds=AxisBounds(0),
        axis="causes",
    )


def _forecast(spec: PanelSpec, catalogue: Catalogue, links: GeneratedLinks) -> Panel:
    return view_panel(
        spec,
        "Highest load forecast over the horizon",
        "By pool, in the unit of the forecast; p95 is what to be ready for. Empty? Run inferdoc collect "
        "--expose with --forecast-every.",
        (Query("max by (pool, quantile) (inferdoc_forecast_load_max)", "{{pool}} q{{quantile}}"),),
        bounds=AxisBounds(0),
        axis="load",
    )


def _forecast_age(spec: PanelSpec, catalogue: Catalogue, links: GeneratedLinks) -> Panel:
    return view_panel(
        spec,
        "Age of the forecast",
        "Of the oldest pool. A prewarm plan from a stale forecast is refused.",
        (Query("max(time() - inferdoc_forecast_generated_timestamp_seconds)", "age"),),
        unit="s",
    )


def _forecast_doubt(spec: PanelSpec, catalogue: Catalogue, links: GeneratedLinks) -> Panel:
    return view_panel(
        spec,
        "Forecasts that abstained",
        "Their history is too short or too irregular; a baseline stands in.",
        (Query("sum(inferdoc_forecast_abstained)", "pools"),),
        steps=any_of("yellow"),
    )


def _lora_running(spec: PanelSpec, catalogue: Catalogue, links: GeneratedLinks) -> Panel:
    return _lora(
        spec, "Adapters running", "Adapters of the running requests: at --max-loras the others wait.", "running"
    )


def _lora_waiting(spec: PanelSpec, catalogue: Catalogue, links: GeneratedLinks) -> Panel:
    return _lora(
        spec, "Adapters waiting", "Adapters of requests that wait; a pod that always has some thrashes.", "waiting"
    )


def _lora(spec: PanelSpec, title: str, description: str, word: str) -> Panel:
    text = f"{description} {MOST} stands for {MOST} or more. Empty? Start vLLM with --enable-lora."
    query = Query(adapters(f"{word}_lora_adapters"), "{{pod}}")
    return view_panel(
        spec, title, text, (query,), bounds=AxisBounds(0, soft=MOST), axis="adapters", drill=drill(("pod",))
    )


def _lora_combinations(spec: PanelSpec, catalogue: Catalogue, links: GeneratedLinks) -> Panel:
    return view_panel(
        spec,
        "Combinations of adapters in 10 minutes",
        "How often the adapters in use change: each change may load one. Empty? Start vLLM with --enable-lora.",
        (Query(combinations(), "{{pod}}"),),
        bounds=AxisBounds(0),
        axis="combinations",
        drill=drill(("pod",)),
    )


INFO = "vllm:lora_requests_info"
MOST = 8
"""So many adapters are shown separately; more show as this many. --max-loras is 1 by default, seldom above 8."""
LATELY = 600
"""s: combinations that were seen within this time."""
POD = ("namespace", "pod")


def adapters(label: str) -> str:
    """How many adapters the label `running_lora_adapters` or `waiting_lora_adapters` of a pod names now."""
    by = ", ".join((*POD, *POOL))
    known = f"max by ({by}) ({_scoped()})"
    text = [f"{count} * group by ({by}) ({_now(label, count)})" for count in range(MOST, 0, -1)]
    return "\nor ".join([*text, f"0 * {known}"])


def combinations() -> str:
    """How many combinations of adapters a pod had within the last ten minutes."""
    by = ", ".join((*POD, *POOL))
    return f"count by ({by}) ({_scoped()} > time() - {LATELY})"


def _now(label: str, count: int) -> str:
    """The present combination of pods where it has so many adapters."""
    more = f"(,[^,]+){{{count - 1}{',' if count == MOST else ''}}}"
    chosen = _scoped(((label, "=~", f"[^,]+{more}"),))
    newest = f"max by (namespace, pod, instance) ({selector(INFO, matched(MATCHED['target']))})"
    return f"{chosen} == on (namespace, pod, instance) group_left () {newest}"


def _scoped(match: tuple[tuple[str, str, str], ...] = ()) -> str:
    own = selector(INFO, (*matched(MATCHED["target"]), *match))  # type: ignore[arg-type]
    join = f"on (cluster, namespace, pod) group_left ({', '.join(POOL)}) {clause(pods('target'))}"
    return f"({own} * {join})"


HEADROOM = "Empty? Run inferdoc headroom -o prometheus for the textfile collector of a node exporter."
COST = "Empty? Run inferdoc cost -o prometheus for the textfile collector of a node exporter."
OF_POOL = ("pool", "model_name", "role", "tier")
FULL = (ColourStep("green", None), ColourStep("yellow", 0.9), ColourStep("red", 1.0))
"""S22 of the audit: above 0.9 the next burst breaks the SLO."""


def _of_pool(name: str, **labels: str) -> str:
    """The series of a name, of the models, roles and tiers that are chosen, once however often it is scraped."""
    match = tuple((label, "=", value) for label, value in labels.items())
    by = ", ".join((*OF_POOL, *("lost",) * (name == "inferdoc_headroom_after_loss")))
    return f"max by ({by}) ({selector(name, (*match, *matched(OF_POOL[1:])))})"  # type: ignore[arg-type]


def headroom(spec: PanelSpec, catalogue: Catalogue, links: GeneratedLinks) -> Panel:
    """A row for each pool."""
    crossing = _of_pool("inferdoc_headroom_crossing_timestamp_seconds", path="earliest")
    return view_panel(
        spec,
        "Room of every pool at its SLO",
        f"Load at its peak over what the replicas carry, replicas to spare at the peak, and the clock. {HEADROOM}",
        (
            Query(_of_pool("inferdoc_headroom_used", load="peak"), "Peak over usable", unit="percentunit", steps=FULL),
            Query(_of_pool("inferdoc_headroom_replicas", what="counted"), "Replicas", unit="short"),
            Query(_of_pool("inferdoc_headroom_replicas", what="to_spare"), "To spare", unit="short"),
            Query(f"{crossing} - time()", "May cross in", unit="dtdurations"),
            Query(_of_pool("inferdoc_headroom_replicas", what="to_add"), "To add by then", unit="short"),
        ),
        columns={"pool": "Pool", "model_name": "Model", "role": "Role", "tier": "Tier"},
        nothing="no headroom reported",
    )


def headroom_after_loss(spec: PanelSpec, catalogue: Catalogue, links: GeneratedLinks) -> Panel:
    """A line for each pool and kind of loss."""
    return view_panel(
        spec,
        "Peak on the others after a loss",
        f"Above 100 % the peak does not hold without the pod, the fullest node or the fullest zone. {HEADROOM}",
        (Query(_of_pool("inferdoc_headroom_after_loss"), "{{pool}}, {{lost}}"),),
        unit="percentunit",
        steps=(ColourStep("green", None), ColourStep("red", 1.0)),
        bounds=AxisBounds(0, soft=1.0),
        axis="of what is left",
    )


def cost_by_part(spec: PanelSpec, catalogue: Catalogue, links: GeneratedLinks) -> Panel:
    """A line for each part of the bill."""
    return view_panel(
        spec,
        "GPU time by what it went into",
        f"GPU-hours of the billed window; the parts add up to the whole. {COST}",
        (Query("sum by (part) (max by (name, part) (inferdoc_cost_gpu_hours))", "{{part}}"),),
        bounds=AxisBounds(0),
        axis="GPU-hours",
    )


def cost_per_million(spec: PanelSpec, catalogue: Catalogue, links: GeneratedLinks) -> Panel:
    """A line for each row of the bill."""
    return view_panel(
        spec,
        "A million output tokens, all in",
        f"All of the cost over the output tokens; nothing without a price. {COST}",
        (
            Query(
                'max by (name, currency) (inferdoc_cost_per_million_tokens{tokens="output_all_in"})',
                "{{name}}, {{currency}}",
            ),
        ),
        bounds=AxisBounds(0),
        axis="money",
    )


VIEWS: dict[str, View] = {
    "verdict": _verdict,
    "broken-for": _broken_for,
    "findings": _findings,
    "alerts": alerts,
    "firing": firing,
    "budget": budget,
    "burn": burn,
    "exporters": _exporters,
    "unknown-pods": _unknown_pods,
    "diagnosis-age": _diagnosis_age,
    "own-scrapes": _own_scrapes,
    "not-judged": _not_judged,
    "forecast": _forecast,
    "forecast-age": _forecast_age,
    "forecast-doubt": _forecast_doubt,
    "headroom": headroom,
    "headroom-after-loss": headroom_after_loss,
    "cost-by-part": cost_by_part,
    "cost-per-million": cost_per_million,
    "lora-running": _lora_running,
    "lora-waiting": _lora_waiting,
    "lora-combinations": _lora_combinations,
}

"""Where generated alerts and boards point to."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from inferdoc.config import Config
from inferdoc.config_sections import fleet_board
from inferdoc.generate.board_spec import BoardSpec

OPTIONS = (("cluster", "cluster"), ("namespace", "namespace"), ("model", "model_name"), ("pod", "pod"))
"""Options of `inferdoc diagnose` and the labels that fill them in."""
NOW = '{{ query "time()" | first | value | printf "%.0f" }}'
"""When the rule was evaluated: templates of Prometheus have no variable for the time (prometheus.io/docs/prometheus/
latest/configuration/template_reference). Half an hour before it, where --around starts, no `for` has started yet."""
SERVER = "{{ $externalURL }}"
"""The address of the server that evaluated the rule, as its --web.external-url gives it; vmalert: -external.url."""

QUOTED = r"""{{ reReplaceAll "'" "'\\''" . }}"""
"""A label between single quotes of a shell: whoever pastes the command runs nothing that stands in a label."""


def diagnose_command(by: tuple[str, ...]) -> str:
    """The command as an annotation template. by: the labels that the alert's series keep; an empty one is left out."""
    names = [
        f"{{{{ with $labels.{label} }}}} --{option} '{QUOTED}'{{{{ end }}}}" for option, label in OPTIONS if label in by
    ]
    return f"inferdoc diagnose --prometheus '{SERVER}' --around {NOW}{''.join(names)}"


BOARD_VARIABLES = ("cluster", "namespace", "model_name", "pod")


@dataclass(frozen=True)
class GeneratedLinks:
    """runbook_base: the pages are below it by their id. dashboard_base: of Grafana, or of the fleet board.
    None: no link."""

    runbook_base: str | None = None
    dashboard_base: str | None = None

    @property
    def missing(self) -> tuple[str, ...]:
        """The bases that are not set, one remark each."""
        served = " or public_url in [serve]"
        bases = (("runbook", self.runbook_base, served), ("dashboard", self.dashboard_base, ""))
        return tuple(
            f"no {name}_url in the alerts: set {name}_base in [links] of inferdoc.toml{also}, or --{name}-base"
            for name, base, also in bases
            if not base
        )

    def runbook(self, page: str) -> str | None:
        return f"{self.runbook_base.rstrip('/')}/{page}" if self.runbook_base else None

    def dashboard(self, labels: tuple[str, ...]) -> str | None:
        """The board, narrowed to what the alert is about by those of its labels that the board has variables for."""
        if self.dashboard_base is None:
            return None
        chosen = [name for name in BOARD_VARIABLES if name in labels]
        query = "&".join(f"var-{name}={{{{ $labels.{name} | urlquery }}}}" for name in chosen)
        board = fleet_board(self.dashboard_base)
        return f"{board}{'&' if '?' in board else '?'}{query}" if query else board

    def annotations(
        self, page: str, by: tuple[str, ...], summary: str, description: str, *, diagnosed: bool = True
    ) -> dict[str, str]:
        """The annotations of an alert. page: its runbook; by: labels that its series keep; diagnosed: whether
        `inferdoc diagnose` can look at what it is about."""
        found = {
            "summary": summary,
            "description": description,
            "diagnose_command": diagnose_command(by) if diagnosed else None,
            "runbook": page,
            "runbook_url": self.runbook(page),
            "dashboard_url": self.dashboard(by),
        }
        return {name: text for name, text in found.items() if text is not None}


def links_of(config: Config, runbook_base: str | None = None, dashboard_base: str | None = None) -> GeneratedLinks:
    """Links from the configuration, with the command line over it."""
    return GeneratedLinks(runbook_base or config.runbook_base, dashboard_base or config.links.dashboard_base)


POOL_BOARD = "inferdoc-latency"
GPU_BOARD = "inferdoc-gpu"
ALWAYS = ("datasource", "cluster", "namespace")
BOARD = "board"
"""Label with the uid of the dashboard that shows the cause of a series."""
CHOSEN = {"model_name": "model_name", "role": "role", "tier": "tier", "pod": "pod"}


def drill(labels: Sequence[str], rows: bool = False) -> tuple[tuple[str, str], ...]:
    """Titles and addresses for series with these labels. rows: of a table, whose labels are fields of the row."""
    names = [label for label in CHOSEN if label in labels]
    if "pod" in names:
        where = [("Latency of this pod", POOL_BOARD), ("GPUs of this pod", GPU_BOARD)]
        names = ["pod"]
    elif "role" in names or "tier" in names:
        where = [("Pods of this pool", POOL_BOARD), ("GPUs of this pool", GPU_BOARD)]
    elif names:
        where = [("Pods of this model", POOL_BOARD)]
    else:
        return ()
    return tuple((title, address(board, names, rows)) for title, board in where)


def with_board(expr: str, boards: Mapping[str, BoardSpec]) -> str:
    """The series of an expression with the uid of a dashboard in the label `board`, by their label `cause`."""
    found = f'label_replace({expr}, "{BOARD}", "{POOL_BOARD}", "", "")'
    for board in boards.values():
        if board.causes:
            pattern = "|".join(re.escape(each).replace(r"\-", "-").replace(r"\*", ".*") for each in board.causes)
            found = f'label_replace({found}, "{BOARD}", "{board.uid}", "cause", "{pattern}")'
    return found


def address(board: str, names: Sequence[str], rows: bool) -> str:
    """A link that keeps the time range and the variables, narrowed to the labels of the line or row."""
    kept = [name for name in (*ALWAYS, "model_name") if name not in names]
    parts = ["${__url_time_range}", *(f"${{{name}:queryparam}}" for name in kept)]
    value = "${__data.fields.%s}" if rows else "${__field.labels.%s}"
    return f"/d/{board}?" + "&".join([*parts, *(f"var-{CHOSEN[name]}={value % name}" for name in names)])

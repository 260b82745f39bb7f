"""Where generated alerts and boards point to."""

from __future__ import annotations

from dataclasses import dataclass

from inferdoc.config import Config
from inferdoc.config_sections import fleet_board

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

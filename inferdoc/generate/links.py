"""Where generated alerts and boards point to."""

from __future__ import annotations

from dataclasses import dataclass

from inferdoc.config_sections import LinksSection

RUNBOOK_BASE = "https://inferdoc.example/runbooks"
"""Stands for your own address, which `runbook_base` in inferdoc.toml names: `.example` names never resolve."""


@dataclass(frozen=True)
class GeneratedLinks:
    """runbook_base: the pages lie under it by their id. dashboard_base: address of the fleet board, or None."""

    runbook_base: str = RUNBOOK_BASE
    dashboard_base: str | None = None

    def runbook(self, page: str) -> str:
        return f"{self.runbook_base.rstrip('/')}/{page}"

    def dashboard(self, labels: tuple[str, ...]) -> str | None:
        """The board, narrowed to what the alert is about by those of its labels that the board has variables for."""
        if self.dashboard_base is None:
            return None
        chosen = [name for name in ("cluster", "namespace", "model_name", "pod") if name in labels]
        query = "&".join(f"var-{name}={{{{ $labels.{name} | urlquery }}}}" for name in chosen)
        return (
            f"{self.dashboard_base}{'&' if '?' in self.dashboard_base else '?'}{query}"
            if query
            else self.dashboard_base
        )


def links_of(
    section: LinksSection, runbook_base: str | None = None, dashboard_base: str | None = None
) -> GeneratedLinks:
    """Links from the configuration, with the command line over it."""
    return GeneratedLinks(
        runbook_base=runbook_base or section.runbook_base or RUNBOOK_BASE,
        dashboard_base=dashboard_base or section.dashboard_base,
    )

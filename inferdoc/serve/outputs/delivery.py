"""Deliver a note to an output of any kind."""

from __future__ import annotations

from collections.abc import Callable

from inferdoc.config_sections import OutputSection
from inferdoc.judging.model import Diagnosis
from inferdoc.serve.note import Note
from inferdoc.serve.outputs import file, grafana, pagerduty, slack, teams, webhook
from inferdoc.serve.outputs.sending import Outgoing, send

SIMPLE: dict[str, Callable[[Note, OutputSection], Outgoing]] = {
    "slack": slack.outgoing,
    "teams": teams.outgoing,
    "pagerduty": pagerduty.outgoing,
    "grafana": grafana.outgoing,
}


def deliver(note: Note, section: OutputSection, answer: Diagnosis | None, page: str | None) -> None:
    """Send it. Raises PostError, and ConfigError where the output is not set up."""
    if section.kind == "file":
        file.write(note, section, answer, page)
        return
    made = webhook.outgoing(note, section, answer) if section.kind == "webhook" else SIMPLE[section.kind](note, section)
    send(made, section.ca_file)

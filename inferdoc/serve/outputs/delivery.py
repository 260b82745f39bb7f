"""Deliver a note to an output of any kind."""

from __future__ import annotations

from collections.abc import Callable

from inferdoc.config_sections import OutputSection
from inferdoc.judging.model import Diagnosis
from inferdoc.serve.note import Note
from inferdoc.serve.outputs import file, grafana, pagerduty, slack, slack_thread, teams, webhook
from inferdoc.serve.outputs.sending import Outgoing, send

SIMPLE: dict[str, Callable[[Note, OutputSection], Outgoing]] = {
    "slack": slack.outgoing,
    "teams": teams.outgoing,
    "pagerduty": pagerduty.outgoing,
}


def deliver(
    note: Note, section: OutputSection, answer: Diagnosis | None, page: str | None, reference: str | None = None
) -> str | None:
    """Send it. reference: of the message about the same incident that the output sent before.

    Returns the reference for the next call, None for outputs that update nothing. Raises PostError, and ConfigError
    where the output is not set up.
    """
    if section.kind == "grafana":
        return grafana.annotate(note, section, reference)
    if section.channel is not None:
        return slack_thread.post(note, section, reference)
    if section.kind == "file":
        file.write(note, section, answer, page)
        return None
    made = webhook.outgoing(note, section, answer) if section.kind == "webhook" else SIMPLE[section.kind](note, section)
    send(made, section.ca_file)
    return None

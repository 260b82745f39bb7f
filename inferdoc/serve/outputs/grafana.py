"""A Grafana annotation from the onset to the end
(https://grafana.com/docs/grafana/latest/developers/http_api/annotations/)."""

from __future__ import annotations

import msgspec

from inferdoc.config_sections import OutputSection
from inferdoc.escaping import html
from inferdoc.serve.note import Note
from inferdoc.serve.outputs.sending import Outgoing, address, secret
from inferdoc.times import moment_of


def outgoing(note: Note, section: OutputSection) -> Outgoing:
    """The request. Raises ConfigError."""
    begin = note.opened if note.onset is None else min(note.opened, float(moment_of(note.onset, "onset")))
    lines = [html(note.title), *(f"{html(name)}: {html(words)}" for name, words in note.facts)]
    lines += [f'<a href="{html(url)}">{html(words)}</a>' for words, url in note.links]
    annotation = {
        "time": round(begin * 1000),
        "timeEnd": round((note.ended or begin) * 1000),
        "tags": ["inferdoc", note.state, *([note.cause] if note.cause else [])],
        "text": "<br>".join(lines),
    }
    token = secret(section.token_file, "token_file")
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
    url = address(section).rstrip("/")
    return Outgoing(
        url if url.endswith("/api/annotations") else f"{url}/api/annotations", msgspec.json.encode(annotation), headers
    )

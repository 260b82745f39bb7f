"""One Grafana annotation per incident, from the onset to the end; later runs update it.

https://grafana.com/docs/grafana/latest/developers/http_api/annotations/
"""

from __future__ import annotations

import msgspec

from inferdoc.config_sections import OutputSection
from inferdoc.escaping import html
from inferdoc.serve.note import Note
from inferdoc.serve.outputs.sending import Outgoing, PostError, address, secret, send
from inferdoc.times import moment_of

NOT_FOUND = 404


class _Created(msgspec.Struct):
    id: int


def annotate(note: Note, section: OutputSection, reference: str | None) -> str:
    """Create the annotation of an incident, or update it. reference: its id, None before the first run.

    Returns the id. An annotation that was deleted in Grafana is created again. Raises PostError and ConfigError.
    """
    if reference is not None:
        try:
            send(outgoing(note, section, reference), section.ca_file)
            return reference
        except PostError as error:
            if error.status != NOT_FOUND:
                raise
    try:
        return str(msgspec.json.decode(send(outgoing(note, section), section.ca_file), type=_Created).id)
    except msgspec.DecodeError:
        raise PostError("the response has no annotation id; check that url is the address of Grafana") from None


def outgoing(note: Note, section: OutputSection, reference: str | None = None) -> Outgoing:
    """The request that creates the annotation, or updates the one of this id. Raises ConfigError."""
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
    url = url if url.endswith("/api/annotations") else f"{url}/api/annotations"
    body = msgspec.json.encode(annotation)
    return Outgoing(url, body, headers) if reference is None else Outgoing(f"{url}/{reference}", body, headers, "PATCH")

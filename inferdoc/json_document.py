"""Documents that commands print as JSON."""

from __future__ import annotations

import msgspec


class JsonDocument(msgspec.Struct):
    """The answer of a command."""

    def to_json(self) -> str:
        """The document as indented JSON."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2).decode()

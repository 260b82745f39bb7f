"""Anybody who takes a POST: the note and the diagnosis as JSON, or what a Jinja template makes of them."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec

from inferdoc.config_sections import OutputSection
from inferdoc.errors import ConfigError
from inferdoc.escaping import one_line
from inferdoc.extras import needed
from inferdoc.judging.model import Diagnosis
from inferdoc.serve.note import Note
from inferdoc.serve.outputs.sending import Outgoing, address, secret


def outgoing(note: Note, section: OutputSection, answer: Diagnosis | None) -> Outgoing:
    """The request. Raises ConfigError."""
    values = {"incident": asdict(note), "diagnosis": None if answer is None else msgspec.to_builtins(answer)}
    if section.template_file is None:
        body = msgspec.json.encode(values)
    else:
        body = _filled(Path(section.template_file), values).encode()
    token = secret(section.token_file, "token_file")
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
    return Outgoing(address(section), body, headers)


def _filled(file: Path, values: dict[str, Any]) -> str:
    """In a sandbox: a template may come from others than who runs this."""
    with needed("jinja2", "a template of an output"):
        from jinja2 import StrictUndefined, TemplateError
        from jinja2.sandbox import ImmutableSandboxedEnvironment

    try:
        text = file.read_text("utf-8")
        return ImmutableSandboxedEnvironment(undefined=StrictUndefined).from_string(text).render(values)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"template_file {file}: cannot be read: {getattr(error, 'strerror', 'not UTF-8')}") from None
    except (TemplateError, TypeError, ValueError, ArithmeticError, LookupError, RecursionError) as error:
        raise ConfigError(f"template_file {file}: {one_line(str(error))}") from None

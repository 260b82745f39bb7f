"""Opens the source that the configuration names, or that was asked for instead."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from inferdoc.config import Config, default_store
from inferdoc.errors import SourceError
from inferdoc.origins import without_secrets
from inferdoc.source.open import open_source
from inferdoc.times import timeout_of

if TYPE_CHECKING:
    from inferdoc.source.identified import Identified


def open_configured(
    config: Config,
    asked: Mapping[str, Any],
    overlays: Sequence[str] = (),
    headers: Mapping[str, str] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Identified:
    """Open the source. asked: by the names of the options of the command line, each before what the configuration says;
    overlays: the user's catalogue folders; headers: sent beside those of the configuration; progress: as in
    `open_source`. Without any of them the default embedded store. Raises ConfigError and SourceError as `open_source`
    does."""
    section, left_out = config.source, False
    named = asked.get("prometheus") or asked.get("store") or section.prometheus or section.store
    if not named and not default_store().exists():
        from inferdoc.source.find_server import no_source

        raise SourceError(no_source(os.environ))
    if asked.get("prometheus"):
        section, left_out = section.at(asked["prometheus"])
    url = section.prometheus if asked.get("prometheus") or asked.get("store") is None else None
    source = open_source(
        store=None if url else asked.get("store") or section.store or str(default_store()),
        prometheus=url,
        headers=section.headers | dict(headers or {}),
        bearer_token_file=asked.get("bearer_token_file") or section.bearer_token_file,
        username=asked.get("username") or section.username,
        password_file=asked.get("password_file") or section.password_file,
        ca_file=asked.get("ca_file") or section.ca_file,
        cert_file=section.cert_file,
        key_file=section.key_file,
        timeout=timeout_of(asked["timeout"]) if asked.get("timeout") else section.timeout_seconds,
        parallel=section.parallel,
        catalogue=overlays,
        labels=config.labels.chosen,
        engine=asked.get("engine"),
        workers=asked.get("workers"),
        address=asked.get("address"),
        progress=progress,
    )
    if left_out and config.source.prometheus:
        source.warnings.append(
            f"credentials and headers of [source] are for {without_secrets(config.source.prometheus)} and not sent to"
            f" {source.location}"
        )
    return source

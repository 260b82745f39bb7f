"""Opens the source that the configuration names, or that was requested instead."""

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
    requested: Mapping[str, Any],
    overlays: Sequence[str] = (),
    headers: Mapping[str, str] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Identified:
    """Open the source. requested: by the names of command-line options, each before what the configuration says;
    overlays: the user's catalogue folders; headers: sent beside those of the configuration; progress: as in
    `open_source`. Without any of them the default embedded store. Raises ConfigError and SourceError as `open_source`
    does."""
    section, left_out = config.source, False
    named = requested.get("prometheus") or requested.get("store") or section.prometheus or section.store
    if not named and not default_store().exists():
        from inferdoc.source.find_server import no_source

        raise SourceError(no_source(os.environ))
    if requested.get("prometheus"):
        section, left_out = section.at(requested["prometheus"])
    url = section.prometheus if requested.get("prometheus") or requested.get("store") is None else None
    source = open_source(
        store=None if url else requested.get("store") or section.store or str(default_store()),
        prometheus=url,
        headers=section.headers | dict(headers or {}),
        bearer_token_file=requested.get("bearer_token_file") or section.bearer_token_file,
        username=requested.get("username") or section.username,
        password_file=requested.get("password_file") or section.password_file,
        ca_file=requested.get("ca_file") or section.ca_file,
        cert_file=section.cert_file,
        key_file=section.key_file,
        timeout=timeout_of(requested["timeout"]) if requested.get("timeout") else section.timeout_seconds,
        parallel=section.parallel,
        catalogue=overlays,
        labels=config.labels.chosen,
        engine=requested.get("engine"),
        workers=requested.get("workers"),
        address=requested.get("address"),
        progress=progress,
    )
    if left_out and config.source.prometheus:
        source.warnings.append(
            f"credentials and headers of [source] are for {without_secrets(config.source.prometheus)} and not sent to"
            f" {source.location}"
        )
    return source

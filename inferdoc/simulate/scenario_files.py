"""Scenarios as YAML files: where they lie, reading them, and changing their size."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import yaml

from inferdoc.catalogue.document import nearest
from inferdoc.catalogue.yaml_text import load_yaml
from inferdoc.errors import InferdocError
from inferdoc.simulate.scenario import Scenario
from inferdoc.times import length_of

DURATIONS = frozenset(
    {
        "at",
        "until",
        "duration",
        "warmup",
        "scrape",
        "onset",
        "start",
        "stop",
        "timeout",
        "first_token_timeout",
        "detect",
        "handover",
        "seconds",
        "after",
        "burst_for",
        "burst_every",
        "wave",
        "cold_start",
        "lease",
        "refresh",
        "staleness",
        "ttl",
        "every",
        "up_window",
        "down_window",
        "shutdown",
        "window",
        "schema_seconds",
        "think",
        "phase",
        "relabelled",
        "age",
    }
)
"""Fields that may be written as durations such as 90s or 10m."""


def _plain(value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        return {k: _plain(v, k) for k, v in value.items()}
    if isinstance(value, list):
        return [_plain(v, key) for v in value]
    if isinstance(value, str) and key in DURATIONS:
        return length_of(value, key)
    return value


def read_scenario(text: str, name: str) -> Scenario:
    """A scenario from YAML. Raises InferdocError with the place of the first thing that is wrong."""
    try:
        return msgspec.convert(_plain(load_yaml(text)), Scenario)
    except yaml.YAMLError as error:
        raise InferdocError(f"{name}: not YAML: {' '.join(str(error).split())}") from error
    except msgspec.ValidationError as error:
        raise InferdocError(f"{name}: {error}") from error


def folder() -> Path:
    """Where the scenarios lie: inside the package when installed, beside it in a checkout."""
    from inferdoc.catalogue.content import PACKAGE

    installed = PACKAGE / "content" / "incidents"
    return installed if installed.is_dir() else PACKAGE.parent / "fixtures" / "incidents"


def scenario_files(overlays: Iterable[Path]) -> dict[str, Path]:
    """Scenario files by id, those that come with inferdoc and those of a user's folders; the last of an id counts."""
    places = (folder(), *(overlay / "incidents" for overlay in overlays))
    return {path.stem: path for place in places for path in sorted(place.glob("*.yaml"))}


def load_scenario(name: str, overlays: Iterable[Path] = ()) -> Scenario:
    """A scenario by file or by id; overlays: folders of the user with an incidents/ of their own. Raises InferdocError
    where there is none."""
    path = Path(name)
    if not path.is_file():
        found = scenario_files(overlays).get(name)
        if found is None:
            near = nearest(name, scenario_files(overlays))
            raise InferdocError(f"no scenario {name!r}{near}; inferdoc simulate --list names them")
        path = found
    return read_scenario(path.read_text("utf-8"), path.name)


def scenarios(overlays: Iterable[Path] = ()) -> list[Scenario]:
    """Every scenario that comes with inferdoc or lies in a user's folders, by id."""
    return [read_scenario(p.read_text("utf-8"), p.name) for _, p in sorted(scenario_files(overlays).items())]


def adapted(
    scenario: Scenario,
    pods: int | None = None,
    seed: int | None = None,
    duration: str | None = None,
    version: str | None = None,
) -> Scenario:
    """The scenario with another size of its first pool, another seed, length or vLLM version. Traffic given in
    requests/s grows with the fleet."""
    replace = msgspec.structs.replace
    if pods is not None:
        before = sum(p.pods for p in scenario.pools)
        pools = (replace(scenario.pools[0], pods=pods), *scenario.pools[1:])
        factor = sum(p.pods for p in pools) / before
        traffic = tuple(replace(t, rate=t.rate * factor, clients=round(t.clients * factor)) for t in scenario.traffic)
        scenario = replace(scenario, pools=pools, traffic=traffic)
    if seed is not None:
        scenario = replace(scenario, seed=seed)
    if duration is not None:
        scenario = replace(scenario, duration=length_of(duration, "--duration"))
    if version is not None:
        if not all(part.isdigit() for part in version.split(".")):
            raise InferdocError(f"--vllm {version!r} is not a version; write for example 0.11 or 0.15")
        scenario = replace(scenario, pools=tuple(replace(p, version=version) for p in scenario.pools))
    return scenario

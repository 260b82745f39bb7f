"""The configuration: flags, then environment, then ./inferdoc.toml, then the user's config folder."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from inferdoc.errors import ConfigError

PROJECT_FILE = "inferdoc.toml"


class SourceSection(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """[source]: where metrics are read from. Secrets stand in files, never here."""

    prometheus: str | None = None
    store: str | None = None
    bearer_token_file: str | None = None
    username: str | None = None
    password_file: str | None = None
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    headers: dict[str, str] = {}
    timeout_seconds: float = 60.0
    parallel: int = 6


class TargetSection(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """[[collect.targets]]: a page to scrape and the labels its series get."""

    url: str
    labels: dict[str, str] = {}


class CollectSection(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """[collect]: pages to scrape, and file_sd files and http_sd endpoints that list more of them."""

    targets: tuple[TargetSection, ...] = ()
    file_sd: tuple[str, ...] = ()
    http_sd: tuple[str, ...] = ()
    http_sd_refresh_seconds: float = 60.0


class PodSection(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """[[pods]]: pods whose whole name matches the regular expression serve in this role, on this hardware tier.
    tokens_per_second: generated tokens/s of one pod at the plateau of a benchmark; gpus: of one pod, where no GPU
    exporter tells."""

    pod: str
    role: Literal["prefill", "decode", "both"] | None = None
    tier: str | None = None
    tokens_per_second: float | None = None
    gpus: int | None = None


class SloSection(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """[[slo]]: limits for a model on a tier (either may be left out: any). Signal id -> limit in the signal's unit."""

    limits: dict[str, float]
    model: str | None = None
    tier: str | None = None


class RecipesSection(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """[recipes]: causes that are not looked for, by id."""

    disabled: tuple[str, ...] = ()


class TierPrice(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """[prices.tiers.ID]: money per GPU-hour."""

    on_demand: float


class PricesSection(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """[prices]: what a GPU-hour costs, by hardware tier. overhead: a factor for what comes on top (disks, network)."""

    currency: str = "USD"
    overhead: float = 1.0
    tiers: dict[str, TierPrice] = {}


class AcceptedSection(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """[[audit.accepted]]: a standing state that is meant to be so. until: a day (2027-03-31) after which it counts
    again; pod: a regular expression for the whole name of the pods it concerns."""

    state: str
    reason: str
    until: str | None = None
    pod: str = ".*"


class AuditSection(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """[audit]: what `inferdoc audit` leaves out."""

    accepted: tuple[AcceptedSection, ...] = ()


class LinksSection(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """[links]: URL prefixes of runbook pages and dashboards in reports and rules."""

    runbook_base: str | None = None
    dashboard_base: str | None = None


class BaselinesSection(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """[baselines]: where `inferdoc baseline save` keeps them; None: the user's data folder."""

    folder: str | None = None


class Config(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Everything that can be configured. origin: the file it came from, or None."""

    source: SourceSection = SourceSection()
    collect: CollectSection = CollectSection()
    catalogue: tuple[str, ...] = ()
    pods: tuple[PodSection, ...] = ()
    slo: tuple[SloSection, ...] = ()
    links: LinksSection = LinksSection()
    recipes: RecipesSection = RecipesSection()
    prices: PricesSection = PricesSection()
    audit: AuditSection = AuditSection()
    baselines: BaselinesSection = BaselinesSection()


def load_config(path: str | Path | None = None, environment: Mapping[str, str] | None = None) -> Config:
    """The configuration file in force, with the environment over it. Raises ConfigError: one line."""
    environment = os.environ if environment is None else environment
    config = _read(Path(path)) if path is not None else _first_found()
    return _with_environment(config, environment)


def _first_found() -> Config:
    for candidate in (Path(PROJECT_FILE), user_folder() / "config.toml"):
        if candidate.is_file():
            return _read(candidate)
    return Config()


def user_folder() -> Path:
    """The user's config folder."""
    from platformdirs import user_config_dir

    return Path(user_config_dir("inferdoc"))


def default_store() -> Path:
    """Where the embedded store lies when nothing names one."""
    from platformdirs import user_data_dir

    return Path(user_data_dir("inferdoc")) / "fleet.db"


def baselines_folder(config: Config) -> Path:
    """Where stored baselines lie: of the configuration, else in the user's data folder."""
    from platformdirs import user_data_dir

    return Path(config.baselines.folder or Path(user_data_dir("inferdoc")) / "baselines")


def _read(path: Path) -> Config:
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{path}: cannot be read: {error.strerror if isinstance(error, OSError) else 'not UTF-8'}"
        ) from None
    try:
        return msgspec.convert(tomllib.loads(text), Config)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: not TOML: {error}") from None
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path}: {error}") from None


def _with_environment(config: Config, environment: Mapping[str, str]) -> Config:
    """INFERDOC_PROMETHEUS_URL and INFERDOC_STORE name the source; one of them drops the other from the file.
    INFERDOC_BASELINES names the folder of stored baselines."""
    changes: dict[str, Any] = {}
    url, store = environment.get("INFERDOC_PROMETHEUS_URL"), environment.get("INFERDOC_STORE")
    if url:
        changes |= {"prometheus": url, "store": None}
    elif store:
        changes |= {"store": store, "prometheus": None}
    if environment.get("INFERDOC_BEARER_TOKEN_FILE"):
        changes["bearer_token_file"] = environment["INFERDOC_BEARER_TOKEN_FILE"]
    if changes:
        config = msgspec.structs.replace(config, source=msgspec.structs.replace(config.source, **changes))
    if environment.get("INFERDOC_BASELINES"):
        config = msgspec.structs.replace(config, baselines=BaselinesSection(environment["INFERDOC_BASELINES"]))
    return config

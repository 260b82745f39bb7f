"""The configuration: flags, then environment, then ./inferdoc.toml, then the user's config folder."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from inferdoc.config_sections import (
    AuditSection,
    BaselinesSection,
    CollectSection,
    LabelsSection,
    LinksSection,
    PodSection,
    PricesSection,
    RecipesSection,
    ServeSection,
    SloSection,
    SourceSection,
)
from inferdoc.errors import ConfigError

PROJECT_FILE = "inferdoc.toml"


class Config(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Everything that can be configured. origin: the file it came from, or None."""

    source: SourceSection = SourceSection()
    labels: LabelsSection = LabelsSection()
    collect: CollectSection = CollectSection()
    catalogue: tuple[str, ...] = ()
    pods: tuple[PodSection, ...] = ()
    slo: tuple[SloSection, ...] = ()
    links: LinksSection = LinksSection()
    recipes: RecipesSection = RecipesSection()
    prices: PricesSection = PricesSection()
    audit: AuditSection = AuditSection()
    baselines: BaselinesSection = BaselinesSection()
    serve: ServeSection = ServeSection()

    @property
    def runbook_base(self) -> str | None:
        """Where runbook pages are by their id: `runbook_base`, else the pages of `inferdoc serve` at its public_url."""
        if self.links.runbook_base or not self.serve.public_url:
            return self.links.runbook_base
        return f"{self.serve.public_url.rstrip('/')}/runbooks"


def load_config(path: str | Path | None = None, environment: Mapping[str, str] | None = None) -> Config:
    """The configuration file in force, with the environment over it. Raises ConfigError: one line."""
    environment = os.environ if environment is None else environment
    file = config_file(path)
    return _with_environment(_read(file) if file is not None else Config(), environment)


def config_file(path: str | Path | None = None) -> Path | None:
    """The configuration file in force: the one requested, else the project's, else the user's; None where there is
    none."""
    if path is not None:
        return Path(path)
    return next((p for p in (Path(PROJECT_FILE), user_folder() / "config.toml") if p.is_file()), None)


def promises_of(place: object, sections: Sequence[SloSection]) -> list[tuple[str, SloSection]]:
    """Objectives with where each stands, as the catalogue takes them. place: of the file that holds them."""
    return [(f"{place}: slo[{number}]", section) for number, section in enumerate(sections)]


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


def record_file(config: Config) -> Path:
    """Where the incident record lies: of the configuration, else in the user's data folder."""
    from platformdirs import user_data_dir

    return Path(config.serve.record or Path(user_data_dir("inferdoc")) / "incidents.db")


def _read(path: Path) -> Config:
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{path}: cannot be read: {error.strerror if isinstance(error, OSError) else 'not UTF-8'}"
        ) from None
    try:
        return msgspec.convert(tomllib.loads(text, parse_float=_number), Config)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: not TOML: {error}") from None
    except RecursionError:
        raise ConfigError(f"{path}: not a configuration: nested too deeply") from None
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path}: {error}") from None
    except ValueError as error:  # a number of five thousand digits
        raise ConfigError(f"{path}: not TOML: {error}") from None


def _number(text: str) -> float:
    """A TOML float. Whole ones count as integers, which a float may be as well: Helm's `toToml` writes no others."""
    value = float(text)
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


def _with_environment(config: Config, environment: Mapping[str, str]) -> Config:
    """INFERDOC_PROMETHEUS_URL and INFERDOC_STORE name the source; one of them drops the other from the file. The
    credentials in the file are sent to the origin of the URL in the file only. INFERDOC_BASELINES names the folder of
    stored baselines."""
    source = config.source
    if url := environment.get("INFERDOC_PROMETHEUS_URL"):
        source = source.at(url)[0]
    elif store := environment.get("INFERDOC_STORE"):
        source = msgspec.structs.replace(source, store=store, prometheus=None)
    if token := environment.get("INFERDOC_BEARER_TOKEN_FILE"):
        source = msgspec.structs.replace(source, bearer_token_file=token)
    config = msgspec.structs.replace(config, source=source)
    if environment.get("INFERDOC_BASELINES"):
        config = msgspec.structs.replace(config, baselines=BaselinesSection(environment["INFERDOC_BASELINES"]))
    return config

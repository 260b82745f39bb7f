"""Loads the catalogue: exporters, signals, tiers and causes, each part when it is first used."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Literal, TypeVar

import msgspec

from inferdoc.catalogue.aliases import Aliases
from inferdoc.catalogue.check_recipe import (
    CatalogueNames,
    check_action,
    check_family,
    check_observation,
    check_recipe,
    read_limits,
)
from inferdoc.catalogue.cluster import CLUSTER, Sign, Signs, load_signs
from inferdoc.catalogue.content import Folder, content_file, content_files, content_folders, overlay_paths
from inferdoc.catalogue.document import decode, decode_file, decode_over, locate, nearest
from inferdoc.catalogue.efficiency import Efficiency
from inferdoc.catalogue.names import IDENTITY, NAMES
from inferdoc.catalogue.observation import Dictionary, Observation, ObservationFile
from inferdoc.catalogue.recipe import Action, ActionFile, Recipe
from inferdoc.catalogue.recipe_file import Family, FamilyEntry, FamilyFile, RecipeFile, family_of, resolved
from inferdoc.catalogue.signal import Exporter, HealthRow, Marker, Signal, Tiers
from inferdoc.catalogue.slo import Slo
from inferdoc.catalogue.slo_file import Objectives, load_objectives
from inferdoc.catalogue.standing import Standing, load_standing
from inferdoc.catalogue.tables import Calibration, Flags, HealthFile, KnownModel, KnownModels, MarkerFile, SignalFile
from inferdoc.catalogue.validate import (
    Problem,
    Spelling,
    check_exporter,
    check_readings,
    check_signals,
    check_tiers,
    spellings,
)
from inferdoc.config_sections import SloSection
from inferdoc.errors import CatalogueError

Laid = TypeVar("Laid")
One = TypeVar("One")
Part = Literal["exporter", "signal", "tiers", "observation", "recipe"]
SIGNALS = "signals"
TIERS = "tiers.yaml"
CHANGES = "changes.yaml"
HEALTH = "health.yaml"
FLAGS = "vllm-flags.yaml"
EFFICIENCY = "efficiency.yaml"
MODELS = "models.yaml"
BESIDE = (TIERS, CHANGES, FLAGS, HEALTH, EFFICIENCY, MODELS, IDENTITY, NAMES, CLUSTER)
"""What in `collectors/` is about no exporter."""
OBSERVATIONS = "observations.yaml"
STEPS = "steps.yaml"
CALIBRATION = "calibration.yaml"
FAMILIES = "families.yaml"


@dataclass(frozen=True)
class Catalogue:
    """Everything declared in YAML, shipped and overlaid. The parts load on first use and stay.

    exporters by exporter id, signals by signal id, tiers, recipes by cause id; `origin` says which file each came from.
    Every part raises CatalogueError where a file is wrong: one line with file, line, path and what was expected.
    """

    overlays: tuple[Path, ...] = ()
    disabled: tuple[str, ...] = ()
    promises: tuple[tuple[str, SloSection], ...] = ()
    """The [[slo]] sections of the configuration, each with its place."""

    @cached_property
    def exporters(self) -> dict[str, Exporter]:
        """Exporters by id."""
        return {name: exporter for name, (exporter, _) in self._exporters.items()}

    @cached_property
    def signals(self) -> dict[str, Signal]:
        """Signals by id: the declared ones as all exporters show them, and other quantiles of objectives."""
        return dict(self.objectives.signals)

    @cached_property
    def aliases(self) -> Aliases:
        """What exporters call series and labels."""
        return Aliases(self.exporters.values())

    @cached_property
    def signals_of_rules(self) -> dict[str, Signal]:
        """The same without what exporters add: a rule for an engine or a part of one that nobody runs costs its
        evaluation all the same."""
        declared = {name: signal for name, (signal, _) in self._signals.items()}
        return dict(load_objectives(self.overlays, self.promises, declared, self.tiers).signals)

    @cached_property
    def objectives(self) -> Objectives:
        """The objectives and whom they cover."""
        declared = {name: signal for name, (signal, _) in self._signals.items()}
        for exporter in self.exporters.values():
            for name, readings in exporter.signals.items():
                if name in declared:
                    more = (*declared[name].readings, *readings)
                    declared[name] = msgspec.structs.replace(declared[name], readings=more)
        return load_objectives(self.overlays, self.promises, declared, self.tiers)

    @property
    def slos(self) -> tuple[Slo, ...]:
        """The objectives themselves."""
        return self.objectives.slos

    @cached_property
    def tiers(self) -> Tiers:
        """The hardware tiers with their defaults."""
        return self._tiers[0]

    @cached_property
    def markers(self) -> tuple[Marker, ...]:
        """What shows that something was changed."""
        return decode_file("collectors", CHANGES, MarkerFile, self.overlays).markers

    @cached_property
    def health(self) -> tuple[HealthRow, ...]:
        """The rows of the monitoring table."""
        return decode_file("collectors", HEALTH, HealthFile, self.overlays).rows

    @cached_property
    def flags(self) -> Flags:
        """The flags of vLLM that advice names, and what shows how old an engine is."""
        return decode_file("collectors", FLAGS, Flags, self.overlays)

    @cached_property
    def efficiency(self) -> Efficiency:
        """The shares of their published figures that tiers reach; a folder of one's own is laid over the shipped."""
        return self._laid_over(EFFICIENCY, Efficiency)

    @cached_property
    def models(self) -> dict[str, KnownModel]:
        """Models by short name; a folder of one's own adds and replaces."""
        return self._laid_over(MODELS, KnownModels).models

    def is_dense(self, model: str) -> bool:
        """Whether a model is known, by its short name or the one under which it is published, and has no experts."""
        known = (one for name, one in self.models.items() if model.lower() in (name, one.title.lower()))
        return any(one.active is None for one in known)

    def _laid_over(self, name: str, into: type[Laid]) -> Laid:
        paths = self._places("collectors", name)
        return decode_over(paths, into) if paths else into()

    def _places(self, folder: Folder, name: str) -> list[Path]:
        """The files of one name, the shipped one first."""
        places = (place / name for place in content_folders(folder, self.overlays))
        return [path for path in places if path.is_file()]

    @cached_property
    def recipes(self) -> dict[str, Recipe]:
        """The causes that are looked for. All are checked here, so that a user's file fails early."""
        for name, (observation, path) in self._observations.items():
            _raise(path, check_observation(name, observation, self.signals, self.tiers, self.dictionary))
        around = self._surroundings()
        for file, path in self._recipes.values():
            _raise(path, check_recipe(file, around))
        unknown = sorted(set(self.disabled) - around.files.keys())
        for name in unknown:
            raise CatalogueError(f'[recipes] disabled: no such cause "{name}"{nearest(name, around.files)}')
        return {
            name: resolved(file, self.dictionary, self.actions, around.files, self.tiers)
            for name, file in around.files.items()
            if name not in self.disabled
        }

    @cached_property
    def dictionary(self) -> Dictionary:
        """The observations: of `observations.yaml`, shipped and of the overlays, and of the recipes themselves."""
        return Dictionary({name: observation for name, (observation, _) in self._observations.items()})

    @property
    def actions(self) -> dict[str, Action]:
        """What can be done, by name."""
        return {name: action for name, (action, _) in self._actions.items()}

    @cached_property
    def families(self) -> dict[str, Family]:
        """Mechanisms by name, from what brings about to what is brought about."""
        return {name: family_of(name, one, self.dictionary, self.actions) for name, (one, _) in self._families.items()}

    @cached_property
    def calibration(self) -> Calibration:
        """How often findings were right, as measured; empty where it was not."""
        return decode_file("diagnostics", CALIBRATION, Calibration, self.overlays)

    @cached_property
    def signs(self) -> Mapping[str, Sign]:
        """What Kubernetes shows of a pod, and the causes it supports."""
        return load_signs(self.overlays)

    @cached_property
    def standing(self) -> Standing:
        """The standing states of `inferdoc audit`."""
        return load_standing(self.overlays)

    @cached_property
    def spellings(self) -> Mapping[str, Spelling]:
        """Every metric name, current and former, with its declaration."""
        return spellings(self.exporters)

    @cached_property
    def origin(self) -> dict[tuple[Part, str], Path]:
        """The file of every exporter, signal and recipe by (part, id), and of the tiers under ("tiers", "tiers")."""
        found: dict[tuple[Part, str], Path] = {("tiers", "tiers"): self._tiers[1]}
        found |= {("exporter", name): path for name, (_, path) in self._exporters.items()}
        found |= {("signal", name): path for name, (_, path) in self._signals.items()}
        found |= {("observation", name): path for name, (_, path) in self._observations.items()}
        return found | {("recipe", name): path for name, (_, path) in self._recipes.items()}

    def problems(self) -> list[str]:
        """Every cross check of the whole catalogue, one line per problem, each with file, line and path."""
        found = [(path, check_exporter(exporter)) for exporter, path in self._exporters.values()]
        signals = {name: signal for name, (signal, _) in self._signals.items()}
        found += [
            (path, list(check_readings(exporter, signals, self.exporters)))
            for exporter, path in self._exporters.values()
        ]
        by_signal = check_signals(signals, self.exporters)
        found += [(self._signals[name][1], problems) for name, problems in by_signal.items()]
        found.append((self._tiers[1], check_tiers(self.tiers, self.signals)))
        unknown = sorted({name for row in self.health for name in row.signals} - self.signals.keys())
        rows = [Problem(("rows",), f'"{name}" is no declared signal') for name in unknown]
        rows += [
            Problem(at, words)
            for number, row in enumerate(self.health)
            for name in (*row.shows, *row.only_with)
            for at, words in self.dictionary.problems(name, ("rows", number))
        ]
        tables = {
            CHANGES: self._marker_problems(),
            HEALTH: rows,
            EFFICIENCY: self.efficiency.problems(self.tiers.tiers.keys()),
            CLUSTER: Signs(dict(self.signs)).problems(self._recipes.keys()),
            FLAGS: [Problem(("flags",), words) for words in self.flags.problems()],
        }
        for name, problems in tables.items():
            found.append((content_file("collectors", name, self.overlays) or Path(name), list(problems)))
        for name, (observation, path) in self._observations.items():
            found.append((path, check_observation(name, observation, self.signals, self.tiers, self.dictionary)))
        around = self._surroundings()
        found += [(path, check_recipe(file, around)) for file, path in self._recipes.values()]
        for name, (family, path) in self._families.items():
            found.append((path, check_family(name, family, around)))
        for name, (action, path) in self._actions.items():
            found.append((path, list(check_action(action, ("steps", name), around))))
        unread = sorted(self.tiers.thresholds.keys() - self._read_limits())
        words = "nothing reads this limit; delete it, or name it in an observation"
        found.append((self._tiers[1], [Problem(("thresholds", name), words) for name in unread]))
        found.append((self._tiers[1], self._limits_of_tiers()))
        return [_line(path, problem) for path, problems in found for problem in problems]

    def _limits_of_tiers(self) -> list[Problem]:
        """Limits that a tier cannot have for itself: they are about a pool of several tiers, or the whole window."""
        readable = read_limits(self.dictionary) | self.standing.limits_of_units
        words = "no tier can have this limit for itself: it is not read pod by pod"
        tiers = self.tiers.tiers.items()
        return [
            Problem(("tiers", name, "thresholds", limit), words)
            for name, tier in tiers
            for limit in sorted(tier.thresholds.keys() & self.tiers.thresholds.keys() - readable)
        ]

    def _marker_problems(self) -> list[Problem]:
        known = self.signals.keys() | self.spellings.keys()
        named = sorted({str(m.signal or m.info) for m in self.markers} - known)
        return [Problem(("markers",), f'"{name}" is no declared signal or metric') for name in named]

    def check_recipe_file(self, path: Path, numbers: Collection[str] | None = None) -> list[str]:
        """What is wrong with a user's recipe file, one line per problem; it need not lie in an overlay yet. numbers:
        those that steps can work out."""
        try:
            file = load_recipe(path)
            own = {name: each for name, each in self._observations.items() if each[1] != self._path_of(file.id)}
            for name in file.observations:
                _claim(own, name, path, ("observations", name), "observation")
        except CatalogueError as error:
            return [str(error)]
        dictionary = Dictionary({**self.dictionary.observations, **file.observations})
        files = {**{name: each for name, (each, _) in self._recipes.items()}, file.id: file}
        problems = [
            problem
            for name, observation in file.observations.items()
            for problem in check_observation(name, observation, self.signals, self.tiers, dictionary)
        ]
        families = self._families.keys()
        around = CatalogueNames(
            self.signals, self.tiers, dictionary, self.actions, files, self.flags, families, numbers
        )
        problems += check_recipe(file, around)
        return [_line(path, problem) for problem in problems]

    def _surroundings(self) -> CatalogueNames:
        files = {name: file for name, (file, _) in self._recipes.items()}
        families = self._families.keys()
        return CatalogueNames(self.signals, self.tiers, self.dictionary, self.actions, files, self.flags, families)

    def _read_limits(self) -> set[str]:
        """The named limits that an observation or a recipe reads."""
        shares = {file.pool_share for file, _ in self._recipes.values() if file.pool_share is not None}
        return read_limits(self.dictionary) | shares | self.standing.limits

    def _path_of(self, recipe: str) -> Path | None:
        """The file of a cause, None for one that is not in the catalogue."""
        return self._recipes[recipe][1] if recipe in self._recipes else None

    @cached_property
    def _exporters(self) -> dict[str, tuple[Exporter, Path]]:
        found: dict[str, tuple[Exporter, Path]] = {}
        for name, path in content_files("collectors", overlays=self.overlays).items():
            if name not in BESIDE and not name.startswith(SIGNALS):
                exporter = decode(path, Exporter)
                _claim(found, exporter.exporter, path, ("exporter",), "exporter")
                found[exporter.exporter] = (exporter, path)
        return found

    @cached_property
    def _signals(self) -> dict[str, tuple[Signal, Path]]:
        found: dict[str, tuple[Signal, Path]] = {}
        for path in content_files("collectors", f"{SIGNALS}*.yaml", self.overlays).values():
            for name, signal in decode(path, SignalFile).signals.items():
                _claim(found, name, path, ("signals", name), "signal")
                found[name] = (signal, path)
        return found

    @cached_property
    def _tiers(self) -> tuple[Tiers, Path]:
        """A folder of one's own is laid over the shipped file: it holds only what is different."""
        paths = self._places("collectors", TIERS)
        if not paths:
            raise CatalogueError(f"collectors/{TIERS}: not found; it says what each hardware tier can do")
        return decode_over(paths, Tiers), paths[-1]

    @cached_property
    def _observations(self) -> dict[str, tuple[Observation, Path]]:
        """By name: of several files the last overlay's counts, so that a folder of one's own may set a number anew."""
        found = self._by_name(OBSERVATIONS, ObservationFile, lambda file: file.observations)
        for file, path in self._recipes.values():
            for name, observation in file.observations.items():
                _claim(found, name, path, ("observations", name), "observation")
                found[name] = (observation, path)
        return found

    @cached_property
    def _actions(self) -> dict[str, tuple[Action, Path]]:
        return self._by_name(STEPS, ActionFile, lambda file: file.steps)

    @cached_property
    def _families(self) -> dict[str, tuple[FamilyEntry, Path]]:
        return self._by_name(FAMILIES, FamilyFile, lambda file: file.families)

    def _by_name(
        self, name: str, into: type[Laid], entries: Callable[[Laid], Mapping[str, One]]
    ) -> dict[str, tuple[One, Path]]:
        """The entries of a file of `diagnostics/`, each with its file; a folder of one's own adds and replaces."""
        read = [(path, entries(decode(path, into))) for path in self._places("diagnostics", name)]
        return {key: (one, path) for path, found in read for key, one in found.items()}

    @cached_property
    def _recipes(self) -> dict[str, tuple[RecipeFile, Path]]:
        files = content_files("diagnostics", overlays=self.overlays)
        causes = [path for name, path in files.items() if name not in (OBSERVATIONS, STEPS, CALIBRATION, FAMILIES)]
        return {path.stem: (load_recipe(path), path) for path in causes}


def load_catalogue(
    overlays: Iterable[str | Path] = (),
    *,
    disabled: Iterable[str] = (),
    promises: Iterable[tuple[str, SloSection]] = (),
    strict: bool = False,
) -> Catalogue:
    """The catalogue with the user's overlay folders, without the causes that are disabled by id, and with what the
    configuration promises (place and section), the same object for the same of these.

    Nothing is read yet; the parts load on first use. strict: read and cross-check everything now.
    Raises CatalogueError.
    """
    catalogue = _catalogue(overlay_paths(overlays), tuple(disabled), tuple(promises))
    if strict:
        for problem in catalogue.problems():
            raise CatalogueError(problem)
    return catalogue


def load_recipe(path: Path) -> RecipeFile:
    """One cause from its file, whose name is its id. Raises CatalogueError."""
    recipe = decode(path, RecipeFile)
    if recipe.id != path.stem:
        raise CatalogueError(f'{locate(path, ("id",))}: expected "{path.stem}" as the file is named, got "{recipe.id}"')
    return recipe


@lru_cache(maxsize=8)
def _catalogue(
    overlays: tuple[Path, ...], disabled: tuple[str, ...], promises: tuple[tuple[str, SloSection], ...]
) -> Catalogue:
    return Catalogue(overlays, disabled, promises)


def _claim(found: Mapping[str, tuple[object, Path]], name: str, path: Path, steps: tuple[str, ...], what: str) -> None:
    if name in found:
        raise CatalogueError(f'{locate(path, steps)}: {what} "{name}" is declared in {found[name][1]} already')


def _line(path: Path, problem: Problem) -> str:
    return f"{locate(path, problem.steps)}: {problem.message}"


def _raise(path: Path, problems: Iterable[Problem]) -> None:
    for problem in problems:
        raise CatalogueError(_line(path, problem))

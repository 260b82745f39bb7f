"""Small hand-made frames: a few pods, a few signals, a grid of two-second scrapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np
from msgspec import structs

from inferdoc.catalogue.conditions import Fact
from inferdoc.catalogue.load import Catalogue, load_catalogue
from inferdoc.catalogue.observation import fact_of, in_yaml
from inferdoc.catalogue.recipe import Recipe, Step
from inferdoc.catalogue.signal import Signal
from inferdoc.catalogue.slo_file import load_objectives
from inferdoc.config_sections import SloSection
from inferdoc.fleet.lineage import trace
from inferdoc.fleet.members import resolve
from inferdoc.judging.clock import Clock
from inferdoc.judging.context import Context
from inferdoc.judging.view import Unit, make_view
from inferdoc.source.frame import Entity, SignalFrame, SignalMatrix
from inferdoc.source.reads import Grid

START_MS = 1_700_000_000_000
STEP_S = 2.0
WINDOW = 5
"""Steps per rate window."""
CALM = 40
"""Steps that are more than enough calm to compare with (the least is 23: 45 s)."""
N = 90

CLOCK = Clock(STEP_S, STEP_S, WINDOW)


def grid(count: int = N) -> Grid:
    return Grid(START_MS, 2000, count, 2000, 10_000, 5000)


@cache
def catalogue() -> Catalogue:
    return load_catalogue()


def declared(
    name: str, unit: str = "units", level: str = "engine", floor: float = 0.0, feature: bool = False
) -> Signal:
    """A signal as the catalogue would declare it."""
    return Signal(f"Signal {name}", unit, "up", level, (), floor, f"switch {name} on", feature)  # type: ignore[arg-type]


SIGNALS = {
    **{name: declared(name) for name in ("load", "speed", "queue", "moving")},
    "ghost": declared("ghost"),
    "optional_ghost": declared("optional_ghost", feature=True),
    "rough": declared("rough", floor=5.0),
    "latency": declared("latency", unit="s"),
    "lost": declared("lost", unit="ratio"),
    "heat": declared("heat", level="gpu"),
}

Rows = Mapping[str, Mapping[str, Sequence[float] | np.ndarray]]


def frame_of(rows: Rows, labels: Mapping[str, Mapping[str, str]] | None = None) -> SignalFrame:
    """signal -> {entity: values}; an entity is `pod`, `pod/engine` or `pod#gpu`. labels: further ones by pod."""
    made = None
    for name, own in rows.items():
        entities, values = [], []
        for who, series in own.items():
            pod, engine, gpu = parts_of(who)
            found = {"pod": pod, **(labels or {}).get(pod, {})}
            found |= {"gpu": gpu} if gpu else {"model_name": "m", "engine": engine}
            entities.append(Entity.of(tuple(found), tuple(found.values())))
            values.append(np.asarray(series, dtype=float))
        made = made or SignalFrame(grid(len(values[0])))
        made.signals[name] = SignalMatrix(entities, np.vstack(values))
    assert made is not None
    return made


def parts_of(who: str) -> tuple[str, str, str]:
    pod, _, gpu = who.partition("#")
    pod, _, engine = pod.partition("/")
    return pod, engine, gpu


def scene(
    rows: Rows,
    labels: Mapping[str, Mapping[str, str]] | None = None,
    signals: Mapping[str, Signal] | None = None,
    slo: Sequence[SloSection] = (),
) -> Context:
    """A context to evaluate conditions in. Every pod named in the rows runs an engine."""
    count = len(next(iter(next(iter(rows.values())).values())))
    pods = {who.partition("#")[0] for own in rows.values() for who in own}
    frame = frame_of({"running": {pod: np.ones(count) for pod in sorted(pods)}, **rows}, labels)
    known = {**catalogue().signals, **SIGNALS, **(signals or {})}
    fleet = resolve(frame, catalogue().tiers)
    view = make_view(frame, fleet, signals=known, lineage=trace(frame, fleet))
    clock = Clock(view.step_seconds, frame.grid.interval_ms / 1000, view.window_steps)
    own = [("[[slo]]", section) for section in slo]
    return Context(view, known, catalogue().tiers, clock, slo=load_objectives((), own, known, catalogue().tiers).slos)


def unit_of(context: Context, name: str = "p0") -> Unit:
    (found,) = (unit for unit in context.view.units if unit.name == name)
    return found


def when(signal: str, **words) -> Fact:
    """A fact as its keys stand in YAML (`for_` for the word that Python keeps for itself), and what belongs to its use:
    scope, because, when, leads."""
    use = {word: words.pop(word) for word in ("scope", "because", "when", "leads") if word in words}
    return structs.replace(
        fact_of({"signal": signal, **{in_yaml(word): value for word, value in words.items()}}), **use
    )


def recipe(name: str = "cause", symptoms=(), harm=(), **more) -> Recipe:
    """A recipe with what must be there."""
    given = {"phase": "decode", "scope": "pod", "severity": "warning", **more}
    steps = given.pop("next_steps", (Step("do this", "because", "nothing", "do not"),))
    return Recipe(
        name,
        f"Title of {name}",
        symptoms=tuple(symptoms),
        harm=tuple(harm),
        next_steps=steps,
        sources=("a book",),
        **given,
    )


def step(before: float, after: float, at: int = CALM, count: int = N, until: int | None = None) -> np.ndarray:
    """One level, then another from step `at` on, and back again at `until`."""
    values = np.full(count, float(before))
    values[at:until] = after
    return values


def wobble(values: np.ndarray, share: float = 0.05, seed: int = 1) -> np.ndarray:
    """The same with a little noise, proportional to the level."""
    return values * (1 + share * np.random.default_rng(seed).standard_normal(len(values)))

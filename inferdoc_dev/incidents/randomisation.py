"""What practice draws beside the fault, in which ranges, and why: the declaration that `randomised` follows.

Nothing here is fitted to a recording: ranges are what users' fleets have, by documentation, defaults and habits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

import numpy as np


@dataclass(frozen=True)
class Range:
    """A number between two others, even on a logarithmic scale where `log`. unit: for tables."""

    low: float
    high: float
    unit: str
    because: str
    log: bool = False

    def draw(self, rng: np.random.Generator) -> float:
        """One of the range."""
        if self.log:
            return float(np.exp(rng.uniform(np.log(self.low), np.log(self.high))))
        return float(rng.uniform(self.low, self.high))

    @property
    def text(self) -> str:
        """The range in a table."""
        return f"{self.low:g} to {self.high:g} {self.unit}".rstrip() + (", logarithmic" if self.log else "")


@dataclass(frozen=True)
class Choice:
    """One of several values, with their weights."""

    values: tuple[object, ...]
    weights: tuple[float, ...]
    because: str
    unit: str = ""

    def draw(self, rng: np.random.Generator) -> object:
        """One of the values."""
        shares = np.array(self.weights) / sum(self.weights)
        return self.values[int(rng.choice(len(self.values), p=shares))]

    @property
    def text(self) -> str:
        """Values with their shares as they stand in a table."""
        whole = sum(self.weights)
        parts = (f"{value} ({weight / whole:.0%})" for value, weight in zip(self.values, self.weights, strict=True))
        return f"{', '.join(parts)} {self.unit}".rstrip()


@dataclass(frozen=True)
class Chance:
    """Whether something is so, in this share of the draws."""

    share: float
    because: str

    def draw(self, rng: np.random.Generator) -> bool:
        """Yes or no."""
        return bool(rng.random() < self.share)

    @property
    def text(self) -> str:
        """The share in a table."""
        return f"{self.share:.0%} of the draws"


@dataclass(frozen=True)
class Randomisation:
    """Everything that is drawn beside cause, fleet and severity."""

    interval: Choice = Choice((5, 10, 15, 30, 60), (1, 2, 4, 4, 2), "15 s to 1 min are usual; 60 s is the default", "s")
    jitter: Range = Range(0.0, 1.0, "s", "a busy Prometheus scrapes late")
    lost: Range = Range(0.0, 0.05, "of the scrapes", "restarts of Prometheus, time-outs, network")
    refused: Range = Range(0.0, 2.0, "times an hour and target", "`up` flaps where a page outlasts the time-out")
    layout: Choice = Choice(
        ("pod", "podmonitor", "annotations", "instance"),
        (4, 3, 1.5, 1.5),
        "own relabelling, Prometheus operator, the examples of Prometheus, a static config",
    )
    exported: Chance = Chance(0.35, "honorLabels is off by default: exporters' workload pods stand in exported_pod")
    job: Choice = Choice(("vllm", "model-servers", "llm/engine"), (2, 1, 1), "job names are the user's")
    naming: Choice = Choice(("deployment", "numbered"), (4, 1), "Deployments are usual, StatefulSets exist")
    base: Choice = Choice(("vllm", "chat", "ms-llama", "prod-llm-a"), (1, 1, 1, 1), "names are the user's")
    roles_named: Chance = Chance(0.7, "llm-d names prefill and decode in the deployment, others do not")
    release: Choice = Choice(
        ("0.32", "0.24", "0.15", "0.11", "0.10", "0.8"),
        (5, 1, 1.5, 1, 0.5, 0.5),
        "fleets lag behind; names and families differ by release",
    )
    router_release: Choice = Choice(
        ("0.11", "0.10", "0.8", "0.3"), (3, 1, 1, 0.5), "0.9 and 0.10 write old and new names, earlier ones the old"
    )
    dcgm: Chance = Chance(0.75, "not every cluster has dcgm-exporter, or lets the user read it")
    router: Chance = Chance(0.75, "a plain Service balances too, and the picker's page wants a token")
    cadvisor: Chance = Chance(0.6, "often scraped by another Prometheus")
    kube: Chance = Chance(0.5, "often scraped by another Prometheus")
    profiling: Chance = Chance(0.3, "optional fields of DCGM are off by default")
    allow: Choice = Choice(
        ("all", "prefix", "dashboard"), (7, 2, 1), "metric_relabel_configs keep what costs little: vllm:.*, a dashboard"
    )
    withheld: Choice = Choice((0, 1, 2, 4), (6, 2, 1, 1), "families dropped for their cardinality", "families")
    lead: Range = Range(0.0, 600.0, "s", "more history before the window: none in a young store, days usually")
    healthy: Range = Range(180.0, 700.0, "s", "window start before the onset")
    late: Range = Range(60.0, 180.0, "s", "delay of the page and the person: late window start after the onset")
    old: Range = Range(420.0, 900.0, "s", "a fault that is older than the window (where the draw lasts that long)")
    long: Chance = Chance(0.05, "an incident of hours: a window of half a day")
    hours: Range = Range(0.8, 6.0, "h", "length of a control, and of a long incident", log=True)
    age: Range = Range(3600.0, 30 * 86400.0, "s", "how long the first pods have run", log=True)
    bystanders: Choice = Choice((0, 1, 2), (5, 3, 2), "one to three models share a namespace", "other models")
    bystander_load: Range = Range(0.1, 0.35, "of what it sustains", "healthy")
    conversations: Chance = Chance(0.3, "chats have turns; their prompts are the history and grow")
    turns: Range = Range(2.0, 6.0, "turns", "mean length of a conversation")
    think: Range = Range(5.0, 30.0, "s", "between an answer and the next turn")
    shape: Choice = Choice(
        ("even", "bursts", "waves"), (5, 3, 2), "agents and batch clients come in bursts, people by the hour of the day"
    )
    burst: Range = Range(1.3, 2.0, "x the rate", "inside what the fleet sustains")
    wave: Range = Range(0.2, 0.5, "of the rate", "a day's swing around its mean")
    innocent: Chance = Chance(0.35, "an event without user impact happens in the same hour")
    trigger: Chance = Chance(0.25, "most faults begin with a rollout, which renames every pod")
    cold_start: Range = Range(30.0, 150.0, "s", "loading of weights, compilation, graphs")
    surge: Choice = Choice((0.25, 0.5, 1.0), (2, 1, 1), "maxSurge: 25 % by default; blue-green is all at once")
    early: Chance = Chance(0.5, "a PodMonitor scrapes pods that still load: up is 0 before it was ever 1")

    def rows(self) -> Iterator[tuple[str, str, str]]:
        """What is drawn, from which range, and why, for tables."""
        for one in fields(self):
            drawn = getattr(self, one.name)
            yield one.name, drawn.text, drawn.because


RANDOMISATION = Randomisation()

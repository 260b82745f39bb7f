"""Series of every engine for the rules that page: a user of SGLang waits as long as one of vLLM. Tickets know vLLM."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from inferdoc.catalogue.load import Catalogue
from inferdoc.judging.conditions.render import ENGINES
from inferdoc.source.plan import matchers
from inferdoc.source.reads import Matcher, selector

RAY = "ray_"
"""Ray exports a metric under this prefix, with `_` for `:` (collectors/names.yaml)."""
EACH = re.compile(r"(?:(\w+)\()?<(\w+)>(\w*)(?(1)(\[[^\]]*\](?: offset \w+)?)\))")
"""`<waiting>`, or a function of a range of it, now or earlier: `rate(<request_rate>[5m])`. A histogram has a part:
`rate(<ttft_mean>_sum[5m])`."""
Series = tuple[str, tuple[Matcher, ...]]


def with_ray(name: str) -> tuple[str, ...]:
    """The names of a series of vLLM: its own and that under Ray."""
    return (name, RAY + name.replace(":", "_")) if name.startswith(ENGINES) else (name,)


def series_of(catalogue: Catalogue, signal: str) -> Iterator[Series]:
    """What a signal reads, by engine: a gauge, a counter or a histogram, under its current and former names. Of a sum
    of counters the first. Readings in another unit are left out.

    Raises KeyError for an unknown signal.
    """
    for reading in catalogue.signals[signal].readings:
        term = next(iter(reading.terms.values()), None)
        name = reading.gauge or reading.rate or reading.mean or (term.rate if term else None)
        if name is None or reading.scale != 1:
            continue
        match = tuple(matchers(reading.match or (term.match if term else {})))
        declared = catalogue.spellings.get(name)
        former = [old.name for old in declared.metric.formerly] if declared and declared.current == name else []
        yield from ((each, match) for spelled in (name, *former) for each in with_ray(spelled))


def any_of(texts: Iterable[str]) -> str:
    """The first of several expressions that a target has."""
    return " or ".join(texts)


def expanded(expr: str, catalogue: Catalogue) -> str:
    """An expression with `<signal>` replaced by the series of every engine. Raises KeyError for an unknown signal."""

    def expand(found: re.Match[str]) -> str:
        function, signal, part, window = found.groups()
        plain = [selector(name + part, match) for name, match in series_of(catalogue, signal)]
        return any_of(f"{function}({each}{window})" for each in plain) if function else f"({any_of(plain)})"

    return EACH.sub(expand, expr)

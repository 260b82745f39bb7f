"""How recording rules name what they record, where whoever writes rules and whoever reads what they recorded have to
agree."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import lru_cache

import msgspec

from inferdoc.catalogue.conditions import Condition, Scope
from inferdoc.catalogue.load import Catalogue
from inferdoc.catalogue.observation import Dictionary, Use

INFO = "pod:inferdoc_info:last"
"""One series for each engine pod, with its model, role and tier."""
SEEN_RECORD = "instance:inferdoc_engine:seen1d"
"""The targets that are, or within a day were, engines."""
ROUTERS_RECORD = "instance:inferdoc_router:seen1d"
EXPORTERS_RECORD = "instance:inferdoc_exporter:present"
"""The targets that report the GPUs and containers of engine pods."""
OF_OBSERVATIONS = ":holds"
"""How the records of observations end."""
PREFIX = ":inferdoc_"
"""Between the level of a record and its name."""
AMONG: Mapping[Scope, str] = {
    "own": "",
    "pool": "_in_pool",
    "peers": "_on_a_peer",
    "most": "_on_most_peers",
    "prefill": "_on_prefill",
    "decode": "_on_decode",
}


def fact(condition: Condition) -> Condition:
    """A condition without what belongs to its use."""
    return msgspec.structs.replace(condition, because=None, when="any", leads=False)


def observations(catalogue: Catalogue) -> Mapping[Condition, str]:
    """The observations of the dictionary by their condition, also those of other units."""
    return _by_condition(catalogue.dictionary)


@lru_cache(maxsize=4)
def _by_condition(dictionary: Dictionary) -> Mapping[Condition, str]:
    found: dict[Condition, str] = {}
    for name in dictionary.observations:
        for scope, words in AMONG.items():
            condition = dictionary.condition(name if scope == "own" else Use(observation=name, among=scope))
            found.setdefault(fact(condition), f"{name}{words}")
    return found


def records_of(names: Collection[str]) -> str:
    """A regular expression for the names of the records of these observations, of whatever level."""
    return f"[a-z]+{PREFIX}({'|'.join(sorted(map(re.escape, names)))}){OF_OBSERVATIONS}"

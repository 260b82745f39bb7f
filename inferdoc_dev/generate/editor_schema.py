"""JSON Schemas of the files in `diagnostics/`, for editors: keys, words and the names that may be used."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from inferdoc.catalogue.load import Catalogue
from inferdoc.catalogue.observation import (
    ABOUT,
    GROUPS,
    KINDS,
    LIMITS,
    OTHER_SIGNALS,
    SIGNAL,
    Observation,
    ObservationFile,
)
from inferdoc.catalogue.recipe import ActionFile
from inferdoc.catalogue.recipe_file import RecipeFile
from inferdoc.generate.document import FileChange, file_changes

DIALECT = "https://json-schema.org/draft/2020-12/schema"
FILES: dict[str, tuple[str, type[msgspec.Struct]]] = {
    "recipe.schema.json": ("a cause", RecipeFile),
    "observations.schema.json": ("observations.yaml", ObservationFile),
    "steps.schema.json": ("steps.yaml", ActionFile),
}
"""File beside the content, and what it describes."""


def editor_schema(name: str, catalogue: Catalogue) -> dict[str, Any]:
    """One of FILES. Names of observations, causes, steps and limits are offered, and names of one's own allowed."""
    title, struct = FILES[name]
    document = {"$schema": DIALECT, "title": title, **msgspec.json.schema(struct)}
    known = {
        "observation": sorted(catalogue.dictionary.observations),
        "cause": sorted(catalogue.recipes),
        "step": sorted(catalogue.actions),
        "signal": sorted(catalogue.signals),
        "limit": sorted(catalogue.tiers.thresholds),
    }
    for definition in list(document["$defs"].values()):
        for key, schema in definition.get("properties", {}).items():
            if key in OFFERED:
                _offer(schema, OFFERED[key])
    if Observation.__name__ in document["$defs"]:
        _by_kind(document["$defs"][Observation.__name__])
    for kind, names in known.items():
        document["$defs"][f"{kind}-name"] = {"anyOf": [{"enum": names}, {"type": "string"}]}
    return document


OFFERED = {
    **dict.fromkeys(("needs", "any_of", "of", "impact", "supported_by", "proven_by", "excluded_by"), "observation"),
    **dict.fromkeys(("observation", "critical_when", *GROUPS), "observation"),
    **dict.fromkeys(("cause", "effects", "look_alikes", "more_specific_than"), "cause"),
    **dict.fromkeys(("step", "next_steps"), "step"),
    **dict.fromkeys((SIGNAL, *OTHER_SIGNALS), "signal"),
    **dict.fromkeys((*LIMITS, "pool_share"), "limit"),
}
"""Which names a key takes."""


def _by_kind(observation: dict[str, Any]) -> None:
    """Make of the schema of an observation one for every kind: the keys that this kind reads, and no others."""
    takes = {key: _given(schema) for key, schema in observation.pop("properties").items()}
    takes |= {key: {"const": True} for key, kind in KINDS.items() if kind.value is None}
    keys = {key: {key: True} for key in GROUPS}
    for key, kind in KINDS.items():
        keys[key] = {SIGNAL: True, key: True} | {option: field.required for option, field in kind.options.items()}
    for word in ("type", "required", "additionalProperties"):
        del observation[word]
    observation["oneOf"] = [
        {
            "title": kind,
            "type": "object",
            "properties": {key: takes[key] for key in (*own, *ABOUT)},
            "required": [key for key, needed in own.items() if needed],
            "additionalProperties": False,
        }
        for kind, own in keys.items()
    ]


def _given(schema: dict[str, Any]) -> dict[str, Any]:
    """What a key takes where it is given."""
    types = [each for each in schema.get("anyOf", ()) if each != {"type": "null"}]
    return types[0] if len(types) == 1 else {"anyOf": types} if types else {"type": schema["type"]}


def _offer(schema: Any, kind: str) -> None:
    """Offer the names of a kind wherever a schema takes any text."""
    if isinstance(schema, dict) and schema.get("type") == "string" and "enum" not in schema:
        del schema["type"]
        schema["$ref"] = f"#/$defs/{kind}-name"
        return
    for each in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        _offer(each, kind)


def schema_changes(folder: Path, catalogue: Catalogue) -> list[FileChange]:
    """The schemas of a folder that differ."""
    return file_changes({folder / name: json.dumps(editor_schema(name, catalogue), indent=1) + "\n" for name in FILES})

"""JSON Schemas of the files in `diagnostics/`, for editors: keys, words and the names that may be used."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from inferdoc.catalogue.load import Catalogue
from inferdoc.catalogue.observation import ObservationFile
from inferdoc.catalogue.recipe_file import RecipeFile
from inferdoc.catalogue.steps import ActionFile

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
    for kind, names in known.items():
        document["$defs"][f"{kind} name"] = {"anyOf": [{"enum": names}, {"type": "string"}]}
    return document


OFFERED = {
    **dict.fromkeys(("needs", "any_of", "of", "impact", "supported_by", "proven_by", "excluded_by"), "observation"),
    **dict.fromkeys(("observation", "not", "critical_when", "all", "any"), "observation"),
    **dict.fromkeys(("cause", "effects", "look_alikes", "more_specific_than"), "cause"),
    **dict.fromkeys(("step", "next_steps"), "step"),
    **dict.fromkeys(("signal", "stalls", "follows"), "signal"),
    **dict.fromkeys(("above", "below", "reaches", "pool_share"), "limit"),
}
"""Which names a key takes."""


def _offer(schema: Any, kind: str) -> None:
    """Offer the names of a kind wherever a schema takes any text."""
    if isinstance(schema, dict) and schema.get("type") == "string" and "enum" not in schema:
        del schema["type"]
        schema["$ref"] = f"#/$defs/{kind} name"
        return
    for each in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        _offer(each, kind)


def update_schemas(folder: Path, catalogue: Catalogue, *, check: bool = False) -> list[str]:
    """Bring the schemas in a folder up to date; what differed, one line each. check: write nothing."""
    changed = []
    for name in FILES:
        path, text = folder / name, json.dumps(editor_schema(name, catalogue), indent=1) + "\n"
        if not path.is_file() or path.read_text("utf-8") != text:
            changed.append(f"{path}: out of date")
            if not check:
                path.write_text(text, "utf-8")
    return changed

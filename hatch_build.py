"""What the wheel contains beside the package: the content that the installed commands read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

CONTENT = {
    **{name: name for name in ("collectors", "diagnostics", "dashboards", "alerts", "runbooks")},
    "fixtures/incidents": "incidents",
}
GENERATED = "generated"
READ_AT_RUN_TIME = {"alerts/generated/inferdoc-rules.yaml"}
"""`inferdoc serve` takes the times of its alerts from it. Commands write all other generated files anew."""


class ContentHook(BuildHookInterface):
    """Adds the content of the checkout, without generated files."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """An editable installation reads the checkout."""
        if version != "editable":
            build_data["force_include"].update(content(Path(self.root)))


def content(root: Path) -> dict[str, str]:
    """Path of each file of the content -> its path in the wheel."""
    found = {}
    for folder, place in CONTENT.items():
        for path in sorted((root / folder).rglob("*")):
            name = path.relative_to(root).as_posix()
            if path.is_file() and (GENERATED not in path.parts or name in READ_AT_RUN_TIME):
                found[str(path)] = f"inferdoc/content/{place}/{path.relative_to(root / folder).as_posix()}"
    return found

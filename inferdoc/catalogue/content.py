"""Where the content lives: the five folders of YAML and Markdown that the engine interprets.

In a checkout they stand beside the package, in an installed wheel inside it (`inferdoc/content`). A user's overlay is a
folder of the same shape: a file with the same name replaces the shipped one, a new name adds.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Literal, get_args

from inferdoc.errors import CatalogueError

Folder = Literal["collectors", "diagnostics", "dashboards", "alerts", "runbooks"]
FOLDERS: tuple[Folder, ...] = get_args(Folder)
PACKAGE = Path(__file__).resolve().parent.parent


def content_root() -> Path:
    """The folder that holds the five content folders: inside the installed package, else the checkout's root."""
    for root in (PACKAGE / "content", PACKAGE.parent):
        if (root / "collectors").is_dir():
            return root
    raise CatalogueError(f"{PACKAGE / 'content'}: the shipped catalogue is missing; reinstall inferdoc-toolkit")


def overlay_paths(overlays: Iterable[str | Path]) -> tuple[Path, ...]:
    """Overlay folders made absolute and checked, in the order given (later ones win).

    Raises CatalogueError for one that is no folder or holds none of the five content folders.
    """
    checked = []
    for overlay in overlays:
        path = Path(overlay).expanduser().resolve()
        if not path.is_dir():
            raise CatalogueError(f"{path}: no such catalogue folder")
        if not any((path / folder).is_dir() for folder in FOLDERS):
            raise CatalogueError(
                f"{path}: a catalogue folder holds at least one of {', '.join(f'{f}/' for f in FOLDERS)}"
            )
        checked.append(path)
    return tuple(checked)


def content_folders(folder: Folder, overlays: Iterable[str | Path] = ()) -> tuple[Path, ...]:
    """Every place of one content folder: the shipped one, then those of the overlays, lowest precedence first."""
    roots = (content_root(), *(Path(overlay) for overlay in overlays))
    return tuple(root / folder for root in roots if (root / folder).is_dir())


def content_files(folder: Folder, pattern: str = "*.yaml", overlays: Iterable[str | Path] = ()) -> dict[str, Path]:
    """The files of one content folder by file name; of several with one name the last overlay's counts. Shipped names
    come first, then those that overlays add."""
    found: dict[str, Path] = {}
    for place in content_folders(folder, overlays):
        for path in sorted(place.glob(pattern)):
            if path.is_file() and not path.name.startswith("."):
                found[path.name] = path
    return found


def content_file(folder: Folder, name: str, overlays: Iterable[str | Path] = ()) -> Path | None:
    """One content file by name, or None where neither the shipped catalogue nor an overlay has it."""
    places = reversed(content_folders(folder, overlays))
    return next((place / name for place in places if (place / name).is_file()), None)

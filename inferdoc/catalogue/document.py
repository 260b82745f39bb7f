"""One YAML document into one struct, with errors that name the file, the line, the path and what was expected."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from functools import reduce
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import yaml
from msgspec import inspect

from inferdoc.catalogue.content import Folder, content_file
from inferdoc.catalogue.yaml_text import load_yaml, parsed_texts
from inferdoc.errors import CatalogueError

T = TypeVar("T")
Steps = tuple[str | int, ...]

_WHERE = re.compile(r"^(?P<message>.*?)(?: - at `(?:key(?:` in `))?(?P<path>\$.*?)`)?$", re.DOTALL)
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]|\[(\.\.\.)\]")
_UNKNOWN = re.compile(r"unknown field `(.+)`")
_BETWEEN_WORDS = re.compile(r"[^a-z0-9]+")


class _Loader(yaml.CSafeLoader):
    """The safe C loader, and a key written twice is an error instead of a silent loss."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(None, None, "a key must be a word", key.start_mark)
            if key.value in seen and key.tag != "tag:yaml.org,2002:merge":
                raise yaml.constructor.ConstructorError(None, None, f"{key.value!r} is given twice", key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping a YAML file holds. Raises CatalogueError with the line where it is not one."""
    try:
        text = path.read_bytes()
        data = parsed_texts().of(text, lambda: load_yaml(text, _Loader))
    except OSError as error:
        raise CatalogueError(f"{path}: cannot be read: {error.strerror or error}") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"{path}:{mark.line + 1}" if mark else str(path)
        raise CatalogueError(f"{where}: not valid YAML: {one_line(error.problem or error.context or '')}") from None
    except yaml.YAMLError as error:
        raise CatalogueError(f"{path}: not valid YAML: {one_line(str(error))}") from None
    if not isinstance(data, dict):
        raise CatalogueError(f"{path}: expected a mapping at the top, got {kind_of(data)}")
    return data


def decode(path: Path, into: type[T]) -> T:
    """A YAML file as a struct, strictly: no unknown keys, no conversions. Raises CatalogueError."""
    return decode_over((path,), into)


def decode_file(
    folder: Folder, name: str, into: type[T], overlays: Iterable[str | Path] = (), says: str | None = None
) -> T:
    """A content file by name, that of the last overlay that has it, as a struct; the struct's defaults if there is
    none. says: what the file is for, if it must be there. Raises CatalogueError."""
    path = content_file(folder, name, overlays)
    if path is None and says is not None:
        raise CatalogueError(f"{folder}/{name}: not found; {says}")
    return into() if path is None else decode(path, into)


def decode_over(paths: Sequence[Path], into: type[T]) -> T:
    """YAML files laid over one another, later ones on top and key by key, as one struct; an error is looked for in the
    last. Raises CatalogueError."""
    data, path = reduce(_over, (read_yaml(path) for path in paths)), paths[-1]
    try:
        return msgspec.convert(data, into, strict=True)
    except msgspec.ValidationError as error:
        raise CatalogueError(_explain(path, data, into, error)) from None
    except RecursionError:
        raise CatalogueError(f"{path}: nested too deeply to be read") from None


def _over(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """Two mappings as one, key by key as far as they hold mappings themselves; what holds none (a figure with its
    source, a band) is that of `above` whole."""
    if not any(isinstance(value, dict) for value in above.values()):
        return above
    shared = [key for key in below.keys() & above.keys() if _mappings(below[key], above[key])]
    both = {key: _over(below[key], above[key]) for key in shared}
    return {**below, **above, **both}


def _mappings(*values: object) -> bool:
    return all(isinstance(value, dict) for value in values)


def locate(path: Path, steps: Steps) -> str:
    """`file:line: path` of a place in a YAML document; the nearest place that exists where it is absent."""
    line = 1
    try:
        node = yaml.compose(path.read_bytes(), yaml.CSafeLoader)
    except (OSError, yaml.YAMLError):
        node = None
    for step in steps:
        found = _child(node, step)
        if found is None:
            break
        line, node = found
    return f"{path}:{line}: {dotted(steps)}" if steps else f"{path}:{line}"


def dotted(steps: Steps) -> str:
    """("symptoms", 0, "signal") -> "symptoms[0].signal"."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)
    return text.removeprefix(".")


def nearest(name: str, names: Iterable[str]) -> str:
    """` (did you mean "x"?)` for the nearest of the names, or nothing where none is near. Near is what shares several
    words with it ("gpu slow" and "slow-gpu"), else what is spelt alike, else what shares one: "preemption" is near
    "kv-preemption-thrash"."""
    listed = list(names)
    close = (
        _sharing_words(name, listed, 2)
        or difflib.get_close_matches(name, listed, n=1, cutoff=0.6)
        or _sharing_words(name, listed, 1)
    )
    return f' (did you mean "{close[0]}"?)' if close else ""


def _sharing_words(name: str, names: Sequence[str], least: int) -> list[str]:
    """The one of the names that shares the most words with `name`, among equals the one that is spelt most alike. A
    word may be cut short; a single letter is none."""
    words = [word for word in _BETWEEN_WORDS.split(name.lower()) if len(word) > 1]

    def shared(other: str) -> int:
        parts = _BETWEEN_WORDS.split(other.lower())
        return sum(any(part.startswith(word) for part in parts) for word in words)

    best = max(names, key=lambda o: (shared(o), difflib.SequenceMatcher(None, name, o).ratio(), o), default=None)
    return [best] if best is not None and shared(best) >= least else []


def one_line(text: str) -> str:
    """The text with every run of white space as one space."""
    return " ".join(text.split())


def kind_of(value: object) -> str:
    """What YAML calls a value."""
    names = {dict: "a mapping", list: "a list", str: "text", bool: "a boolean", int: "a number", float: "a number"}
    return "nothing" if value is None else names.get(type(value), type(value).__name__)


def _child(node: yaml.Node | None, step: str | int) -> tuple[int, yaml.Node] | None:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == str(step):
                return key.start_mark.line + 1, value
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        item = node.value[step]
        return item.start_mark.line + 1, item
    return None


def _explain(path: Path, data: dict[str, Any], into: type[Any], error: msgspec.ValidationError) -> str:
    """The validation error with file, line and path; an unknown key gets the nearest valid one."""
    message, steps = _split(data, into, error)
    unknown = _UNKNOWN.search(message)
    if unknown:
        key = unknown.group(1)
        valid = _fields_at(into, steps)
        hint = nearest(key, valid) or (f"; valid keys: {', '.join(valid)}" if valid else "")
        return f"{locate(path, (*steps, key))}: unknown key{hint}"
    return f"{locate(path, steps)}: {message[:1].lower()}{message[1:]}"


def _split(data: dict[str, Any], into: type[Any], error: msgspec.ValidationError) -> tuple[str, Steps]:
    """Message and path of a msgspec error. msgspec writes `[...]` for a key of a mapping; which one is found by trying
    the document with one key at a time."""
    found = _WHERE.match(str(error))
    message = found.group("message") if found else str(error)
    raw = (found.group("path") if found else None) or "$"
    steps: tuple[str | int, ...] = ()
    for name, index, any_key in _STEP.findall(raw):
        step: str | int = int(index) if index else name
        if any_key:
            trials = ((key, _keep(data, steps, key)) for key in _at(data, steps))
            step, data = next(
                ((key, trial) for key, trial in trials if _fault(trial, into) == str(error)), ("...", data)
            )
        steps = (*steps, step)
    return message, steps


def _fault(data: dict[str, Any], into: type[Any]) -> str | None:
    """What msgspec says of a document, None where nothing is wrong."""
    try:
        msgspec.convert(data, into, strict=True)
    except msgspec.ValidationError as error:
        return str(error)
    return None


def _at(data: Any, steps: Steps) -> Any:
    for step in steps:
        data = data[step]
    return data


def _keep(value: Any, steps: Steps, key: str) -> Any:
    """A copy of a document in which the mapping at `steps` has one key left."""
    if not steps:
        return {key: value[key]}
    step, rest = steps[0], steps[1:]
    if isinstance(value, list):
        return [_keep(item, rest, key) if index == step else item for index, item in enumerate(value)]
    return {**value, step: _keep(value[step], rest, key)}


def _fields_at(into: type[Any], steps: Steps) -> list[str]:
    """Keys that the struct at a path knows, in the order they are declared."""
    node: inspect.Type | None = inspect.type_info(into)
    for step in steps:
        node = _struct_or_container(node)
        if isinstance(node, inspect.StructType):
            node = next((field.type for field in node.fields if field.encode_name == step), None)
        elif isinstance(node, inspect.DictType):
            node = node.value_type
        elif isinstance(node, inspect.ListType | inspect.VarTupleType):
            node = node.item_type
        else:
            return []
    node = _struct_or_container(node)
    return [field.encode_name for field in node.fields] if isinstance(node, inspect.StructType) else []


def _struct_or_container(node: inspect.Type | None) -> inspect.Type | None:
    if not isinstance(node, inspect.UnionType):
        return node
    containers = (inspect.StructType, inspect.DictType, inspect.ListType, inspect.VarTupleType)
    return next((option for option in node.types if isinstance(option, containers)), None)

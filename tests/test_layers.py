"""Dependencies point downwards, nothing goes in circles, and heavy libraries are loaded only by what needs them."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

import inferdoc

PACKAGE = Path(inferdoc.__file__).parent
MODULES = {
    ".".join((PACKAGE.name, *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__"): path
    for path in sorted(PACKAGE.rglob("*.py"))
}

# From the top down. A part imports only from parts below it, from itself, and where ALLOWED says so from its neighbour.
LAYERS = (
    ("cli",),
    ("agents", "serve", "watch"),
    ("report", "expose"),
    ("verify", "incidents"),
    ("whatif",),
    ("cost", "bench", "canary", "kv", "headroom", "cluster", "preflight"),
    ("audit", "slo", "backtest", "sizing", "pages"),
    ("judging", "prewarm", "generate", "simulate"),
    ("forecast",),
    ("fleet",),
    ("source",),
    ("store", "collect"),
    ("capacity",),
    ("words",),
    ("catalogue",),
    ("config", "environment"),
    ("config_sections",),
    ("escaping", "replacing", "origins"),
    ("times",),
    ("installed",),
    ("extras",),
    ("errors",),
    ("version", "cycles", "json_document"),
)
DEPTH = {part: depth for depth, parts in enumerate(LAYERS) for part in parts}
ALLOWED = {
    ("generate", "judging"),  # the condition kinds know how they read as PromQL
    ("store", "collect"),  # the store keeps pages as the parser lays them out
}
HEAVY = {
    "numpy",
    "pandas",
    "sklearn",
    "statsmodels",
    "scipy",
    "requests",
    "yaml",
    "msgspec",
    "grafanalib",
    "sqlite3",
    "pyarrow",
    "fsspec",
}


def part_of(module: str) -> str:
    """inferdoc.judging.conditions.levels -> judging."""
    return module.split(".")[1] if "." in module else ""


def imports(tree: ast.AST, module: str, skip: Callable[[ast.AST], bool] = lambda node: False) -> Iterator[str]:
    """Names of the modules that a module imports, but for what stands under a node to be skipped."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0 and node.module, f"{module}: relative import"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in MODULES else node.module
        elif not skip(node):
            yield from imports(node, module, skip)


def in_function(node: ast.AST) -> bool:
    """Bodies of functions run after all modules are there."""
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)


def runs_later(node: ast.AST) -> bool:
    """Bodies of functions, and what only type checkers see."""
    if isinstance(node, ast.If):
        return "TYPE_CHECKING" in ast.unparse(node.test)
    return in_function(node)


@cache
def trees() -> dict[str, ast.Module]:
    """Module -> its syntax tree."""
    return {module: ast.parse(path.read_text("utf-8")) for module, path in MODULES.items()}


@cache
def top() -> dict[str, set[str]]:
    """Module -> what is imported along with it."""
    return {module: set(imports(tree, module, runs_later)) for module, tree in trees().items()}


def own(names: Iterable[str]) -> set[str]:
    return {name for name in names if name in MODULES}


def circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """The largest groups of modules of which each leads to each other one, in order of name."""
    reached = {module: reach(graph, module) for module in graph}
    groups = {
        tuple(sorted(other for other in reached[module] if module in reached[other]))
        for module in graph
        if module in reached[module]
    }
    return [list(group) for group in sorted(groups)]


def reach(graph: Mapping[str, set[str]], start: str) -> set[str]:
    """The modules that one leads to; itself only where it is part of a circle."""
    held: set[str] = set()
    queue = [start]
    while queue:
        new = graph[queue.pop()] - held
        held |= new
        queue += new
    return held


def test_every_part_has_its_layer():
    assert {part_of(module) for module in MODULES} - {""} <= DEPTH.keys()


@pytest.mark.parametrize("part", sorted(DEPTH))
def test_dependencies_point_down(part):
    wrong = []
    for module, tree in trees().items():
        if part_of(module) != part:
            continue
        for name in own(set(imports(tree, module))):
            other = part_of(name)
            if other in ("", part) or (part, other) in ALLOWED:
                continue
            if DEPTH[other] <= DEPTH[part]:
                wrong.append(f"{module} imports {name}")
    assert not wrong


def test_no_module_imports_what_is_not_in_the_wheel():
    beside = {path.name for path in PACKAGE.parent.iterdir() if path.is_dir()} - {PACKAGE.name}
    assert {"inferdoc_dev", "benchmarks", "tests"} <= beside
    wrong = {
        module: found
        for module, tree in trees().items()
        if (found := {name for name in imports(tree, module) if name.split(".")[0] in beside})
    }
    assert wrong == {}


def test_no_modules_import_each_other_in_a_circle():
    """What only type checkers see counts: modules that need each other's types are one idea, or lack a third."""
    graph = {module: own(imports(tree, module, in_function)) - {module} for module, tree in trees().items()}
    assert circles(graph) == []


def test_circles_are_seen_also_where_only_type_checkers_look():
    text = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from inferdoc.config import Config\n"
    tree = ast.parse(text + "def later():\n    import inferdoc.times\n")
    assert own(imports(tree, "a", in_function)) == {"inferdoc.config"}
    assert own(imports(tree, "a", runs_later)) == set()
    assert own(imports(tree, "a")) == {"inferdoc.config", "inferdoc.times"}
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set(), "e": {"f", "a"}, "f": {"e"}}
    assert circles(graph) == [["b", "c"], ["e", "f"]]


def test_commands_load_nothing_heavy_before_they_run():
    """`inferdoc --help` imports every command for its summary line."""
    seen: set[str] = set()
    queue = [module for module in MODULES if part_of(module) == "cli"]
    while queue:
        module = queue.pop()
        if module in seen:
            continue
        seen.add(module)
        heavy = {name for name in top()[module] if name.split(".")[0] in HEAVY}
        assert not heavy, f"{module} imports {heavy} when it is imported"
        queue += own(top()[module])


def loaded_by(*arguments: str) -> tuple[int, set[str]]:
    """Exit code of a command line in a fresh process, and every module it loaded."""
    code = (
        "import json, sys; from inferdoc.cli.main import run; code = run(sys.argv[1:]); "
        "print(json.dumps([code, sorted(sys.modules)]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=60, check=True
    )
    code, modules = json.loads(done.stdout.splitlines()[-1])
    return code, set(modules)


def test_help_loads_none_of_them():
    for arguments in (["--help"], ["--version"], ["diagnose", "--help"]):
        code, modules = loaded_by(*arguments)
        assert code == 0 and not modules & HEAVY, modules & HEAVY


def test_a_diagnosis_from_the_store_loads_no_statistics_no_network_no_tables(store_of):
    path = str(store_of("control-steady"))
    code, modules = loaded_by("diagnose", "--store", path, "--until", "latest", "-o", "json")
    assert code == 0
    assert not modules & {
        "pandas",
        "sklearn",
        "statsmodels",
        "scipy",
        "requests",
        "grafanalib",
        "prometheus_client",
        "pyarrow",
        "fsspec",
    }


def test_importing_inferdoc_is_cheap_and_its_surface_is_lazy():
    code = "import sys, inferdoc; print(sorted({'numpy', 'msgspec', 'yaml'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"
    assert callable(inferdoc.diagnose) and callable(inferdoc.open_source)
    assert set(inferdoc.__all__) >= {"diagnose", "open_source", "__version__"}


def test_every_module_can_be_imported():
    names = sorted(name for name in MODULES if not name.endswith("__main__"))
    code = f"from importlib import import_module\nfor name in {names!r}: import_module(name)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr, done.stderr

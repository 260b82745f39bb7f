"""Dependencies point downwards, nothing goes in circles, and heavy libraries are loaded only by what needs them."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
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
    ("serve",),
    ("report",),
    ("audit",),
    ("diagnose", "prewarm", "generate", "simulate"),
    ("forecast",),
    ("fleet",),
    ("source",),
    ("store", "collect"),
    ("catalogue",),
    ("config",),
    ("times",),
    ("errors",),
)
DEPTH = {part: depth for depth, parts in enumerate(LAYERS) for part in parts}
ALLOWED = {
    ("generate", "diagnose"),  # the condition kinds know how they read as PromQL
    ("store", "collect"),  # the store keeps pages as the parser lays them out
}
HEAVY = {
    "numpy",
    "pandas",
    "sklearn",
    "statsmodels",
    "scipy",
    "requests",
    "rich",
    "yaml",
    "msgspec",
    "grafanalib",
    "sqlite3",
}


def part_of(module: str) -> str:
    """inferdoc.diagnose.conditions.levels -> diagnose."""
    return module.split(".")[1] if "." in module else ""


def imports(tree: ast.AST, module: str, *, top_only: bool) -> Iterator[str]:
    """Names of the modules that a module imports. top_only: when it is itself imported, so not inside functions and not
    for type checkers alone."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0 and node.module, f"{module}: relative import"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in MODULES else node.module
        elif not (top_only and runs_later(node)):
            yield from imports(node, module, top_only=top_only)


def runs_later(node: ast.AST) -> bool:
    """Bodies of functions, and what only type checkers see."""
    if isinstance(node, ast.If):
        return "TYPE_CHECKING" in ast.unparse(node.test)
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)


TREES = {module: ast.parse(path.read_text("utf-8")) for module, path in MODULES.items()}
TOP = {module: set(imports(tree, module, top_only=True)) for module, tree in TREES.items()}


def own(names: set[str]) -> set[str]:
    return {name for name in names if name in MODULES}


def test_every_part_has_its_layer():
    assert {part_of(module) for module in MODULES} - {""} <= DEPTH.keys()


@pytest.mark.parametrize("part", sorted(DEPTH))
def test_dependencies_point_down(part):
    wrong = []
    for module, tree in TREES.items():
        if part_of(module) != part:
            continue
        for name in own(set(imports(tree, module, top_only=False))):
            other = part_of(name)
            if other in ("", part) or (part, other) in ALLOWED:
                continue
            if DEPTH[other] <= DEPTH[part]:
                wrong.append(f"{module} imports {name}")
    assert not wrong


def test_no_module_imports_itself_in_a_circle():
    graph = {module: own(names) - {module} for module, names in TOP.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_commands_load_nothing_heavy_before_they_run():
    """`inferdoc --help` imports every command for its summary line."""
    seen: set[str] = set()
    queue = [module for module in MODULES if part_of(module) == "cli"]
    while queue:
        module = queue.pop()
        if module in seen:
            continue
        seen.add(module)
        heavy = {name for name in TOP[module] if name.split(".")[0] in HEAVY}
        assert not heavy, f"{module} imports {heavy} when it is imported"
        queue += own(TOP[module])


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
        "rich",
        "grafanalib",
        "prometheus_client",
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

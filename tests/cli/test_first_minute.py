"""What somebody types in the first minute: nothing, a wrong name, a tab key; and what their log collector reads."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import BashComplete

import inferdoc
from inferdoc.cli.main import COMMANDS, Commands, cli
from inferdoc.environment import ENVIRONMENT
from tests.cli.command import call, refused

GROUPS = [name for name in COMMANDS if hasattr(Commands().get_command(None, name), "commands") and name != "recipes"]


def completed(words: str) -> set[str]:
    """What bash is offered after `inferdoc WORDS`."""
    *before, typed = words.split(" ")
    return {item.value for item in BashComplete(cli, {}, "inferdoc", "_X").get_completions(before, typed)}


@pytest.mark.parametrize("group", [(), *((name,) for name in GROUPS)])
def test_nothing_else_typed_requests_help(group) -> None:
    done = call(*group)
    assert done.code == 0 and done.err == "" and done.out.startswith("Usage: inferdoc")
    assert "Commands:" in done.out and done.out == call(*group, "--help").out


@pytest.mark.parametrize(
    ("typed", "near"),
    [
        ("diagnos", "diagnose"),
        ("alert", "alerts"),
        ("store inf", "info"),
        ("diagnose --sinse 1h", "--since"),
        ("recipes show engine-hang", "engine-hung"),
        ("recipes show preemption", "kv-preemption-thrash"),
        ("recipes show kv-full", "kv-"),
        ("recipes show slow-gpu-x", "slow-gpu"),
        ("recipes show zzz", "inferdoc recipes list"),
        ("runbook engine-hang", "engine-hung"),
        ("demo --fault slow-gp", "slow-gpu"),
        ("simulate --scenario control-stedy", "control-steady"),
    ],
)
def test_a_name_that_is_not_there_names_the_nearest(typed: str, near: str) -> None:
    refused(call(*typed.split()), 2, near)


def test_a_tab_completes_commands_options_and_ids() -> None:
    assert completed("dia") == {"diagnose"}
    assert "--since" in completed("diagnose --s")
    assert completed("recipes show engine-h") == completed("runbook engine-h") == {"engine-hung"}
    assert completed("demo --fault kv-lease") == {"kv-lease-expiry"}
    assert "control-steady" in completed("simulate --scenario control-")


def test_a_broken_configuration_completes_nothing(tmp_path: Path) -> None:
    Path("inferdoc.toml").write_text("catalogue = 3", "utf-8")
    assert completed("recipes show engine-h") == set()


def test_the_shell_requests_the_installed_command() -> None:
    arguments = {
        "_INFERDOC_COMPLETE": "bash_complete",
        "COMP_WORDS": "inferdoc recipes show engine-h",
        "COMP_CWORD": "3",
    }
    run = [sys.executable, "-c", "from inferdoc.cli.main import main; main()"]
    done = subprocess.run(run, env=os.environ | arguments, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["plain,engine-hung"]


def test_help_names_every_variable_that_is_read() -> None:
    package = Path(inferdoc.__file__).parent
    read = {name for path in package.rglob("*.py") for name in re.findall(r"INFERDOC_[A-Z_]+", path.read_text("utf-8"))}
    assert read | {"NO_COLOR"} == set(ENVIRONMENT)
    out = call("--help").out
    assert all(name in out and words in out for name, words in ENVIRONMENT.items())


@pytest.mark.parametrize("level", ["error", "debug", "info"])
def test_messages_as_json_for_a_log_collector(level: str, tmp_path: Path) -> None:
    page = tmp_path / "odd.om"
    page.write_text('# TYPE a gauge\na{pod="\x1b[31m"} 1 1700000000\n# EOF\n', "utf-8")
    run = {
        "error": ("diagnose", "--store", tmp_path / "none.db"),
        "debug": ("--debug", "diagnose", "--store", tmp_path / "none.db"),
        "info": ("import", page, "--store", tmp_path / "some.db"),
    }[level]
    done = call("--log-format", "json", *run)
    lines = [json.loads(line) for line in done.err.splitlines()]
    assert lines and all(line.keys() == {"time", "level", "message"} for line in lines)
    assert lines[0]["level"] == level and {line["level"] for line in lines} - {level} <= {"error"}
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["time"]) for line in lines)
    assert call(*run).err.splitlines() != done.err.splitlines(), "text without the flag"


def test_a_source_whose_samples_are_old_prints_how_old(store_of) -> None:
    done = call("diagnose", "--store", store_of("control-steady"), "--since", "10m", "--until", "2200-01-01T00:00:00Z")
    newest = call("diagnose", "--store", store_of("control-steady"), "--until", "latest", "-o", "json")
    day = json.loads(newest.out)["window"]["until"][:10]
    words = " ".join(done.out.split())
    assert done.code == 3 and f"the newest is of {day}" in words and "--until latest" in words
    assert "missing:" not in words

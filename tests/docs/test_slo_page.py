"""docs/slo.md: every command runs as printed, every declaration is read."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from inferdoc.catalogue.load import load_catalogue
from inferdoc.config import load_config
from tests.cli.command import alone, call
from tests.slo.made import Engine, store

__all__ = ["alone"]
PAGE = (Path(__file__).resolve().parents[2] / "docs" / "slo.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


COMMANDS = [line for block in blocks("sh") for line in block.splitlines()]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return store(tmp_path_factory.mktemp("fleet") / "fleet.db", [Engine("chat-0")], 26)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_runs(fleet, tmp_path, command):
    (tmp_path / "fleet.db").symlink_to(fleet)
    (tmp_path / "mine" / "alerts").mkdir(parents=True)
    (tmp_path / "mine" / "alerts" / "slo.yaml").write_text(blocks("yaml")[0], "utf-8")
    name, *arguments = shlex.split(command)
    done = call(*arguments)
    assert name == "inferdoc" and done.code == 0 and done.out, done.err


def test_every_declaration_is_read(tmp_path):
    (tmp_path / "mine" / "alerts").mkdir(parents=True)
    (tmp_path / "mine" / "alerts" / "slo.yaml").write_text(blocks("yaml")[0], "utf-8")
    assert [slo.id for slo in load_catalogue([tmp_path / "mine"]).slos] == ["ttft", "ttft-a100", "tpot", "errors"]
    for text in (blocks("toml")[0], re.sub(r"^# ", "", blocks("toml")[0], flags=re.MULTILINE)):
        (tmp_path / "inferdoc.toml").write_text(text, "utf-8")
        sections = load_config(tmp_path / "inferdoc.toml").slo
        (slo,) = [slo for slo in load_catalogue(promises=[("here", one) for one in sections]).slos if slo.agreed]
        assert (slo.signal, slo.target, slo.window) == ("ttft_p99", 2.5, "30d")


def test_the_example_configuration_is_read():
    example = Path(__file__).resolve().parents[2] / "inferdoc.toml.example"
    sections = load_config(example).slo
    assert sections and all(slo.agreed for slo in load_catalogue(promises=[("x", s) for s in sections]).slos[3:])

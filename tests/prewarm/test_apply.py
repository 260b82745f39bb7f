"""`prewarm apply` against a stand-in for kubectl: level-based, idempotent, dry by default."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from plans import MADE, NOW, office_plan

from inferdoc.cli.prewarm import command
from inferdoc.errors import InferdocError, SourceError
from inferdoc.prewarm.plan import to_json

NOON = "2026-02-23T11:30:00Z"  # a Monday, 12:30 in Berlin: the floor is 11
NIGHT = "2026-02-24T03:00:00Z"

KUBECTL = """#!/bin/sh
echo "$@" >> "$LOG"
if [ "$1" = get ]; then cat "$OBJECT"; exit 0; fi
test -z "$REFUSE" || { echo "Error from server (Forbidden): no" >&2; exit 1; }
"""


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    tool = tmp_path / "kubectl"
    tool.write_text(KUBECTL)
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("LOG", str(tmp_path / "log"))
    monkeypatch.setenv("OBJECT", str(tmp_path / "object.json"))
    (tmp_path / "log").write_text("")
    (tmp_path / "plan.json").write_text(to_json(office_plan()))
    stands(tmp_path, 2)
    return tmp_path


def stands(folder: Path, floor: int, **more: object) -> None:
    spec = {"minReplicas": floor, "maxReplicas": 20}
    obj = {"kind": "HorizontalPodAutoscaler", "metadata": {"name": "llama", **more}, "spec": spec}
    (folder / "object.json").write_text(json.dumps(obj))


def ask(folder: Path, *words: str) -> Result:
    return CliRunner().invoke(command, ["apply", "--plan", str(folder / "plan.json"), *words])


def test_nothing_is_sent_without_yes(cluster: Path) -> None:
    answer = ask(cluster, "--now", NOON)
    assert answer.exit_code == 0
    assert "floor should be 11 now (dry run; --yes applies it)" in answer.stdout
    assert "kubectl patch horizontalpodautoscalers llama" in answer.stdout
    assert (cluster / "log").read_text() == ""


def test_a_difference_is_patched_once(cluster: Path) -> None:
    assert "floor 2 -> 11" in ask(cluster, "--now", NOON, "--yes").stdout
    assert "--field-manager=inferdoc-prewarm" in (cluster / "log").read_text()
    sent = (cluster / "log").read_text().partition("--patch=")[2].splitlines()[0]
    stands(cluster, 11, **json.loads(sent)["metadata"])
    (cluster / "log").write_text("")
    assert "floor is 11 already" in ask(cluster, "--now", NOON, "--yes").stdout
    assert "patch" not in (cluster / "log").read_text()


def test_outside_windows_the_base_comes_back(cluster: Path) -> None:
    stands(cluster, 11, annotations={"inferdoc.io/base-floor": "2", "inferdoc.io/set-floor": "11"})
    assert "floor 11 -> 2" in ask(cluster, "--now", NIGHT, "--yes").stdout


def test_an_owned_hpa_is_refused(cluster: Path) -> None:
    stands(cluster, 2, ownerReferences=[{"kind": "ScaledObject"}])
    answer = ask(cluster, "--now", NOON, "--yes")
    assert isinstance(answer.exception, InferdocError)
    assert "patch" not in (cluster / "log").read_text()


def test_a_stale_plan_is_an_error_and_a_floor_that_is_the_users_stays(cluster: Path) -> None:
    answer = ask(cluster, "--now", "2026-03-20T00:00:00Z", "--yes")
    assert isinstance(answer.exception, InferdocError) and answer.exception.exit_code != 0
    assert "stale" in str(answer.exception)
    assert "patch" not in (cluster / "log").read_text()


def test_a_cluster_that_says_no_is_quoted(cluster: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REFUSE", "1")
    answer = ask(cluster, "--now", NOON, "--yes")
    assert isinstance(answer.exception, SourceError)
    assert "Forbidden" in str(answer.exception) and "\n" not in str(answer.exception)


def test_a_missing_kubectl_is_one_clear_line(cluster: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    answer = ask(cluster, "--now", NOON, "--yes")
    assert "kubectl is not installed" in str(answer.exception)


def test_the_textfile_states_the_floor_and_its_validity(cluster: Path) -> None:
    place = cluster / "prewarm.prom"
    assert ask(cluster, "--now", NOON, "--target", "textfile", "--out", str(place)).exit_code == 0
    text = place.read_text()
    assert 'inferdoc_prewarm_floor_replicas{pool="llama"} 11' in text
    assert f"{MADE.timestamp() + 8 * 86400:.0f}" in text
    assert NOW > 0

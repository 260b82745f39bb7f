"""What every cause must bring: a harm, a page, a scenario, queries that parse, flags that exist."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from inferdoc.catalogue.load import load_catalogue
from inferdoc.judging.conditions.render import Rendering
from inferdoc.simulate.scenario_files import load_scenario
from tests.vllm_flags import serve_flags

ROOT = Path(__file__).resolve().parents[2]
CATALOGUE = load_catalogue()
CAUSES = sorted(CATALOGUE.recipes)
FLAGS = serve_flags()


def conditions(recipe):
    stages = (stage.when for stage in recipe.stages)
    return (*recipe.symptoms, *recipe.harm, *recipe.support, *recipe.proof, *recipe.unless, *stages)


def query(condition, rendering):
    """The PromQL of every signal that a condition names, those that only the judge derives left out."""
    return {name: text for name in condition.signals if (text := rendering.signal(name)) is not None}


@pytest.mark.parametrize("name", CAUSES)
def test_a_cause_names_a_harm_that_is_a_condition_on_a_signal(name):
    recipe = CATALOGUE.recipes[name]
    assert recipe.harm, "no harm, no finding"
    assert all(condition.signals for condition in recipe.harm)


@pytest.mark.parametrize("name", CAUSES)
def test_a_cause_has_its_page_and_its_scenario(name):
    assert (ROOT / "runbooks" / f"{name}.md").is_file()
    assert load_scenario(name).expect.cause == name


@pytest.mark.parametrize("name", CAUSES)
def test_effects_and_look_alikes_are_causes(name):
    recipe = CATALOGUE.recipes[name]
    assert set(recipe.effects) | set(recipe.look_alikes) <= set(CAUSES)
    assert name not in recipe.effects


@pytest.mark.parametrize("name", CAUSES)
def test_flags_of_its_steps_exist(name):
    named = {flag for step in CATALOGUE.recipes[name].next_steps for flag in step.flags}
    assert named <= FLAGS, f"vLLM 0.32 has no {sorted(named - FLAGS)}"


def test_the_queries_of_all_causes_parse(tmp_path):
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed (Debian: prometheus)")
    rendering = Rendering(CATALOGUE.signals, CATALOGUE.tiers)
    queries: dict[str, str] = {}
    for recipe in CATALOGUE.recipes.values():
        for condition in conditions(recipe):
            queries |= query(condition, rendering)
    assert len(queries) > 50
    rules = [{"record": f"cause:{name}", "expr": text} for name, text in sorted(queries.items())]
    path = tmp_path / "rules.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "causes", "rules": rules}]}), "utf-8")
    checked = subprocess.run([promtool, "check", "rules", str(path)], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr

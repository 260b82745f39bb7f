"""The configuration: which file counts, what the environment changes, and what reaches the diagnosis."""

from __future__ import annotations

import json

import pytest

from inferdoc.config import Config, baselines_folder, load_config
from inferdoc.errors import ConfigError
from tests.cli.command import alone, call

__all__ = ["alone"]


@pytest.fixture
def write(tmp_path):
    def file(name, text):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return file


def test_without_a_file_everything_has_its_default():
    assert load_config(environment={}) == Config()


def test_the_named_file_then_the_project_then_the_user(write, tmp_path):
    write("home/inferdoc/config.toml", '[source]\nstore = "user.db"\n')
    assert load_config(environment={}).source.store == "user.db"
    write("inferdoc.toml", '[source]\nstore = "project.db"\n')
    assert load_config(environment={}).source.store == "project.db"
    named = write("named.toml", '[source]\nstore = "named.db"\n')
    assert load_config(named, environment={}).source.store == "named.db"


def test_the_environment_comes_before_the_file(write):
    path = write("a.toml", '[source]\nstore = "file.db"\n')
    url = load_config(path, {"INFERDOC_PROMETHEUS_URL": "http://p:9090"}).source
    assert url.prometheus == "http://p:9090" and url.store is None, "two sources at once are none"
    path = write("b.toml", '[source]\nprometheus = "http://file:9090"\n')
    store = load_config(path, {"INFERDOC_STORE": "env.db"}).source
    assert store.store == "env.db" and store.prometheus is None
    assert load_config(path, {"INFERDOC_BEARER_TOKEN_FILE": "t"}).source.bearer_token_file == "t"


def test_a_flag_comes_before_the_environment(store_of, monkeypatch):
    monkeypatch.setenv("INFERDOC_PROMETHEUS_URL", "http://127.0.0.1:9")
    assert call("diagnose", "--store", store_of("control-steady"), "--until", "latest").code == 0
    assert call("diagnose", "--timeout", "1s").code == 4


def test_the_environment_names_the_folder_of_baselines(write, tmp_path):
    path = write("a.toml", '[baselines]\nfolder = "file"\n')
    assert baselines_folder(load_config(path, {})).name == "file"
    assert baselines_folder(load_config(path, {"INFERDOC_BASELINES": "env"})).name == "env"
    assert baselines_folder(Config()).is_relative_to(tmp_path / "home"), "the user's data folder"


def test_the_environment_names_the_source(store_of, monkeypatch):
    monkeypatch.setenv("INFERDOC_STORE", str(store_of("control-steady")))
    assert call("diagnose", "--until", "latest").code == 0
    assert call("diagnose", "--until", "latest", "--prometheus", "http://127.0.0.1:9", "--timeout", "1s").code == 4


def test_without_anything_the_ways_to_name_a_source_are_named():
    done = call("diagnose")
    ways = ("--prometheus", "--store", "INFERDOC_PROMETHEUS_URL", "inferdoc.toml")
    assert done.code == 4 and all(way in done.err for way in ways)


@pytest.mark.parametrize(
    "text",
    [
        "[source]\nx = 1\n",
        "x = 1\n",
        "[[pods]]\nrole = 'decode'\n",
        "[links]\nrunbook = 'x'\n",
        "[[slo]]\nlimits = 3\n",
    ],
)
def test_what_is_wrong_is_one_line_with_the_file(write, text):
    path = write("bad.toml", text)
    with pytest.raises(ConfigError, match=r"bad\.toml") as caught:
        load_config(path, {})
    assert "\n" not in str(caught.value)


# ---- what it changes ------------------------------------------------------------------------------------------------


def diagnosed(store, *words):
    done = call(*words, "diagnose", "--store", store, "--until", "latest", "-o", "json")
    return json.loads(done.out)


def test_roles_and_tiers_reach_the_diagnosis(write, store_of):
    path = write("a.toml", '[[pods]]\npod = "vllm-.*"\ntier = "l4"\n')
    scope = diagnosed(store_of("slow-replica"), "--config", path)["findings"][0]["scope"]
    assert scope["tier"] == "l4"
    unlike = write("b.toml", '[[pods]]\npod = "vllm-1"\ntier = "l4"\n[[pods]]\npod = "vllm-0"\ntier = "h100-80"\n')
    document = diagnosed(store_of("slow-replica"), "--config", unlike)
    assert "slow-gpu" not in [f["id"] for f in document["findings"]], "unlike hardware is not compared"


def test_links_reach_the_diagnosis(write, store_of):
    text = '[links]\nrunbook_base = "https://wiki.example/runbooks/"\ndashboard_base = "https://grafana.example/d/x"\n'
    first = diagnosed(store_of("slow-replica"), "--config", write("a.toml", text))["findings"][0]
    assert first["runbook_url"] == "https://wiki.example/runbooks/slow-gpu"
    assert first["dashboard_url"].startswith("https://grafana.example/d/x?")
    served = '[serve]\npublic_url = "https://doc.acme.org/"\n[links]\ndashboard_base = "https://grafana.example/"\n'
    first = diagnosed(store_of("slow-replica"), "--config", write("b.toml", served))["findings"][0]
    assert first["runbook_url"] == "https://doc.acme.org/runbooks/slow-gpu", "inferdoc serve hosts the pages"
    assert first["dashboard_url"].startswith("https://grafana.example/d/inferdoc-fleet?")
    plain = diagnosed(store_of("slow-replica"))["findings"][0]
    assert plain["runbook_url"] is None and plain["dashboard_url"] is None and plain["runbook"] == "slow-gpu"


def test_an_slo_that_is_kept_silences_the_relative_test(write, store_of):
    name = "prefix-unstable-prompt"
    loose = write("loose.toml", "[[slo]]\nlimits = {ttft_p99 = 60.0, e2e_p99 = 600.0}\n")
    strict = write("strict.toml", "[[slo]]\nlimits = {ttft_p99 = 0.2}\n")
    document = diagnosed(store_of(name), "--config", strict)
    assert document["findings"][0]["id"] == name
    harm = [e for e in document["findings"][0]["evidence"] if e["role"] == "harm"]
    assert any(e["signal"] == "ttft_p99" and e["threshold"] == 0.2 for e in harm)
    relaxed = [f for f in diagnosed(store_of(name), "--config", loose)["findings"] if f["id"] == name]
    assert not any(e["signal"].startswith("ttft") for f in relaxed for e in f["evidence"] if e["role"] == "harm")


def test_an_slo_for_another_model_changes_nothing(write, store_of):
    path = write("a.toml", '[[slo]]\nmodel = "another"\nlimits = {itl_p99 = 60.0}\n')
    store = store_of("slow-replica")
    assert [f["id"] for f in diagnosed(store, "--config", path)["findings"]] == ["slow-gpu"]

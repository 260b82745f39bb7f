"""What goes wrong outside is one line on stderr and the right exit code, through the command line."""

from __future__ import annotations

import gzip
import os
import shutil
import sqlite3
import stat

import pytest

from inferdoc.cli.main import COMMANDS
from inferdoc.store.store import Store
from tests.cli.command import call, refused
from tests.conftest import recording_path
from tests.source.fake_server import Answer, serving

# ---- configuration --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ('[source]\nstroe = "a.db"\n', "stroe"),
        ("[sauce]\n", "sauce"),
        ('[source]\nbearer_token = "abc"\n', "bearer_token"),
        ("[source]\nstore = 5\n", "store"),
        ('[[pods]]\npod = "a"\nrole = "sidecar"\n', "sidecar"),
        ('[[slo]]\nmodel = "m"\n', "limits"),
        ("[source\n", "TOML"),
        ('[source]\ntimeout_seconds = "long"\n', "timeout_seconds"),
    ],
)
def test_a_configuration_that_is_wrong_names_the_file_and_the_key(tmp_path, text, printed):
    path = tmp_path / "mine.toml"
    path.write_text(text)
    refused(call("--config", path, "diagnose", "--store", "x.db"), 2, "mine.toml", printed)


def test_the_project_file_is_read_without_being_requested(tmp_path):
    (tmp_path / "inferdoc.toml").write_text("[sauce]\n")
    for command in ("diagnose", "doctor", "recipes"):
        refused(call(command), 2, "inferdoc.toml", "sauce")


def test_a_configuration_that_is_not_text(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_bytes(b"\xff\xfe\x00")
    refused(call("--config", path, "diagnose"), 2, "mine.toml", "UTF-8")
    refused(call("--config", tmp_path, "diagnose"), 2, str(tmp_path))


def test_the_example_configuration_is_sound(store_of):
    from tests.conftest import ROOT

    example = ROOT / "inferdoc.toml.example"
    path = store_of("control-steady")
    assert call("--config", example, "diagnose", "--store", path, "--until", "latest").code == 0


# ---- recipes --------------------------------------------------------------------------------------------------------

RECIPE = """\
id: my-cause
title: My own cause
phase: queue
scope: pod
severity: warning
observations:
  line_grows: {signal: waiting, rises: 2.0}
needs: [line_grows]
impact: [slowest_first_tokens_late]
next_steps:
  - {do: Add a replica, why: The queue grows, cost: One more GPU, undo: Remove the replica}
sources: [our own incident of March]
"""


def checked(tmp_path, old="", new=""):
    assert not old or old in RECIPE
    path = tmp_path / "my-cause.yaml"
    path.write_text(RECIPE.replace(old, new) if old else RECIPE)
    return call("recipes", "check", path)


def test_a_sound_recipe_is_good(tmp_path):
    done = checked(tmp_path)
    assert done.code == 0 and done.out.endswith("my-cause.yaml: good\n") and done.err == ""


@pytest.mark.parametrize(
    ("old", "new", "printed"),
    [
        ("signal: waiting,", "signal: waitin,", "waiting"),
        ("rises: 2.0", "grows: 2.0", "grows"),
        ("rises: 2.0", "rises: 2.0, above: 3", "above"),
        ("rises: 2.0", "above: kv_usage_hi", "kv_usage_hi"),
        ("rises: 2.0", "rises: 2.0, for: soon", "soon"),
        ("phase: queue", "phase: que", "que"),
        ("severity: warning", "severity: major", "major"),
        ("impact: [slowest_first_tokens_late]\n", "", "impact"),
        ("needs: [line_grows]", "needs: [line_grow]", 'did you mean "line_grows"'),
        ("id: my-cause\n", "id: my-cause\nid: twice\n", "id"),
        ("title: My own cause", "title: [", "my-cause.yaml"),
        ("sources:", "look_alikes: [no-such-cause]\nsources:", "no-such-cause"),
    ],
)
def test_a_recipe_that_is_wrong_prints_where(tmp_path, old, new, printed):
    done = checked(tmp_path, old, new)
    assert done.code == 1 and "Traceback" not in done.err
    assert "my-cause.yaml" in done.out and printed in done.out


def test_what_alerts_build_refuses_the_check_refuses(tmp_path):
    done = checked(tmp_path, "sources:", "alert: {for: 5m, value: kv_usage}\nsources:")
    assert done.code == 1 and "alert.value: no symptom begins with 'kv_usage'" in done.out
    shutil.copytree(tmp_path, tmp_path / "mine" / "diagnostics")
    built = call("--catalogue", tmp_path / "mine", "alerts", "build", "--out", tmp_path / "rules")
    assert built.code == 2 and "alert.value" in built.err and not (tmp_path / "rules").exists()


def test_the_page_of_a_cause_of_a_checkout_needs_its_markers(tmp_path):
    (tmp_path / "fixtures" / "incidents").mkdir(parents=True)
    assert call("recipes", "new", "my-cause", "--into", tmp_path).code == 0
    recipe, page = tmp_path / "diagnostics" / "my-cause.yaml", tmp_path / "runbooks" / "my-cause.md"
    for path in (recipe, page, tmp_path / "fixtures" / "incidents" / "my-cause.yaml"):
        path.write_text(path.read_text("utf-8").replace("TODO", "done"), "utf-8")
    assert call("recipes", "check", recipe).out == f"{recipe}: good\n"
    page.write_text(page.read_text("utf-8").replace("<!-- /fires-when -->", ""), "utf-8")
    assert "the markers <!-- fires-when" in call("recipes", "check", recipe).out


def test_an_overlay_that_is_wrong_stops_every_command_that_reads_it(tmp_path, store_of):
    folder = tmp_path / "mine"
    (folder / "diagnostics").mkdir(parents=True)
    (folder / "diagnostics" / "my-cause.yaml").write_text(RECIPE.replace("signal: waiting,", "signal: waitin,"))
    for words in (("recipes", "list"), ("diagnose", "--store", store_of("control-steady"))):
        refused(call("--catalogue", folder, *words), 2, "my-cause.yaml", "waitin")


def test_a_new_cause_is_three_files_and_the_check_prints_what_is_missing(tmp_path):
    done = call("recipes", "new", "my-cause", "--into", tmp_path)
    assert done.code == 0, done.err
    files = [tmp_path / folder / f"my-cause.{end}" for folder, end in (("diagnostics", "yaml"), ("runbooks", "md"))]
    files.append(tmp_path / "incidents" / "my-cause.yaml")
    assert all(path.is_file() for path in files)
    missing = call("recipes", "check", files[0])
    assert missing.code == 1
    assert all(f"{path}:" in missing.out for path in files), "each of them still has gaps"
    for path in files:
        path.write_text(path.read_text("utf-8").replace("TODO", "done"), "utf-8")
    assert call("recipes", "check", files[0]).out == f"{files[0]}: good\n"
    files[1].unlink()
    assert f"{files[1]}: is missing" in call("recipes", "check", files[0]).out
    files[2].write_text(files[2].read_text("utf-8").replace("cause: my-cause", "cause: slow-gpu"), "utf-8")
    assert 'expect.cause: expected "my-cause", got "slow-gpu"' in call("recipes", "check", files[0]).out


@pytest.mark.parametrize(
    ("name", "printed"), [("slow-gpu", "is declared in"), ("My Cause", "small letters and digits with hyphens")]
)
def test_a_new_cause_needs_a_name_of_its_own(tmp_path, name, printed):
    refused(call("recipes", "new", name, "--into", tmp_path), 2, printed)
    assert not list(tmp_path.iterdir())


def test_what_is_there_is_not_written_over(tmp_path):
    assert call("recipes", "new", "my-cause", "--into", tmp_path).code == 0
    refused(call("recipes", "new", "my-cause", "--into", tmp_path), 2, "is there already; nothing was written")


def test_the_whole_catalogue_can_be_checked():
    assert call("recipes", "check").out == "the catalogue: good\n"


def test_an_overlay_that_is_not_there(tmp_path):
    refused(call("--catalogue", tmp_path / "none", "recipes", "list"), 2, "none")


# ---- a server that answers nonsense ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "printed"),
    [
        (Answer(200, b'{"status":"success","data":', {"Content-Type": "application/json"}), "JSON"),
        (Answer(200, b'{"status":"success","data":{"resultType":"vector","result":[{"met', cut=60), ""),
        (Answer(200, "<html><body>Please sign in</body></html>", {"Content-Type": "text/html"}), "web page"),
        (Answer(200, "[]", {"Content-Type": "application/json"}), ""),
        (Answer(200, {"status": "success", "data": {"resultType": "scalar", "result": [1, "2"]}}), ""),
        (Answer(401, "go away"), "401"),
        (Answer(403, "not you"), "403"),
        (Answer(404, "404 page not found"), "404"),
        (Answer(422, {"status": "error", "errorType": "execution", "error": "too many samples"}), "too many samples"),
        (Answer(302, "", {"Location": "http://127.0.0.1:9/login"}), ""),
    ],
    ids=["half JSON", "cut connection", "login page", "a list", "a scalar", "401", "403", "404", "422", "redirect"],
)
@pytest.mark.parametrize("command", ["diagnose", "doctor", "signals"])
def test_a_server_that_answers_nonsense(command, answer, printed):
    with serving(lambda params: answer) as server:
        done = call(command, "--prometheus", server.url, "--timeout", "3s")
    refused(done, 4, printed, server.url.removeprefix("http://"))


def test_a_server_that_answers_503_is_tried_again_and_then_given_up():
    with serving(lambda params: Answer(503, "starting")) as server:
        done = call("diagnose", "--prometheus", server.url, "--timeout", "1s")
    refused(done, 4, "503")
    assert len(server.asked) > 1


def test_secrets_never_come_back():
    with serving(lambda params: Answer(401, "wrong token s3cret")) as server:
        address = server.url.replace("http://", "http://me:s3cret@")
        for words in (("--prometheus", address), ("--prometheus", server.url, "--header", "X-Key: s3cret")):
            done = call("diagnose", *words, "--timeout", "2s")
            assert done.code in (2, 4)
            assert "s3cret" not in done.err + done.out


def test_a_token_file_that_is_not_there(tmp_path):
    done = call("diagnose", "--prometheus", "http://127.0.0.1:9", "--bearer-token-file", tmp_path / "none")
    refused(done, 2, "none")


@pytest.mark.parametrize("address", ["localhost:9090", "ftp://127.0.0.1", "http://", "not a url"])
def test_an_address_that_is_none(address):
    done = call("diagnose", "--prometheus", address, "--timeout", "1s")
    refused(done, 2)


# ---- stores ---------------------------------------------------------------------------------------------------------


def test_a_second_writer_is_reported_and_the_first_goes_on(tmp_path):
    path = tmp_path / "fleet.db"
    with Store.open(path, "w"):
        refused(call("import", recording_path("engine-down"), "--store", path), 4, "fleet.db")
    assert call("import", recording_path("engine-down"), "--store", path).code == 0


def test_a_store_of_a_newer_version_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "fleet.db"
    assert call("import", recording_path("engine-down"), "--store", path).code == 0
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA user_version = 99")
    database.close()
    before = path.read_bytes()
    for words in (("diagnose", "--store", path), ("doctor", "--store", path), ("export", "--store", path)):
        refused(call(*words), 4, "fleet.db", "99")
    refused(call("import", recording_path("engine-down"), "--store", path), 4, "fleet.db", "99")
    assert path.read_bytes() == before


def test_another_programs_database_is_no_store(tmp_path):
    path = tmp_path / "other.db"
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE songs (name TEXT)")
    database.commit()
    database.close()
    for words in (("diagnose", "--store", path), ("import", recording_path("engine-down"), "--store", path)):
        refused(call(*words), 4, "other.db")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written(tmp_path):
    folder = tmp_path / "fixed"
    folder.mkdir()
    folder.chmod(stat.S_IRUSR | stat.S_IXUSR)
    refused(call("import", recording_path("engine-down"), "--store", folder / "fleet.db"), 4, "fixed")
    folder.chmod(stat.S_IRWXU)


# ---- files ----------------------------------------------------------------------------------------------------------


def test_an_html_page_is_no_recording(tmp_path):
    page = tmp_path / "page.om"
    for text in ("<!DOCTYPE html><html><body>Sign in</body></html>", "<html>\n<body>\nSign in\n</body>\n</html>\n", ""):
        page.write_text(text)
        refused(call("import", page, "--store", tmp_path / "a.db"), 4, "page.om", "OpenMetrics")


def test_a_file_that_is_not_there(tmp_path):
    done = call("import", tmp_path / "none.om", "--store", tmp_path / "a.db")
    assert done.code in (2, 4)
    refused(done, done.code, "none.om")


def test_a_gzip_cut_short_keeps_what_is_whole_and_prints_so(tmp_path):
    whole = recording_path("engine-down").read_bytes()
    cut = tmp_path / "cut.om.gz"
    cut.write_bytes(whole[: len(whole) * 2 // 3])
    refused(call("import", cut, "--store", tmp_path / "a.db"), 4, "cut.om.gz", "gzip data is cut", "--lenient")
    done = call("import", "--lenient", cut, "--store", tmp_path / "a.db")
    assert done.code == 0 and "cut.om.gz" in done.err and "Traceback" not in done.err
    assert call("doctor", "--store", tmp_path / "a.db").code in (0, 1)


def test_odd_samples_do_not_stop_a_diagnosis(tmp_path):
    """NaN, infinities, negative counters, duplicates, half a line, samples of the year 2100."""
    text = gzip.decompress(recording_path("kv-preemption-thrash").read_bytes()).decode()
    lines = text.splitlines()
    labels = 'job="vllm",instance="127.0.0.1:8100",pod="vllm-0",engine="0",model_name="tiny"'
    stamp = next(line.split()[-1] for line in lines if line.startswith("up{"))
    odd = [
        f"vllm:kv_cache_usage_perc{{{labels}}} NaN {stamp}",
        f"vllm:num_requests_waiting{{{labels}}} +Inf {stamp}",
        f"vllm:generation_tokens_total{{{labels}}} -5 {stamp}",
        f"vllm:num_requests_running{{{labels}}} 3 {stamp}",
        f"vllm:num_requests_running{{{labels}}} 4 {stamp}",
        'vllm:num_requests_running{model_name="ti',
    ]
    page = tmp_path / "odd.om"
    page.write_text("\n".join([*lines[:-1], *odd, "# EOF", ""]))
    refused(call("import", page, "--store", tmp_path / "a.db"), 4, "odd.om: line 40", "--lenient")
    assert call("import", "--lenient", page, "--store", tmp_path / "a.db").code == 0
    done = call("diagnose", "--store", tmp_path / "a.db", "--since", "10m", "--until", "latest")
    assert done.code == 1 and "kv-preemption-thrash" in done.out


# ---- every command --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["pod", "=vllm-0", "1st=vllm-0", "my pod=vllm-0"])
def test_a_choice_of_labels_that_is_none(store_of, text):
    refused(call("diagnose", "--store", store_of("control-steady"), "-l", text), 2, f"-l '{text}' is not LABEL=VALUE")


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("no-such-baseline", "--baseline 'no-such-baseline' is neither TIME..TIME nor a stored baseline"),
        ("../..", "--baseline '../..' is neither TIME..TIME nor a stored baseline"),
        ("2026-01-02T00:00Z..2026-01-01T00:00Z", "--baseline is empty: its beginning is not before its end"),
        ("2026-01-01T00:00Z..2026-01-01T00:00Z", "--baseline is empty: its beginning is not before its end"),
    ],
)
def test_a_baseline_that_is_none(store_of, text, printed):
    refused(call("diagnose", "--store", store_of("control-steady"), "--baseline", text), 2, printed)


@pytest.mark.parametrize("command", list(COMMANDS))
def test_an_unknown_flag_is_one_line_that_points_to_the_help(command):
    refused(call(command, "--no-such-flag"), 2, "--no-such-flag", "--help")


@pytest.mark.parametrize("words", [("runbook", "kv-preemption-trash"), ("recipes", "show", "kv-preemption-trash")])
def test_a_misspelled_cause_gets_the_nearest(words):
    refused(call(*words), 2, "kv-preemption-trash", "kv-preemption-thrash")

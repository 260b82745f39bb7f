"""A capsule tells the same anywhere, and no other file passes for one."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from contextlib import closing

import msgspec
import pytest

from inferdoc import open_source
from inferdoc.catalogue.load import load_catalogue
from inferdoc.config import Config
from inferdoc.errors import InferdocError
from inferdoc.incidents import capsule
from inferdoc.incidents.compare import differences, same_story
from tests.cli.command import call

FAULTS = ("kv-preemption-thrash", "engine-hung", "kv-transfer-backlog", "control-steady")


@pytest.fixture(scope="module")
def kept(tmp_path_factory, store_of):
    folder, files = tmp_path_factory.mktemp("capsules"), {}
    for name in FAULTS:
        files[name] = folder / f"{name}.capsule"
        with closing(open_source(store=store_of(name))) as source:
            capsule.save(files[name], source, Config(), load_catalogue(), {"since": "30m", "until": "latest"})
    return files


@pytest.mark.parametrize("name", FAULTS)
def test_evaluated_again_it_reports_the_same_to_the_last_word(kept, name):
    then, now = capsule.replay(kept[name])
    assert same_story(then.document, now) and not differences(then.document, now)
    assert [f.evidence for f in then.document.findings] == [f.evidence for f in now.findings]
    assert then.document.verdict == ("healthy" if name.startswith("control") else then.document.verdict)


def test_on_another_machine(kept, tmp_path):
    """Another home, another folder, no configuration, nothing of the store."""
    run = "import sys; from inferdoc.cli.main import main; main(sys.argv[1:])"
    command = [sys.executable, "-c", run, "capsule", "replay", str(kept["engine-hung"])]
    environment = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert "same diagnosis" in done.stdout and "engine-hung" in kept["engine-hung"].name


def test_the_same_samples_make_the_same_file(store_of, kept, tmp_path):
    again = tmp_path / "again.capsule"
    with closing(open_source(store=store_of("engine-hung"))) as source:
        capsule.save(again, source, Config(), load_catalogue(), {"since": "30m", "until": "latest"})
    with zipfile.ZipFile(again) as one, zipfile.ZipFile(kept["engine-hung"]) as other:
        assert one.read("samples-0.om") == other.read("samples-0.om")


@pytest.mark.live
def test_from_a_prometheus_it_is_evaluated_as_there(prometheus_of, tmp_path):
    place = tmp_path / "one.capsule"
    with closing(open_source(prometheus=prometheus_of("kv-transfer-backlog"))) as source:
        then = capsule.save(place, source, Config(), load_catalogue(), {"since": "30m", "until": "latest"})
    assert then.document.findings[0].id == "kv-transfer-backlog"
    kept, now = capsule.replay(place)
    assert same_story(kept.document, now), differences(kept.document, now)


def test_a_finding_that_is_not_reported_again_is_a_difference(kept, tmp_path):
    changed = tmp_path / "changed.capsule"
    with zipfile.ZipFile(kept["engine-hung"]) as old, zipfile.ZipFile(changed, "w") as new:
        document = msgspec.json.decode(old.read("capsule.json"))
        document["document"]["findings"] = []
        document["document"]["verdict"] = "healthy"
        new.writestr("capsule.json", msgspec.json.encode(document))
        new.writestr("samples-0.om", old.read("samples-0.om"))
    result = call("capsule", "replay", str(changed))
    assert result.code == 1 and "different diagnosis" in result.out and "engine-hung" in result.out
    assert call("diff", str(changed), str(kept["engine-hung"])).code == 1
    assert call("diff", str(kept["engine-hung"]), str(kept["engine-hung"])).out.strip() == "No difference."


@pytest.mark.parametrize(
    "damage", ["text", "cut", "empty", "no document", "other json", "bad samples", "bomb", "folder"]
)
def test_any_other_file_is_one_line(kept, tmp_path, damage, monkeypatch):
    place, whole = tmp_path / "x.capsule", kept["engine-hung"].read_bytes()
    if damage == "folder":
        place.mkdir()
    elif damage in ("text", "empty"):
        place.write_bytes(b"" if damage == "empty" else b"not a zip")
    elif damage == "cut":
        place.write_bytes(whole[: len(whole) // 2])
    else:
        with zipfile.ZipFile(kept["engine-hung"]) as old, zipfile.ZipFile(place, "w") as new:
            if damage != "no document":
                new.writestr("capsule.json", b"{}" if damage == "other json" else old.read("capsule.json"))
            new.writestr("samples-0.om", b"\x00\xff" * 50 if damage == "bad samples" else old.read("samples-0.om"))
        if damage == "bomb":
            monkeypatch.setattr(capsule, "LARGEST_SAMPLES", 1000)
    with pytest.raises(InferdocError) as refused:
        capsule.replay(place)
    assert "\n" not in str(refused.value)


def test_no_address_and_no_secret_is_in_it(store_of, tmp_path):
    place = tmp_path / "one.capsule"
    config = Config()
    source_section = msgspec.structs.replace(config.source, headers={"X-Key": "s3cret"}, username="somebody")
    with closing(open_source(store=store_of("engine-hung"))) as source:
        capsule.save(
            place, source, msgspec.structs.replace(config, source=source_section), load_catalogue(), {"until": "latest"}
        )
    with zipfile.ZipFile(place) as archive:
        text = archive.read("capsule.json").decode()
    assert "s3cret" not in text and "somebody" not in text

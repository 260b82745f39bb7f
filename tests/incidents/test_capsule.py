"""A capsule tells the same anywhere, and no other file passes for one."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
import tracemalloc
import zipfile
from contextlib import closing, suppress
from pathlib import Path

import msgspec
import pytest

from inferdoc import open_source
from inferdoc.catalogue.load import load_catalogue
from inferdoc.config import Config
from inferdoc.errors import InferdocError
from inferdoc.incidents import capsule
from inferdoc.incidents.model import differences, same_story
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


EXTREME = (-(2**63), -1, 0, 253_402_300_799_999, 253_402_300_800_000, 10**18, 2**63 - 1)
HOSTILE: dict[str, list[tuple[tuple[str | int, ...], object]]] = {
    "times": [((name,), value) for name in ("from_ms", "until_ms") for value in EXTREME],
    "focus": [
        (("focus",), {name: value}) for name in capsule.FOCUS for value in ("", "(", "\x1b[31m", "\x00", "*" * 5000)
    ],
    "labels": [(("labels", "pod"), value) for value in ("", "a b", "__name__", "le", "\x00", "x" * 5000, "{")],
    "pods": [(("pods",), [value]) for value in ({"match": "("}, {"match": "*", "tier": "nope"}, {})],
    "slo": [(("slo",), [{"signal": "ttft", "percentile": 99, "target": value}]) for value in (0, -1, 1e308)],
    "disabled": [(("disabled",), ["nope", "../x", ""]), (("disabled",), [str(number) for number in range(20_000)])],
    "document": [
        (("document", "findings", 0, "onset"), "0000-00-00"),
        (("document", "findings", 0, "onset"), "9999-12-31T23:59:59-23:59"),
        (("document", "findings", 0, "title"), "\x1b[2J\u202e"),
        (("document", "window", "from"), "soon"),
        (("document", "verdict"), "splendid"),
    ],
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_document_is_judged_or_refused_in_one_line(kept, tmp_path, kind):
    with zipfile.ZipFile(kept["engine-hung"]) as archive:
        document, samples = archive.read("capsule.json"), archive.read("samples-0.om")
    for path, value in HOSTILE[kind]:
        changed = msgspec.json.decode(document)
        part = changed
        for step in path[:-1]:
            part = part[step]
        part[path[-1]] = value
        with zipfile.ZipFile(tmp_path / "x.capsule", "w", zipfile.ZIP_DEFLATED) as new:
            new.writestr("capsule.json", msgspec.json.encode(changed))
            new.writestr("samples-0.om", samples)
        replayed_or_one_line(tmp_path / "x.capsule", kept["engine-hung"])


def replayed_or_one_line(place: Path, other: Path) -> None:
    for words in (("capsule", "replay", place), ("diff", place, other)):
        done = call(*words)
        assert done.code in (0, 1, 2, 4), (words, done)
        assert "\x1b" not in done.out + done.err and "Traceback" not in done.err
        assert done.code < 2 or done.err.count("\n") == 1, done


FIELDS = {
    "encrypted": (8, 2, 1),
    "unknown method": (10, 2, 99),
    "bzip2": (10, 2, 12),
    "lzma": (10, 2, 14),
    "checksum": (16, 4, 1),
    "compressed size": (20, 4, 2**32 - 16),
    "size": (24, 4, 2**32 - 1),
    "no size": (24, 4, 0),
    "offset": (42, 4, 2**31 - 1),
}
"""Of an entry in the directory of a zip: place, bytes and value. Those of two bytes stand before the entry as well."""


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("entry", [0, 1])
def test_a_damaged_archive_is_one_line(kept, tmp_path, entry, field):
    body = bytearray(kept["engine-hung"].read_bytes())
    at = [found.start() for found in re.finditer(b"PK\x01\x02", body)][entry]
    place, length, value = FIELDS[field]
    head = int.from_bytes(body[at + 42 : at + 46], "little")
    body[at + place : at + place + length] = value.to_bytes(length, "little")
    if length == 2:
        body[head + place - 2 : head + place] = value.to_bytes(2, "little")
    (tmp_path / "x.capsule").write_bytes(body)
    replayed_or_one_line(tmp_path / "x.capsule", kept["engine-hung"])


def test_flipped_bytes_and_cuts_are_one_line(kept, tmp_path):
    whole, chance = kept["engine-hung"].read_bytes(), random.Random(5)
    for number in range(40):
        body = bytearray(whole)
        body[chance.randrange(len(body))] = chance.randrange(256)
        (tmp_path / "x.capsule").write_bytes(body if number % 4 else whole[: chance.randrange(len(whole))])
        replayed_or_one_line(tmp_path / "x.capsule", kept["engine-hung"])


def test_samples_are_read_piece_by_piece(kept, tmp_path):
    """A small archive may hold two gigabytes: they are not held at once."""
    place = tmp_path / "x.capsule"
    with zipfile.ZipFile(kept["engine-hung"]) as archive, zipfile.ZipFile(place, "w", zipfile.ZIP_DEFLATED) as new:
        new.writestr("capsule.json", archive.read("capsule.json"))
        new.writestr("samples-0.om", (b"# HELP up " + b"a" * 4000 + b"\n") * 8000 + b"# EOF\n")
    tracemalloc.start()
    try:
        with suppress(InferdocError):
            capsule.replay(place)
        assert tracemalloc.get_traced_memory()[1] < 10 << 20
    finally:
        tracemalloc.stop()


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

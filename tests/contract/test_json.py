"""The diagnosis as JSON: the published schema, every field of the contract, every enumeration."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta

import jsonschema
import pytest

from inferdoc import __version__, diagnose, open_source
from inferdoc.judging.model import json_schema
from tests.cli.command import call
from tests.conftest import ROOT
from tests.contract.labels import LABELS

SCHEMA_FILE = ROOT / "docs" / "diagnosis.schema.json"
STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")

NUMBER, MAYBE_NUMBER, MAYBE_TEXT = (int, float), (int, float, type(None)), (str, type(None))
PHASES = {"gateway", "frontend", "queue", "prefill", "transfer", "decode", "hardware", "process", "telemetry"}
BASELINES = {"calm-before", "same-hour-yesterday", "last-week", "chosen", "none"}

# The contract of version 1, written out: a name that goes or a type that changes breaks whoever reads the document.
TOP = {
    "schema": {"inferdoc.diagnosis/v1"},
    "inferdoc_version": {__version__},
    "window": dict,
    "source": dict,
    "verdict": {"healthy", "degraded", "critical", "unknown"},
    "summary": str,
    "phases": list,
    "findings": list,
    "not_judged": list,
    "changes": list,
    "coverage": dict,
    "timing": dict,
}
WINDOW = {"from": str, "until": str, "step_seconds": NUMBER, "baseline": dict}
BASELINE = {"from": MAYBE_TEXT, "until": MAYBE_TEXT, "kind": BASELINES}
SOURCE = {"kind": {"store", "prometheus"}, "location": str, "warnings": list}
PHASE = {"phase": PHASES, "baseline_seconds": MAYBE_NUMBER, "observed_seconds": MAYBE_NUMBER, "quantile": MAYBE_NUMBER}
FINDING = {
    "id": str,
    "title": str,
    "severity": {"critical", "warning", "info"},
    "certainty": {"proven", "likely", "possible"},
    "score": NUMBER,
    "phase": PHASES,
    "scope": dict,
    "onset": str,
    "onset_uncertainty_seconds": NUMBER,
    "ongoing": bool,
    "ended": MAYBE_TEXT,
    "evidence": list,
    "stage": (dict, type(None)),
    "effects": list,
    "change": (dict, type(None)),
    "ruled_out": list,
    "next_steps": list,
    "runbook": str,
    "runbook_url": MAYBE_TEXT,
    "dashboard_url": MAYBE_TEXT,
    "cost_per_hour": MAYBE_NUMBER,
}
SCOPE = {
    "level": {"gpu", "rank", "pod", "node", "target", "pool", "fleet", "tenant"},
    "model": str,
    "role": {"prefill", "decode", "both"},
    "tier": str,
    "cluster": str,
    "namespace": str,
    "pods": list,
    "of_pods": int,
}
EVIDENCE = {
    "signal": str,
    "statement": str,
    "role": {"symptom", "harm", "support"},
    "entity": str,
    "baseline": MAYBE_NUMBER,
    "observed": MAYBE_NUMBER,
    "threshold": MAYBE_NUMBER,
    "unit": str,
    "since": MAYBE_TEXT,
    "query": MAYBE_TEXT,
}
STAGE = {"index": int, "of": int, "name": str, "began": MAYBE_TEXT}
CHANGE = {"at": str, "kind": str, "entity": str, "detail": str}
RULED_OUT = {"id": str, "because": str}
STEP = {"do": str, "why": str, "cost": str, "undo": str, "command": MAYBE_TEXT}
NOT_JUDGED = {"id": str, "missing": list, "enable": str}
COVERAGE = {"pods": int, "targets": int, "signals_present": list, "signals_absent": list, "gaps": list}
GAP = {"entity": str, "from": str, "until": str}
TIMING = {"read_seconds": NUMBER, "judge_seconds": NUMBER, "queries": int, "samples": int}


def fits(value: dict, wanted: dict, where: str) -> None:
    assert wanted.keys() <= value.keys(), (where, wanted.keys() - value.keys())
    for name, kind in wanted.items():
        if isinstance(kind, set):
            assert value[name] in kind, (where, name, value[name])
        else:
            assert isinstance(value[name], kind), (where, name, value[name])
            assert kind is bool or kind not in (int, NUMBER) or not isinstance(value[name], bool), (where, name)


@pytest.fixture(scope="module", params=LABELS, ids=[label.name for label in LABELS])
def document(request, store_of):
    """The JSON document of every recording."""
    source = open_source(store=store_of(request.param.name))
    text = diagnose(source, since=request.param.since).to_json()
    source.close()
    return json.loads(text)


def test_the_committed_schema_is_that_of_the_code():
    assert json.loads(SCHEMA_FILE.read_text("utf-8")) == json_schema(), (
        "the document changed: write json_schema() of inferdoc.judging.model to docs/diagnosis.schema.json"
    )


def test_the_schema_is_sound_and_lets_fields_be_added():
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    assert '"additionalProperties": false' not in json.dumps(schema)


def test_a_document_meets_the_schema(document):
    jsonschema.Draft202012Validator(json_schema()).validate(document)


def test_the_schema_refuses_what_breaks_the_contract(store_of):
    source = open_source(store=store_of("slow-replica"))
    text = diagnose(source, since="10m").to_json()
    source.close()
    check = jsonschema.Draft202012Validator(json_schema())
    for path, value in (
        (("verdict",), "fine"),
        (("schema",), "inferdoc.diagnosis/v2"),
        (("findings", 0, "onset"), None),
        (("findings", 0, "severity"), "major"),
        (("findings", 0, "scope", "pods"), "vllm-1"),
        (("findings", 0, "evidence", 0, "observed"), "much"),
        (("window", "baseline", "kind"), "last-month"),
    ):
        broken = json.loads(text)
        place = broken
        for step in path[:-1]:
            place = place[step]
        assert path[-1] in place if isinstance(place, dict) else True
        place[path[-1]] = value
        assert not check.is_valid(broken), path


def test_every_field_of_the_contract(document):
    fits(document, TOP, "document")
    fits(document["window"], WINDOW, "window")
    fits(document["window"]["baseline"], BASELINE, "baseline")
    fits(document["source"], SOURCE, "source")
    fits(document["coverage"], COVERAGE, "coverage")
    fits(document["timing"], TIMING, "timing")
    for name, wanted in (("phases", PHASE), ("changes", CHANGE), ("not_judged", NOT_JUDGED), ("findings", FINDING)):
        for i, entry in enumerate(document[name]):
            fits(entry, wanted, f"{name}[{i}]")
    for gap in document["coverage"]["gaps"]:
        fits(gap, GAP, "gap")
    for finding in document["findings"]:
        fits(finding["scope"], SCOPE, "scope")
        for name, wanted in (("evidence", EVIDENCE), ("ruled_out", RULED_OUT), ("next_steps", STEP)):
            for entry in finding[name]:
                fits(entry, wanted, f"{finding['id']} {name}")
        if finding["stage"]:
            fits(finding["stage"], STAGE, "stage")
            assert 1 <= finding["stage"]["index"] <= finding["stage"]["of"]
        if finding["change"]:
            fits(finding["change"], CHANGE, "change")


def stamps(value, name=""):
    """Every moment of the document."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from stamps(inner, key)
    elif isinstance(value, list):
        for inner in value:
            yield from stamps(inner, name)
    elif name in ("from", "until", "onset", "ended", "at", "since", "began") and value is not None:
        yield name, value


def test_moments_are_rfc_3339_in_utc(document):
    found = list(stamps(document))
    assert len(found) >= 2
    for name, value in found:
        assert STAMP.fullmatch(value), (name, value)
        assert datetime.fromisoformat(value).utcoffset() == timedelta(0)


def test_evidence_reads_like_a_statement_with_its_numbers(document):
    for finding in document["findings"]:
        harm = [item for item in finding["evidence"] if item["role"] == "harm"]
        assert harm, f"{finding['id']} names no harm"
        for item in finding["evidence"]:
            assert item["statement"] and item["entity"]
            if item["observed"] is not None and item["unit"] not in ("", "bool"):
                assert any(c.isdigit() for c in item["statement"]), item


def test_the_window_is_clipped_to_the_data(store_of):
    """`--since` longer than the data changes nothing but what `coverage` and the window say."""
    source = open_source(store=store_of("kv-preemption-thrash"))
    short, long = (diagnose(source, since=since) for since in ("10m", "30d"))
    assert [(f.id, f.scope, f.onset) for f in short.findings] == [(f.id, f.scope, f.onset) for f in long.findings]
    assert short.window == long.window
    covered = datetime.fromisoformat(long.window.until) - datetime.fromisoformat(long.window.from_)
    assert covered < timedelta(minutes=10)
    assert datetime.fromisoformat(long.window.until).astimezone(UTC).timestamp() == pytest.approx(
        (source.latest_ms() + 1) / 1000, abs=0.001
    )
    source.close()


def test_json_on_the_command_line_is_the_document_and_nothing_else(store_of):
    done = call("diagnose", "--store", store_of("slow-replica"), "--until", "latest", "-o", "json")
    document = json.loads(done.out)
    jsonschema.Draft202012Validator(json_schema()).validate(document)
    assert done.out.startswith("{\n") and done.out.endswith("}\n")
    assert document["source"]["kind"] == "store"
    assert document["source"]["location"].endswith("slow-replica.db")

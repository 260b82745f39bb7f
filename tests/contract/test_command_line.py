"""The command line of `diagnose`: exit codes, forms of output, colour, and one line for every refusal."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys

import pytest

from inferdoc.catalogue.load import load_catalogue
from inferdoc.store.store import Store
from tests.cli.command import call, refused

COMMANDS = (
    "diagnose",
    "collect",
    "import",
    "export",
    "doctor",
    "signals",
    "baseline",
    "recipes",
    "runbook",
    "alerts",
    "dashboards",
    "forecast",
    "prewarm",
    "demo",
)
ESCAPE = "\x1b["


@pytest.fixture
def fault(store_of):
    """The command that diagnoses a fault of severity warning."""
    return ("diagnose", "--store", store_of("slow-replica"), "--since", "10m", "--until", "latest")


@pytest.fixture
def critical(store_of):
    return ("diagnose", "--store", store_of("kv-preemption-thrash"), "--since", "10m", "--until", "latest")


@pytest.fixture
def healthy(store_of):
    return ("diagnose", "--store", store_of("control-steady"), "--since", "10m", "--until", "latest")


# ---- exit codes -----------------------------------------------------------------------------------------------------


def test_0_healthy(healthy):
    done = call(*healthy)
    assert done.code == 0 and done.err == ""
    assert done.out.startswith("HEALTHY  ")


def test_1_a_finding(fault):
    done = call(*fault)
    assert done.code == 1 and done.err == ""
    assert done.out.startswith("DEGRADED  ")
    assert "slow-gpu" in done.out and "vllm-1" in done.out


@pytest.mark.parametrize(
    ("severity", "of_warning", "of_critical"), [("info", 1, 1), ("warning", 1, 1), ("critical", 0, 1)]
)
def test_fail_on(fault, critical, severity, of_warning, of_critical):
    assert call(*fault, "--fail-on", severity).code == of_warning
    assert call(*critical, "--fail-on", severity).code == of_critical


def test_3_unknown(tmp_path):
    with Store.open(tmp_path / "empty.db", "w"):
        pass
    done = call("diagnose", "--store", tmp_path / "empty.db", "-o", "json")
    assert done.code == 3
    assert json.loads(done.out)["verdict"] == "unknown"


def test_3_comes_before_fail_on(tmp_path):
    with Store.open(tmp_path / "empty.db", "w"):
        pass
    assert call("diagnose", "--store", tmp_path / "empty.db", "--fail-on", "critical").code == 3


def test_4_an_unreachable_server():
    refused(call("diagnose", "--prometheus", "http://127.0.0.1:9", "--since", "5m"), 4, "http://127.0.0.1:9")


def test_4_no_store_there(tmp_path):
    refused(call("diagnose", "--store", tmp_path / "none.db"), 4, "none.db")
    assert not (tmp_path / "none.db").exists(), "reading must not create a store"


def test_4_a_folder_and_a_text_file_are_no_stores(tmp_path):
    (tmp_path / "text.db").write_text("metrics, surely\n" * 100)
    refused(call("diagnose", "--store", tmp_path), 4, str(tmp_path))
    refused(call("diagnose", "--store", tmp_path / "text.db"), 4, "text.db")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--no-such-flag",), "--no-such-flag"),
        (("--since", "nonsense"), "nonsense"),
        (("--since", "-5m"), "-5m"),
        (("--from", "yesterday-ish"), "yesterday-ish"),
        (("--since", "1h", "--from", "0"), "--from"),
        (("--from", "now", "--until", "2020-01-01T00:00:00Z"), "window"),
        (("--role", "sidecar"), "sidecar"),
        (("--fail-on", "major"), "major"),
        (("-o", "yaml"), "yaml"),
        (("-l", "pod"), "LABEL=VALUE"),
        (("-l", "a-b=c"), "LABEL=VALUE"),
        (("--baseline", "1h"), "--baseline"),
        (("--baseline", "2026-01-02T00:00:00Z..2026-01-01T00:00:00Z"), "--baseline"),
        (("--prometheus", "http://127.0.0.1:9"), "--store"),
        (("stray",), "stray"),
        (("--timeout", "soon"), "soon"),
    ],
)
def test_2_usage(store_of, words, said):
    refused(call("diagnose", "--store", store_of("control-steady"), *words), 2, said)


def test_2_header_without_a_colon_and_never_its_value(fault):
    done = call("diagnose", "--prometheus", "http://127.0.0.1:9", "--header", "s3cret-token")
    refused(done, 2, "NAME: VALUE")
    assert "s3cret" not in done.err


def test_2_no_such_command_and_no_such_configuration(tmp_path):
    refused(call("diagnos"), 2, "diagnos")
    refused(call("--config", tmp_path / "none.toml", "diagnose"), 2, "none.toml")


# ---- output ---------------------------------------------------------------------------------------------------------


def test_the_same_findings_in_every_form(fault):
    document = json.loads(call(*fault, "-o", "json").out)
    first = document["findings"][0]
    plain, markdown = call(*fault).out, call(*fault, "-o", "markdown").out
    assert plain == call(*fault, "-o", "text").out
    for text in (plain, markdown):
        assert first["title"] in text and first["id"] in text and first["scope"]["pods"][0] in text
        assert first["certainty"] in text and first["next_steps"][0]["do"].split(":")[0] in " ".join(text.split())
        assert not [line for line in text.splitlines() if line != line.rstrip()]
    assert markdown.startswith("# Degraded\n") and f"## {first['title']}" in markdown
    assert document["summary"] in markdown


def test_more_is_said_with_v(fault):
    brief, more, full = call(*fault).out, call(*fault, "-v").out, call(*fault, "-vv").out
    assert len(full.splitlines()) > len(more.splitlines()) + 5 > len(brief.splitlines()) + 10
    assert "why:" in full and "why:" not in more
    first = json.loads(call(*fault, "-o", "json").out)["findings"][0]
    for rival in first["ruled_out"]:
        assert rival["id"] in full


@pytest.mark.parametrize("form", ["text", "json", "markdown"])
def test_no_escapes_in_a_pipe(critical, form):
    done = call(*critical, "-o", form, "-v")
    assert done.code == 1 and done.out.strip()
    assert ESCAPE not in done.out and ESCAPE not in done.err


def on_a_terminal(*arguments, **environment):
    """What the command line writes when its output is a terminal."""
    parent, child = pty.openpty()
    command = [sys.executable, "-c", "from inferdoc.cli.main import main; main()", *map(str, arguments)]
    known = {k: v for k, v in os.environ.items() if k != "NO_COLOR"}
    with subprocess.Popen(command, stdout=child, stderr=subprocess.PIPE, env={**known, **environment}) as process:
        os.close(child)
        written = b""
        while True:
            try:
                piece = os.read(parent, 65536)
            except OSError:
                break
            if not piece:
                break
            written += piece
    os.close(parent)
    return process.returncode, written.decode()


def test_colour_on_a_terminal_unless_refused(critical):
    code, text = on_a_terminal(*critical)
    assert code == 1 and ESCAPE in text
    for code, text in (
        on_a_terminal(*critical, NO_COLOR="1"),
        on_a_terminal("--no-color", *critical),
        on_a_terminal(*critical, "-o", "json"),
    ):
        assert code == 1 and text.strip() and ESCAPE not in text


def test_help_names_every_command_and_every_command_has_help():
    told = call("--help")
    assert told.code == 0 and told.err == ""
    for name in COMMANDS:
        assert f"\n  {name} " in told.out
        helped = call(name, "--help")
        assert helped.code == 0 and helped.out.startswith(f"Usage: inferdoc {name}")
    assert "--version" in told.out and call("--version").out.startswith("inferdoc ")


def test_the_reader_may_go_away(fault):
    """`inferdoc diagnose | head -1` ends quietly."""
    words = " ".join(str(a) for a in fault)
    command = f"{sys.executable} -c 'from inferdoc.cli.main import main; main()' {words} -o json | head -c 20"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60)
    assert done.stderr == "" and done.stdout.startswith("{")


def test_every_finding_has_its_page():
    for name in load_catalogue().recipes:
        page = call("runbook", name)
        assert page.code == 0 and page.out.startswith("# ") and ESCAPE not in page.out

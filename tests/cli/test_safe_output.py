"""Whatever stands in a label, a file name, an address or an answer: nothing that a terminal obeys, no active Markdown
or HTML leaves any command."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import sys
from contextlib import redirect_stderr, redirect_stdout
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from inferdoc.cli import main
from inferdoc.cli.streams import Guarded, guarded
from tests.cli.command import Done, call
from tests.conftest import recording_path
from tests.source.fake_server import Answer, serving
from tests.test_escaping import HOSTILE, assert_inactive, inert, markdown_tokens

INJECTED = "INJECTED"
ATTACK = (
    f"\x1b[2J\x1b]8;;http://evil.example\x07\n{INJECTED}\r\x9b31m‮|[x](http://evil.example)![y](http://evil.example/a)"
    "<img src=x onerror=alert(1)><script>a</script>\"'\n# Healthy\n`$(reboot)` @here _x_ {red}[red]"
)
ELEMENTS = set(
    re.findall(
        r"\w+",
        "html head meta title style body main header footer section h1 h2 h3 p span strong code pre a ol ul li dl dt "
        "dd br div figure figcaption details summary table thead tbody tr th td time svg path rect text desc",
    )
)
labels = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
attacks = st.one_of(st.sampled_from(HOSTILE), labels)


def recorded(folder: Path, pod: str, model: str) -> Path:
    """A store with a recorded incident whose pod and model have these names."""

    def quoted(text: str) -> str:
        return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

    text = gzip.decompress(recording_path("kv-preemption-thrash").read_bytes()).decode()
    expected = ("vllm:", "up{", "# TYPE vllm:", "# EOF")
    lines = [line for line in text.split("\n") if line.startswith(expected) and "_created{" not in line]
    page = "\n".join([*lines, ""]).replace('pod="vllm-0"', f'pod="{quoted(pod)}"')
    file = folder / "hostile.om"
    file.write_text(page.replace('model_name="tiny"', f'model_name="{quoted(model)}"'), "utf-8", newline="\n")
    store = folder / "hostile.db"
    store.unlink(missing_ok=True)
    done = call("import", file, "--store", store)
    assert done.code == 0, done
    return store


def assert_safe(done: Done) -> None:
    """Nothing that a terminal obeys, no line that a label began, no fault of inferdoc's own."""
    for text in (done.out, done.err):
        assert inert(text), [c for c in text if c != "\n" and not c.isprintable()]
        assert not any(line.startswith((INJECTED, "# Healthy")) for line in text.splitlines())
    assert "fault in inferdoc itself" not in done.err and "Traceback" not in done.err, done.err


class Elements(HTMLParser):
    """The elements of a page and their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def assert_inactive_html(text: str) -> None:
    """Only elements of the report, no handler, no address but places on the page itself."""
    found = Elements(text).found
    assert {tag for tag, _ in found} <= ELEMENTS
    for tag, attributes in found:
        assert not any(name.startswith("on") or name in ("src", "style", "srcset") for name in attributes), tag
        assert (attributes.get("href") or "#").startswith("#"), attributes


def read_by_people(store: Path) -> list[tuple[object, ...]]:
    """Every command that prints what stands in labels, in every form that people read."""
    source = ("--store", store, "--until", "latest")
    window = (*source, "--since", "10m")
    return [
        ("diagnose", *window),
        ("diagnose", *window, "-v"),
        ("audit", *window),
        ("audit", *window, "-v"),
        ("signals", *source),
        ("signals", *source, "--health"),
        ("doctor", *source),
        ("forecast", "--store", store),
        ("forecast", "--store", store, "--capacity"),
        ("prewarm", "plan", "--store", store),
        ("baseline", "save", *window, "--force", "--name", "mine"),
        ("baseline", "show"),
        ("baseline", "show", "mine"),
        ("diagnose", *window, "--baseline", "mine"),
        ("diagnose", *source, "--since", "5m", "-o", "json"),
        ("signals", *source, "-o", "json"),
        ("signals", *source, "--health", "-o", "json"),
        ("baseline", "show", "mine", "-o", "json"),
        ("audit", *window, "-o", "json"),
    ]


@example(pod=ATTACK, model=ATTACK)
@given(pod=attacks, model=attacks)
@settings(max_examples=1, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_label_reaches_a_reader_as_anything_but_words(tmp_path: Path, pod: str, model: str) -> None:
    store = recorded(tmp_path, pod, model)
    for words in read_by_people(store):
        done = call(*words)
        assert_safe(done)
        if words[-1] == "json":
            json.loads(done.out)
    window = ("--store", store, "--until", "latest", "--since", "10m")
    for command in ("diagnose", "audit"):
        done = call(command, *window, "-o", "markdown")
        assert_safe(done)
        assert_inactive(markdown_tokens(done.out), frozenset({"strong_open"}))
        done = call(command, *window, "-o", "html")
        assert_safe(done)
        assert_inactive_html(done.out)


def test_json_keeps_labels_as_they_are(tmp_path: Path) -> None:
    store = recorded(tmp_path, ATTACK, "tiny")
    found = json.loads(call("diagnose", "--store", store, "--until", "latest", "--since", "10m", "-o", "json").out)
    assert found["findings"][0]["scope"]["pods"] == [ATTACK]
    assert {row["pod"] for row in json.loads(call("signals", "--store", store, "-o", "json").out)} >= {ATTACK}


class Terminal(io.StringIO):
    """A terminal that a command believes it writes to."""

    encoding = "utf-8"  # type: ignore[assignment]

    def __init__(self) -> None:
        super().__init__()
        self.buffer = Bytes(self)

    def isatty(self) -> bool:
        return True


class Bytes(io.BytesIO):
    """The bytes of a terminal."""

    def __init__(self, text: io.StringIO) -> None:
        super().__init__()
        self.text = text

    def write(self, data) -> int:
        self.text.write(bytes(data).decode())
        return len(data)


def terminal(*words: object) -> str:
    """Run a command with terminals for standard output and error; what stands on the first."""
    out = Terminal()
    with redirect_stdout(out), redirect_stderr(Terminal()):
        main.run([str(word) for word in words])
    return out.getvalue()


def test_on_a_terminal_only_the_colours_of_the_report_pass(tmp_path: Path) -> None:
    store = recorded(tmp_path, ATTACK, ATTACK)
    shown = terminal("diagnose", "--store", store, "--until", "latest", "--since", "10m")
    assert "\x1b[31m" in shown or "\x1b[33m" in shown, "a report is coloured on a terminal"
    assert inert(re.sub(r"\x1b\[[0-9;]*m", "", shown))
    assert shown.count("\x1b[3") < 20 and "\x1b[2J" not in shown
    coloured = set(re.findall(r"\x1b\[[0-9;]*m([^\x1b]*)", shown))
    assert not any("u001b[31m" in words and words.startswith("HEALTHY") for words in coloured)


def test_an_export_is_exact_in_a_file_and_printable_on_a_terminal(tmp_path: Path) -> None:
    store = recorded(tmp_path, "pod\x1b[31m", "tiny")
    assert inert(terminal("export", "--store", store, "--since", "10s"))


@example(name=ATTACK.replace("/", "").replace("\x00", "")[:80])
@given(name=attacks)
@settings(max_examples=6, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_names_that_people_give_come_back_printable(tmp_path: Path, name: str) -> None:
    name = name.replace("\x00", "")
    for words in (
        ("diagnose", "--store", f"{tmp_path}/{name}"),
        ("import", f"{tmp_path}/none/{name}", "--store", tmp_path / "a.db"),
        ("--config", f"{tmp_path}/none/{name}", "doctor"),
        ("--catalogue", f"{tmp_path}/none/{name}", "recipes"),
        ("diagnose", "--prometheus", f"http://127.0.0.1:9/{name}", "--timeout", "1s"),
        ("diagnose", "--prometheus", name, "--timeout", "1s"),
        ("diagnose", "--since", name),
        ("signals", "--until", name),
        ("diagnose", name),
        ("runbook", name),
        ("recipes", "show", name),
        ("forecast", "--input", f"{tmp_path}/none/{name}"),
        ("forecast", "--tz", name, "--input", "x.csv"),
        ("prewarm", "explain", "--plan", f"{tmp_path}/none/{name}"),
        ("baseline", "show", name),
        ("collect", "--target", name, "--once", "--store", tmp_path / "a.db", "--timeout", "1s"),
        (name,),
    ):
        if str(words[-1]).startswith("-") or (words[0] == "collect" and "," in name):
            continue
        done = call(*words)
        assert_safe(done)
        if words[0] != "collect":
            assert done.err.count("\n") <= 2, done.err


def test_a_file_name_that_is_no_text(tmp_path: Path) -> None:
    name = os.fsdecode(b"\xff\x1b[31m.db")
    for words in (("diagnose", "--store", tmp_path / name), ("import", tmp_path / name, "--store", tmp_path / "a.db")):
        assert_safe(call(*words))


@pytest.mark.parametrize("command", ["diagnose", "doctor", "signals", "audit", "forecast"])
def test_what_a_server_answers_comes_back_printable(command: str) -> None:
    for answer in (
        Answer(422, {"status": "error", "errorType": "execution", "error": ATTACK}),
        Answer(200, {"status": "success", "warnings": [ATTACK], "data": {"resultType": ATTACK, "result": []}}),
        Answer(500, ATTACK),
        Answer(302, "", {"Location": "http://127.0.0.1:9/\x9b31m"}),
    ):
        with serving(lambda asked, answer=answer: answer) as server:
            done = call(command, "--prometheus", server.url, "--timeout", "1s")
        assert done.code != 0
        assert_safe(done)


def test_a_stream_that_knows_ascii_only_gets_escapes() -> None:
    raw = io.BytesIO()
    stream = Guarded(io.TextIOWrapper(raw, "ascii", write_through=True))
    stream.write("± 3 s\x1b[31m\n")
    assert raw.getvalue() == b"\\xb1 3 s\\u001b[31m\n"


def test_the_streams_come_back_when_a_command_ends() -> None:
    before = sys.stdout, sys.stderr
    with pytest.raises(KeyError), guarded():
        assert isinstance(sys.stdout, Guarded)
        raise KeyError
    assert (sys.stdout, sys.stderr) == before

"""Whatever is wrong with a command line, a configuration or a file of the catalogue is one line and an exit code of the
contract; nothing ends the interpreter."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from inferdoc.catalogue import document
from inferdoc.catalogue.content import content_files
from inferdoc.cli import messages
from inferdoc.cli.main import cli
from inferdoc.config import load_config
from inferdoc.errors import CatalogueError, ConfigError, ExitCode, InferdocError, SourceError
from inferdoc.source.prometheus_access import Access
from tests.cli.command import Done, call, refused
from tests.source.fake_server import Answer, serving

IN_TEMPORARY = [HealthCheck.function_scoped_fixture]
DEEP = 100_000
BOMB = "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12)
)


def assert_one_line(done: Done) -> None:
    """A code of the contract; where it says no, one line on stderr; never a fault of inferdoc's own."""
    assert done.code in (0, 1, 2, 3, 4), done
    assert "Traceback" not in done.err and "fault in inferdoc itself" not in done.err, done.err
    printed = [line for line in done.err.splitlines() if line.startswith("inferdoc: ")]
    assert len(printed) in {0: (0,), 2: (1,), 4: (1,)}.get(done.code, (0, 1)), done.err


# ---- the classes of fault -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "moment", ["1e15", "99999999999", "-1", "0001-01-01T00:00:00Z", "now-99999d", "1e300", "now-9e9d"]
)
@pytest.mark.parametrize("flag", ["--until", "--from"])
def test_a_time_in_no_century_of_ours(flag: str, moment: str, store_of) -> None:
    store = store_of("control-steady")
    for command in ("diagnose", "audit", "export", "baseline save"):
        refused(call(*command.split(), "--store", store, flag, moment), 2, moment.removeprefix("now-"))


@pytest.mark.parametrize("length", ["99999999999d", "99999999999999999999d", "36501d"])
def test_a_duration_of_centuries(length: str, store_of) -> None:
    refused(call("diagnose", "--store", store_of("control-steady"), "--since", length), 2, length, "hundred years")
    refused(call("diagnose", "--prometheus", "http://127.0.0.1:9", "--timeout", length), 2, length)


@pytest.mark.parametrize("timeout", ["0s", "25h"])
def test_a_timeout_that_is_none(timeout: str, tmp_path: Path) -> None:
    refused(call("diagnose", "--prometheus", "http://127.0.0.1:9", "--timeout", timeout), 2, "--timeout", timeout)
    refused(call("collect", "--target", "127.0.0.1:9", "--once", "--store", tmp_path / "a.db", "--timeout", timeout), 2)


def test_a_step_that_no_bins_make_up(tmp_path: Path, store_of) -> None:
    refused_step = call("forecast", "--store", store_of("control-steady"), "--step", "30s", "--tz", "UTC")
    refused(refused_step, 2, "--step", "5m")


@pytest.mark.parametrize("url", ["http://[::1", "http://[zz]:9", "http://[", "[", "http://a:99999"])
def test_an_address_with_half_a_bracket(url: str, tmp_path: Path) -> None:
    refused(call("diagnose", "--prometheus", url), 2, "address")
    for flag in ("--target", "--http-sd"):
        refused(call("collect", flag, url, "--once", "--store", tmp_path / "a.db"), 2, "target")
    config = tmp_path / "inferdoc.toml"
    config.write_text(f'[[collect.targets]]\nurl = "{url}"\n')
    refused(call("collect", "--once", "--store", tmp_path / "a.db"), 2, "target")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[slo]]\nlimits = {ttft_p9 = 1.0}\n", ("slo[0].limits", "ttft_p9", 'did you mean "ttft_p99"')),
        ("[[slo]]\nlimits = {ttft_p99 = nan}\n", ("limits.ttft_p99", "above 0")),
        ("[[slo]]\nlimits = {ttft_p99 = -1}\n", ("limits.ttft_p99", "above 0")),
        ('[[pods]]\npod = "("\n', ("pods[0]", "regular expression")),
        ('[[audit.accepted]]\nstate = "a"\nreason = "b"\npod = "["\n', ("accepted[0]", "regular expression")),
        ('[[audit.accepted]]\nstate = "a"\nreason = "b"\nuntil = "soon"\n', ("accepted[0]", "2027-03-31")),
        ("[source]\ntimeout_seconds = 0\n", ("timeout_seconds", "above 0")),
        ("[source]\ntimeout_seconds = inf\n", ("timeout_seconds", "above 0")),
        ("[source]\nparallel = 0\n", ("parallel", "above 0")),
        (f"a = {'[' * DEEP}", ("nested",)),
        (f"a = {'1' * 5000}", ("TOML",)),
    ],
)
def test_a_configuration_that_makes_no_sense(tmp_path: Path, store_of, text: str, words: tuple[str, ...]) -> None:
    config = tmp_path / "mine.toml"
    config.write_text(text)
    for command in ("diagnose", "audit"):
        refused(call("--config", config, command, "--store", store_of("control-steady")), 2, "mine.toml", *words)


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("[" * DEEP, "nested"),
        ("{a: " * DEEP, "nested"),
        ("- " * DEEP, "nested"),
        ("? " * DEEP, "nested"),
        ("".join(f"{' ' * n}a:\n" for n in range(3000)), "nested"),
        (BOMB, "aliases"),
        ("a: &a [*a]", "within what it names"),
        ("id: 2026-13-45", "month must be"),
        ("id: !!bool maybe", "not of its kind"),
        ("id: !!python/object:os.system x", "constructor"),
        (f"id: {'1' * 5000}", "not of its kind"),
        ("? [a]\n: b", "a key must be a word"),
        ("id: \x00", "YAML"),
        ("a: *b", "undefined alias"),
    ],
)
def test_yaml_that_would_crash_or_stall_a_reader(tmp_path: Path, text: str, printed: str) -> None:
    path = tmp_path / "mine" / "diagnostics" / "my-cause.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    for words in (("recipes", "list"), ("recipes", "check")):
        refused(call("--catalogue", tmp_path / "mine", *words), 2, "my-cause.yaml", printed)
    listed = tmp_path / "targets.yaml"
    listed.write_text(text)
    assert_one_line(call("collect", "--file-sd", listed, "--once", "--store", tmp_path / "a.db"))
    assert_one_line(call("simulate", "--scenario", listed, "--out", tmp_path / "out.om"))


def test_deep_yaml_does_not_end_the_interpreter(tmp_path: Path) -> None:
    """In a process of its own: what went wrong here was a segmentation fault."""
    path = tmp_path / "deep.yaml"
    path.write_text("[" * DEEP)
    words = [sys.executable, "-c", "from inferdoc.cli.main import main; main()", "recipes", "check", str(path)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1 and "nested" in done.stdout and done.stderr == ""


@pytest.mark.parametrize(
    "body", [b"[" * DEEP, b'{"status":"success","data":' + b"[" * DEEP, b"\xff\xfe{", b'{"a":' * DEEP]
)
@pytest.mark.parametrize("command", ["diagnose", "forecast"])
def test_an_answer_of_many_levels(command: str, body: bytes) -> None:
    with serving(lambda options_given: Answer(200, body, {"Content-Type": "application/json"})) as server:
        done = call(
            command, "--prometheus", server.url, "--timeout", "2s", *(["--tz", "UTC"] * (command == "forecast"))
        )
    refused(done, 4, server.url)


def test_a_plan_of_many_levels(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    for body in ("[" * DEEP, '{"a":' * DEEP, "\udcff"):
        plan.write_text(body, errors="surrogateescape")
        for words in (("explain",), ("check",), ("emit", "--target", "hpa")):
            refused(call("prewarm", *words, "--plan", plan), 2, "plan.json")


@pytest.mark.parametrize("value", ["abc", "k3y", "Bearer abc", "a", "1"])
def test_no_header_value_comes_back_however_short(value: str) -> None:
    secret = value.removeprefix("Bearer ")
    access = Access("http://127.0.0.1:9", headers={"X-Key": value})
    for printed in (f"bad key {value}", f"key '{secret}' is unknown", f"{secret}: no", f"X-Key={secret}"):
        assert (
            secret
            not in access.redact(printed).split("key")[-1].replace("unknown", "").replace("is", "").split("no")[0]
        ), printed
    assert access.redact("maximum is 1234 abcd k3yz") == "maximum is 1234 abcd k3yz"
    with serving(lambda options_given: Answer(401, f"who is <{value}>?")) as server:
        done = call("diagnose", "--prometheus", server.url, "--header", f"X-Key: {value}", "--timeout", "2s")
    assert f"<{secret}>" not in done.err and f"<{value}>" not in done.err and done.code == 4


# ---- --debug and --watch --------------------------------------------------------------------------------------------


def test_debug_shows_the_traceback_and_changes_no_exit_code(tmp_path: Path) -> None:
    for words in (("diagnose", "--store", tmp_path / "none.db"), ("--config", tmp_path / "none.toml", "doctor")):
        plain, shown = call(*words), call("--debug", *words)
        assert shown.code == plain.code and shown.code in (2, 4)
        assert shown.err.startswith("Traceback") and shown.err.endswith(plain.err)


def test_a_fault_of_our_own_is_one_line_and_70(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise KeyError("oh\x1b[31m")

    monkeypatch.setattr("inferdoc.cli.options.configuration", broken)
    done = call("recipes")
    assert done.code == messages.OWN_FAULT and done.err.count("\n") == 1 and "\x1b" not in done.err
    shown = call("--debug", "recipes")
    assert shown.code == messages.OWN_FAULT and "Traceback" in shown.err and shown.err.endswith(done.err)


def test_a_watch_prints_the_fault_and_goes_on(monkeypatch: pytest.MonkeyPatch, store_of) -> None:
    rounds: list[str] = []

    def judged(*_: object) -> None:
        rounds.append("judged")
        if len(rounds) == 3:
            raise KeyboardInterrupt
        raise SourceError("http://prometheus:9090 cannot be reached")

    monkeypatch.setattr("inferdoc.judging.request.diagnosis", judged)
    monkeypatch.setattr("inferdoc.watch.rounds.time.sleep", lambda seconds: rounds.append(f"slept {seconds:g}"))
    done = call("diagnose", "--store", store_of("control-steady"), "--watch")
    assert rounds == ["judged", "slept 30", "judged"]
    assert done.err.count("inferdoc: http://prometheus:9090 cannot be reached\n") == 1
    assert done.code == ExitCode.INTERRUPTED


def test_a_watch_with_a_wrong_option_ends(store_of) -> None:
    refused(call("diagnose", "--store", store_of("control-steady"), "--watch", "--since", "soon"), 2, "soon")


def test_a_full_disk_is_no_fault_of_our_own() -> None:
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    with Path("/dev/full").open("w") as full:
        words = [sys.executable, "-c", "from inferdoc.cli.main import main; main()", "recipes", "list"]
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert done.returncode == 4 and "no space left" in done.stderr and "Traceback" not in done.stderr


# ---- fuzz: the command line -----------------------------------------------------------------------------------------

ODD = (
    *("", " ", "-1", "0", "1e400", "nan", "inf", "-inf", "1e18", "99999999999999999999", "30s", "1ms", "0s", "99d"),
    *("now", "latest", "now-5m", "2026-02-30T00:00:00Z", "9999-12-31T23:59:59Z", "253402300800", "a", "a=b", "="),
    *("(", "[", "http://[::1", "http://a:99999", "//", "/dev/null", "/", "\udcff", "a\x00b", "a,b=c", "..", "%", "{}"),
    *("Europe/Nowhere", "X: y", "X: y\nz", "X: ä☃", "\x1b[31m", "-", "--"),
)
QUICK = (
    "diagnose",
    "audit",
    "signals",
    "doctor",
    "export",
    "baseline",
    "forecast",
    "prewarm",
    "runbook",
    "recipes",
    "collect",
)


def commands() -> list[tuple[tuple[str, ...], click.Command]]:
    """Every command that answers at once, by its words."""
    found: list[tuple[tuple[str, ...], click.Command]] = []

    def walk(words: tuple[str, ...], command: click.Command) -> None:
        if isinstance(command, click.Group):
            for name, inner in command.commands.items():
                walk((*words, name), inner)
        else:
            found.append((words, command))

    for name in QUICK:
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        walk((name,), command)
    return found


@st.composite
def command_lines(draw: st.DrawFn) -> list[str]:
    """A command with up to three of its options, each with an odd value."""
    words, command = draw(st.sampled_from(commands()))
    line = [*words]
    options = [p for p in command.params if isinstance(p, click.Option) and p.name not in ("watch", "target", "folder")]
    for option in draw(st.lists(st.sampled_from(options), max_size=3, unique_by=lambda o: o.name)) if options else ():
        line.append(option.opts[-1])
        if not option.is_flag:
            odd = st.one_of(st.sampled_from(ODD), st.text(max_size=8))
            line.append(draw(st.sampled_from(option.type.choices) if isinstance(option.type, click.Choice) else odd))
    if draw(st.booleans()):
        line.append(draw(st.sampled_from(ODD)))
    if words[0] == "collect":
        line += ["--once", "--timeout", "100ms"]
    elif any("--timeout" in option.opts for option in options):
        line += ["--timeout", "200ms"]
    return line


@given(command_lines())
@settings(max_examples=120, deadline=None, derandomize=True, suppress_health_check=IN_TEMPORARY)
def test_no_command_line_is_answered_by_a_traceback(tmp_path: Path, line: list[str]) -> None:
    if ("prewarm" in line and "-" in line) or ("import" in line) or ("--input" in line and "-" in line):
        return  # these read standard input
    os.chdir(tmp_path)
    assert_one_line(
        call(
            *line,
            *(["--plan", "none.json"] if line[0] == "prewarm" and line[1] != "plan" and "--plan" not in line else []),
        )
    )


# ---- fuzz: the configuration ----------------------------------------------------------------------------------------

SECTIONS = ("source", "collect", "pods", "slo", "recipes", "prices", "audit", "links", "baselines", "catalogue")
KEYS = (
    *(
        "prometheus",
        "store",
        "headers",
        "timeout_seconds",
        "parallel",
        "targets",
        "url",
        "labels",
        "file_sd",
        "http_sd",
    ),
    *(
        "pod",
        "role",
        "tier",
        "tokens_per_second",
        "gpus",
        "limits",
        "model",
        "disabled",
        "currency",
        "overhead",
        "tiers",
    ),
    *("accepted", "state", "reason", "until", "runbook_base", "folder", "password_file", "odd"),
)
values = st.recursive(
    st.one_of(
        st.sampled_from(["(", "both", "ttft_p99", "2027-01-01", "http://[::1", "\\u0000", "x.db", "."]).map(
            lambda s: f'"{s}"'
        ),
        st.sampled_from(
            ["0", "-1", "1", "nan", "inf", "1e400", "true", "1979-05-27", "99999999999999999999999", "07:32:00"]
        ),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]"),
        st.dictionaries(st.sampled_from(KEYS), inner, max_size=3).map(
            lambda pairs: "{" + ", ".join(f"{key} = {value}" for key, value in pairs.items()) + "}"
        ),
    ),
    max_leaves=6,
)


@st.composite
def configurations(draw: st.DrawFn) -> str:
    """TOML of sections and keys that exist, with values that need not fit."""
    lines = []
    for section in draw(st.lists(st.sampled_from(SECTIONS), max_size=4, unique=True)):
        lines.append(f"[[{section}]]" if draw(st.booleans()) else f"[{section}]")
        pairs = draw(st.dictionaries(st.sampled_from(KEYS), values, max_size=4))
        lines += [f"{key} = {value}" for key, value in pairs.items()]
    return "\n".join(lines) + draw(st.sampled_from(["", "\n", "\n[", "\x00", "=\n"]))


@given(configurations())
@settings(max_examples=100, deadline=None, derandomize=True, suppress_health_check=IN_TEMPORARY)
def test_no_configuration_is_answered_by_a_traceback(tmp_path: Path, text: str) -> None:
    path = tmp_path / "fuzz.toml"
    path.write_text(text, "utf-8")
    try:
        load_config(path, {})
    except ConfigError as error:
        assert "fuzz.toml" in str(error)


@given(configurations())
@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=IN_TEMPORARY)
def test_what_a_configuration_allows_can_be_used(tmp_path: Path, store_of, text: str) -> None:
    path = tmp_path / "fuzz.toml"
    path.write_text(text, "utf-8")
    os.chdir(tmp_path)
    store = store_of("control-steady")
    for words in (
        ("diagnose", "--store", store, "--until", "latest"),
        ("collect", "--once", "--store", "b.db", "--timeout", "100ms"),
    ):
        done = call("--config", path, *words)
        assert_one_line(done)


# ---- fuzz: the catalogue --------------------------------------------------------------------------------------------

SHIPPED = [
    path for _, path in sorted(content_files("diagnostics", "*.yaml", ()).items()) if path.name != "observations.yaml"
]
BITS = (
    "[",
    "]",
    "{",
    "}",
    ": ",
    "\n",
    "- ",
    "&a ",
    "*a",
    "!!int ",
    '"',
    "#",
    "\t",
    "2026-13-45",
    "~",
    "1e999",
    "\x00",
    "é",
    "? ",
)


@st.composite
def recipes(draw: st.DrawFn) -> str:
    """A recipe that comes with inferdoc, cut, doubled or with bits of YAML put in."""
    text = draw(st.sampled_from(SHIPPED)).read_text("utf-8")
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(text)))
        until = min(len(text), at + draw(st.integers(0, 20)))
        bit = draw(st.one_of(st.sampled_from(BITS), st.text(max_size=5), st.just(text[at : at + 200])))
        text = text[:at] + bit + text[until:]
    return text


@given(recipes())
@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=IN_TEMPORARY)
def test_no_recipe_is_answered_by_a_traceback(tmp_path: Path, text: str) -> None:
    path = tmp_path / "fuzz.yaml"
    path.write_text(text, "utf-8", errors="replace")
    done = call("recipes", "check", path)
    assert done.code in (0, 1) and done.err == "", done
    assert done.code == 0 or all("fuzz.yaml" in line for line in done.out.splitlines()), done.out


@given(st.text(st.sampled_from([*"[]{}:,-?&*!#'\"|>%@` \nab1.", "\t", "\x00", "é"]), max_size=60))
@settings(max_examples=200, deadline=None, derandomize=True, suppress_health_check=IN_TEMPORARY)
def test_no_text_is_answered_by_a_traceback_as_yaml(tmp_path: Path, text: str) -> None:
    path = tmp_path / "fuzz.yaml"
    path.write_text(text, "utf-8")
    try:
        document.read_yaml(path)
    except CatalogueError as error:
        assert "fuzz.yaml" in str(error) and str(error).isprintable()


def test_errors_are_of_one_family() -> None:
    assert all(issubclass(kind, InferdocError) for kind in (CatalogueError, ConfigError, SourceError))

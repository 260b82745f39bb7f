"""Every runbook page: fixed headings, queries that parse, names and flags that exist, live links, safe advice."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import yaml

from inferdoc.catalogue.load import load_catalogue
from inferdoc.cli.main import cli
from tests.vllm_flags import serve_flags

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
FAMILIES = sorted(name for name, family in load_catalogue().families.items() if family.shown is not None)
FAMILY_PAGES = [ROOT / "runbooks" / f"{name}.md" for name in FAMILIES]
PAGES = sorted({*(ROOT / "runbooks").glob("*.md")} - {*FAMILY_PAGES})
CAUSES = sorted(load_catalogue().origin["recipe", name] for name in load_catalogue().recipes)

HEADINGS = [
    "Meaning",
    "Impact",
    "Fires when",
    "First five minutes",
    "Diagnosis",
    "Mitigation",
    "Verify",
    "Look-alikes",
    "References",
]

# Pages of alerts that show impact and name no cause.
WITHOUT_RECIPE = {"slo-outage", "slo-burn", "slo-latency", "traffic-gone", "queue-wait", "router-down"}

# Advice that is outdated, does not exist or does harm. A page does not even name the first group; a sentence that
# matches the second group must forbid the thing.
NEVER_NAMED = [
    r"--swap-space",
    r"--preemption-mode",
    r"(swap|preemption) threshold",
    r"capacity[ -]factor",
    r"guided[_-]decoding[_-]backend",
    r"guided_json",
    r"VLLM_NIXL_ABORT_REQUEST_TIMEOUT",
    r"kv_both",
    r"num_requests_swapped",
    r"nixl_queue_depth",
    r"defragment",
    r"VLLM_USE_V1",
]
ONLY_FORBIDDEN = [
    r"(?<!no-)enable[ -]chunked[ -]prefill",
    r"(raise|increase|lengthen|longer)\b[^.]{0,30}\btime-?outs?",
    r"retry\w*\b[^.]{0,20}\bimmediately",
    r"(average|mean) (of )?(the )?(percentiles|p99s?)",
    r"(autoscale|scale) on (GPU|CPU) utili[sz]ation",
    r"NCCL_\w+",
]
NEGATION = re.compile(r"\b(no|not|never|nobody|without|nor|wrong|instead of|ignores?)\b", re.IGNORECASE)

# Commands whose flags are not the engine's. `inferdoc` is checked against its own command line.
OTHER_COMMANDS = {
    "kubectl", "curl", "nvidia-smi", "dcgmi", "promtool", "py-spy", "jq", "grep", "sed", "sort", "awk", "ibv_devinfo",
    "ucx_info", "lscpu", "numactl", "ps", "top", "python", "python3", "env", "cat", "head", "tail", "nc", "ethtool",
    "journalctl", "dmesg", "helm", "diff", "date", "rdma", "wc", "uniq", "tr", "cut", "seq", "echo", "sleep", "crictl",
    "nsys", "ncu", "openssl",
}  # fmt: skip


def lines_of(name: str) -> list[str]:
    return [line for line in (HERE / name).read_text().splitlines() if line and not line.startswith("#")]


VLLM_FLAGS = serve_flags()
METRIC_TYPES = dict(line.split() for line in lines_of("metric-names.txt"))


def prose(text: str) -> str:
    """The page without HTML comments and without what a generator writes between the markers."""
    text = re.sub(r"<!-- fires-when:.*?<!-- /fires-when -->", "", text, flags=re.DOTALL)
    return re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)


def fences(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)


def commands(text: str) -> Iterator[str]:
    """Every shell command of the page: lines of bash fences, and inline code that starts with a known command."""
    for block in fences(text, "bash"):
        yield from (line.strip() for line in re.sub(r"\\\n", " ", block).splitlines() if line.strip())
    outside = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    for span in re.findall(r"`([^`]+)`", outside):
        words = span.split()
        if len(words) > 1 and (words[0] in OTHER_COMMANDS or words[0] in {"inferdoc", "vllm"}):
            yield " ".join(words)


def engine_flags(text: str) -> set[str]:
    """The `--flags` that the page names as the engine's: all but those inside another tool's command."""
    body = prose(text)
    for command in commands(body):
        if command.split()[0] != "vllm":
            body = body.replace(command, "")
    body = re.sub(r"^```bash\n.*?^```$", "", body, flags=re.DOTALL | re.MULTILINE)
    for span in re.findall(r"`[^`]+`", body):  # spans broken over two lines
        words = span.strip("`").split()
        if words and (words[0] in OTHER_COMMANDS or words[0] == "inferdoc"):
            body = body.replace(span, "")
    return set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", body))


def metric_problem(name: str) -> str | None:
    """None if `name` is a series some exporter shows; else what is wrong with it."""
    if METRIC_TYPES.get(name) in {"counter", "gauge"}:
        return None
    base = re.sub(r"_(bucket|sum|count)$", "", name)
    if base != name and METRIC_TYPES.get(base) in {"histogram", "summary"}:
        return None
    if METRIC_TYPES.get(name) in {"histogram", "summary"}:
        return f"{name} is a histogram: use _bucket, _sum or _count"
    if f"{name}_total" in METRIC_TYPES:
        return f"{name} matches nothing: the counter is {name}_total"
    return f"{name} is not in metric-names.txt"


def series_in(query: str) -> set[str]:
    bare = re.sub(r"#.*", "", query)
    bare = re.sub(r'"(\\.|[^"\\])*"', '""', bare)
    bare = re.sub(r"\{[^}]*\}", "", bare)
    bare = re.sub(r"\b(by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)", "", bare)
    words = re.findall(r"(?<![\w:.])[a-zA-Z_:][\w:]*+(?!\s*\()", re.sub(r"\[[^\]]*\]", "", bare))
    return {word for word in words if word.lower() not in {"and", "or", "unless", "bool", "offset", "inf", "nan"}}


def command_problem(line: str) -> str | None:
    """None if this program's own command line takes `line`, else the word it does not know."""
    command: click.Command = cli
    words = line.split()[1:]
    while words:
        word = words.pop(0)
        if word.startswith("-"):
            name, _, given = word.partition("=")
            option = next((p for p in command.params if isinstance(p, click.Option) and name in p.opts), None)
            if option is None:
                return word
            if not option.is_flag and not given:
                words = words[option.nargs :]
        elif isinstance(command, click.Group):
            found = command.get_command(click.Context(command), word)
            if found is None:
                return word
            command = found
            if command.help == "...":  # announced, not built yet
                return None
        elif not any(isinstance(p, click.Argument) for p in command.params):
            return word
    return None


def links(text: str) -> list[str]:
    return [target for target in re.findall(r"\]\(([^)\s]+)\)", prose(text)) if not target.startswith(("http", "#"))]


def sentences(text: str) -> list[str]:
    flat = re.sub(r"\s+", " ", prose(text))
    return re.split(r"(?<=[.;:!?])\s", flat)


def every_page() -> pytest.MarkDecorator:
    return pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])


def test_there_are_pages() -> None:
    assert PAGES, "runbooks/ is empty"


@every_page()
def test_headings_in_order(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    assert re.findall(r"^## (.+)$", text, flags=re.MULTILINE) == HEADINGS
    titles = re.findall(r"^# (.+)$", text, flags=re.MULTILINE)
    assert len(titles) == 1 and text.startswith("# "), "one title, on the first line"
    recipe = load_catalogue().recipes.get(page.stem)
    assert recipe is None or titles == [recipe.title]
    assert 60 <= len(prose(page.read_text()).splitlines()) <= 125


@every_page()
def test_fires_when_markers(page: Path) -> None:
    if page.stem in WITHOUT_RECIPE:
        return
    section = page.read_text().split("## Fires when\n", 1)[1].split("\n## ", 1)[0].strip()
    assert section.startswith(f"<!-- fires-when: generated from diagnostics/{page.stem}.yaml -->")
    assert section.endswith("<!-- /fires-when -->")


@every_page()
def test_sections_are_filled(page: Path) -> None:
    text = page.read_text()
    section = {part.split("\n", 1)[0]: part.split("\n", 1)[1] for part in text.split("\n## ")[1:]}
    steps = re.findall(r"^(\d+)\. ", section["First five minutes"], flags=re.MULTILINE)
    assert steps == [str(n) for n in range(1, len(steps) + 1)] and 3 <= len(steps) <= 8
    assert "inferdoc diagnose --since" in section["First five minutes"]
    assert len(fences(section["Diagnosis"], "promql")) >= 3
    changes = re.findall(r"^\d+\. ", section["Mitigation"], flags=re.MULTILINE)
    assert changes, "mitigation is a numbered list, one change each"
    assert len(re.findall(r"\*Cost:\*", section["Mitigation"])) >= 1
    assert len(re.findall(r"\*Undo:\*", section["Mitigation"])) >= 1
    assert re.search(r"^\| Cause \| .+ \|$", section["Look-alikes"], flags=re.MULTILINE)
    assert len(re.findall(r"^- ", section["References"], flags=re.MULTILINE)) >= 2


@every_page()
def test_metric_names_exist(page: Path) -> None:
    names = {name for query in fences(page.read_text(), "promql") for name in series_in(query)}
    problems = [problem for problem in map(metric_problem, sorted(names)) if problem]
    assert not problems


@every_page()
def test_engine_flags_exist(page: Path) -> None:
    assert engine_flags(page.read_text()) <= VLLM_FLAGS


@every_page()
def test_json_arguments_parse(page: Path) -> None:
    for argument in re.findall(r"--[a-z-]+ '(\{.*?\})'", page.read_text(), flags=re.DOTALL):
        json.loads(argument)


@every_page()
def test_own_commands_exist(page: Path) -> None:
    for command in commands(prose(page.read_text())):
        for part in re.split(r"\s(?:\||&&|;)\s", command):
            if part.split()[:1] == ["inferdoc"]:
                assert command_problem(part) is None, part


@every_page()
def test_shell_blocks_are_shell(page: Path) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("bash is not installed")
    text = prose(page.read_text())
    scripts = fences(text, "bash") + [command for command in commands(text) if not command.startswith("vllm")]
    for script in scripts:
        checked = subprocess.run([bash, "-n"], input=script, text=True, capture_output=True, check=False)
        assert checked.returncode == 0, f"{script}\n{checked.stderr}"


@every_page()
def test_links_resolve(page: Path) -> None:
    for target in links(page.read_text()):
        path, _, fragment = target.partition("#")
        other = page.parent / path if path else page
        assert other.is_file(), f"dead link: {target}"
        if fragment:
            headings = re.findall(r"^#+ (.+)$", other.read_text(), flags=re.MULTILINE)
            slugs = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
            assert fragment in slugs, f"dead fragment: {target}"


@pytest.mark.parametrize("cause", CAUSES, ids=[cause.stem for cause in CAUSES])
def test_look_alikes_of_the_cause_are_on_its_page(cause: Path) -> None:
    table = (ROOT / "runbooks" / f"{cause.stem}.md").read_text().split("## Look-alikes\n", 1)[1]
    named = set(re.findall(r"^\| \[?`?([a-z0-9-]+)", table, flags=re.MULTILINE))
    assert set(yaml.safe_load(cause.read_text()).get("look_alikes", [])) <= named


@every_page()
def test_no_harmful_advice(page: Path) -> None:
    text = prose(page.read_text())
    named = [pattern for pattern in NEVER_NAMED if re.search(pattern, text, flags=re.IGNORECASE)]
    assert not named
    for sentence in sentences(text):
        for pattern in ONLY_FORBIDDEN:
            if re.search(pattern, sentence, flags=re.IGNORECASE):
                assert NEGATION.search(sentence), f"advises {pattern}: {sentence}"


def test_queries_parse(tmp_path: Path) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed (Debian: prometheus)")
    rules = [
        {"record": f"page:{page.stem.replace('-', '_')}_{number}", "expr": query}
        for page in PAGES
        for number, query in enumerate(fences(page.read_text(), "promql"), 1)
    ]
    path = tmp_path / "pages.yaml"
    path.write_text(json.dumps({"groups": [{"name": "pages", "rules": rules}]}))  # JSON is YAML
    checked = subprocess.run([promtool, "check", "rules", str(path)], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert f"SUCCESS: {len(rules)} rules found" in checked.stdout


@pytest.mark.parametrize("page", FAMILY_PAGES, ids=FAMILIES)
def test_the_page_of_a_family_leads_to_its_causes(page: Path) -> None:
    text = page.read_text()
    family = load_catalogue().families[page.stem]
    assert text.startswith(f"# {family.title}\n") and family.says.split(",")[0] in " ".join(text.split())
    causes = {recipe.id for recipe in load_catalogue().recipes.values() if recipe.family == page.stem}
    assert {target.removesuffix(".md") for target in links(text)} == causes and len(causes) >= 3
    assert all((page.parent / target).is_file() for target in links(text))
    assert "{" not in text, "an unfilled number"


def test_a_page_for_every_cause_and_a_cause_for_every_page() -> None:
    if not CAUSES:
        pytest.skip("diagnostics/ holds no cause yet")
    pages, causes = {page.stem for page in PAGES}, {cause.stem for cause in CAUSES}
    assert not causes - pages, "a cause without a page"
    assert not pages - causes - WITHOUT_RECIPE, "a page without a cause"


@pytest.mark.parametrize(
    ("text", "flags"),
    [
        ("Set `--max-num-seqs 64` and `--eplb-config.log_balancedness true`.", {"--max-num-seqs", "--eplb-config"}),
        ("1. `kubectl logs $POD --previous --tail=50 | grep -i error`", set()),
        ("`inferdoc diagnose --since 30m -l pod=a`, then `--watermark 0.02`", {"--watermark"}),
        ("```bash\nkubectl get pods --all-namespaces\n```\n", set()),
        ("`vllm serve --no-such-flag`", {"--no-such-flag"}),
    ],
)
def test_flag_finder(text: str, flags: set[str]) -> None:
    assert engine_flags(text) == flags


@pytest.mark.parametrize(
    ("name", "fine"),
    [
        ("vllm:num_preemptions_total", True),
        ("vllm:num_preemptions", False),
        ("vllm:iteration_tokens_total_count", True),
        ("vllm:iteration_tokens_total", False),
        ("vllm:no_such_series", False),
    ],
)
def test_metric_finder(name: str, fine: bool) -> None:
    assert (metric_problem(name) is None) is fine


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("inferdoc diagnose --since 30m -l pod=a", None),
        ("inferdoc --catalogue ./mine diagnose --since=2h -v", None),
        ("inferdoc diagnose --catalogue ./mine", "--catalogue"),
        ("inferdoc recipes check my-cause.yaml", None),
        ("inferdoc recipes chekc my-cause.yaml", "chekc"),
        ("inferdoc heal", "heal"),
    ],
)
def test_command_finder(line: str, wrong: str | None) -> None:
    assert command_problem(line) == wrong


def test_series_finder() -> None:
    query = (
        'topk(5, sum by (pod, le) (rate(vllm:num_preemptions_total{reason="x y"}[5m]))) / on (pod) up offset 1h # note'
    )
    assert series_in(query) == {"vllm:num_preemptions_total", "up"}


def test_titles_are_short_and_name_one_thing() -> None:
    catalogue = load_catalogue()
    titles = [recipe.title for recipe in catalogue.recipes.values()]
    titles += [state.title for state in catalogue.standing.states.values()]
    assert len(titles) > 100 and len({*titles}) == len(titles)
    assert [title for title in titles if len(title) > 60 or ";" in title or title.endswith(".")] == []

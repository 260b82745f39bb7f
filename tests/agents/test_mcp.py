"""The tools as an agent sees them: through the SDK's own client, over the pipes of the real command."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import closing

import pytest
from mcp import Client, StdioServerParameters, stdio_client

from inferdoc.agents.mcp_server import server
from inferdoc.agents.summaries import (
    MOST_CHARACTERS,
    AuditSummary,
    DiagnosisSummary,
    PersistentIssueSummary,
    RunbookPage,
    fitted,
    size,
)
from inferdoc.agents.tools import FleetPart, Tools
from inferdoc.catalogue.content import content_files
from inferdoc.catalogue.load import load_catalogue
from inferdoc.config import Config
from inferdoc.errors import InferdocError
from inferdoc.simulate.output import write_store
from inferdoc.simulate.scenario_files import adapted, load_scenario
from inferdoc.simulate.scrape import simulate
from inferdoc.source.open import open_source
from inferdoc.store import Store

RUN = "from inferdoc.cli.main import main; main()"
TOOLS = {"diagnose", "around", "signals", "recipes", "runbook", "forecast", "audit"}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    found = tmp_path_factory.mktemp("mcp") / "fleet.db"
    with Store.open(found, "w") as store:
        write_store(simulate(adapted(load_scenario("kv-preemption-thrash"), 3, 5, "30m")), store)
    return found


@pytest.fixture(scope="module")
def tools(path):
    return Tools(Config(), load_catalogue(), lambda: open_source(store=path))


def called(tools, name, **arguments):
    """What a client gets from a tool, in this process."""

    async def call_tool():
        async with Client(server(tools)) as client:
            return await client.call_tool(name, arguments)

    return asyncio.run(call_tool())


def structured(result):
    assert not result.is_error, result.content
    assert json.loads(result.content[0].text) == result.structured_content, "text and structure say the same"
    assert len(result.content[0].text) <= 2 * MOST_CHARACTERS
    return result.structured_content


def test_every_tool_is_there_read_only_and_described(tools):
    async def listed():
        async with Client(server(tools)) as client:
            return (await client.list_tools()).tools

    found = asyncio.run(listed())
    assert {tool.name for tool in found} == TOOLS
    for tool in found:
        assert tool.annotations.read_only_hint and not tool.annotations.destructive_hint
        assert tool.description.startswith('Answers "') and tool.output_schema, (
            "a description is a question of its users"
        )
        assert len(tool.description) <= 600 and all(
            name in tool.description for name in tool.input_schema.get("required", ())
        )
        assert tool.input_schema["additionalProperties"] is False


@pytest.mark.parametrize("name", sorted(TOOLS))
def test_an_argument_that_is_unknown_is_refused_by_name(tools, name):
    """The whole fleet would be judged where an agent asked for one pod."""
    result = called(tools, name, pods="vllm-1", **({"moment": "latest"} if name == "around" else {}))
    text = result.content[0].text
    assert result.is_error and "\n" not in text and f"{name}: unknown argument pods" in text and "allowed: " in text
    assert ("pod" in text.partition("allowed:")[2]) == (name in ("diagnose", "around", "signals", "audit"))


@pytest.mark.parametrize("name", ["diagnose", "around", "audit"])
@pytest.mark.parametrize("part", ["pod", "model", "namespace", "cluster"])
def test_a_part_of_the_fleet_that_is_not_there_is_no_answer_about_the_whole(tools, name, part):
    with closing(tools.opened()) as source:
        middle = str(source.latest_ms() / 1000 - 900)
    more = {"moment": middle} if name == "around" else {"since": "30m", "until": "latest"}
    result = called(tools, name, **{part: "nobody"}, **more)
    assert result.is_error and "nobody" in result.content[0].text


def test_a_value_of_a_wrong_kind_is_one_line(tools):
    result = called(tools, "forecast", hours="many")
    assert result.is_error and "\n" not in result.content[0].text and "hours" in result.content[0].text


def test_a_diagnosis_names_cause_pods_and_steps(tools):
    answer = structured(called(tools, "diagnose", since="30m", until="latest"))
    first = answer["findings"][0]
    assert first["id"] == "kv-preemption-thrash" and first["pods"] and first["onset"] and first["next_steps"]
    assert first["evidence"][0]["role"] == "harm" and first["evidence"][0]["statement"]
    page = structured(called(tools, "runbook", cause=first["runbook"]))
    assert page["markdown"].startswith("# ")


def test_around_and_focus_use_what_is_named(tools):
    whole = structured(called(tools, "diagnose", since="30m", until="latest"))
    moment = whole["findings"][0]["onset"]
    assert structured(called(tools, "around", moment=moment))["findings"][0]["id"] == "kv-preemption-thrash"
    pod = whole["findings"][0]["pods"][0]
    of_pod = {"pod": pod, "model": None}
    assert structured(called(tools, "diagnose", since="30m", until="latest", **of_pod))["findings"]
    assert structured(called(tools, "around", moment=moment, **of_pod))["findings"]


def test_signals_are_the_worst_first(tools):
    order = ("good", "note", "warn", "bad")
    rows = structured(called(tools, "signals"))["signals"]
    ranks = [order.index(row["state"]) for row in rows]
    assert ranks == sorted(ranks, reverse=True) and ranks[0] > 0
    (only,) = {row["signal"] for row in structured(called(tools, "signals", names=["kv_usage"]))["signals"]}
    assert only == "kv_usage"


def test_causes_are_found_by_a_word(tools):
    every = structured(called(tools, "recipes"))
    assert len(every["recipes"]) == len(load_catalogue().recipes) and not every["left_out"]
    found = structured(called(tools, "recipes", word="thrash"))["recipes"]
    assert [line.partition(":")[0] for line in found] == ["kv-preemption-thrash", "lora-thrash"]


def test_an_audit_and_a_forecast_answer(tools):
    assert structured(called(tools, "audit", since="30m", until="latest"))["verdict"]
    (pool,) = structured(called(tools, "forecast", hours=1))["pools"]
    assert pool["abstained"] and pool["peak_high"] >= pool["peak_median"] >= 0, "half an hour is no history"


@pytest.mark.parametrize(
    ("name", "arguments", "printed"),
    [
        ("runbook", {"cause": "kv-preemption-trash"}, 'did you mean "kv-preemption-thrash"?'),
        ("recipes", {"word": "unicorn"}, "no cause holds the word 'unicorn'"),
        ("diagnose", {"role": "dancer", "until": "latest"}, "role 'dancer' is none of prefill, decode, both"),
        ("forecast", {"hours": 1000}, "at most 336"),
        ("diagnose", {"since": "soon"}, "soon"),
    ],
)
def test_what_cannot_be_is_one_line(tools, name, arguments, printed):
    result = called(tools, name, **arguments)
    assert result.is_error and printed in result.content[0].text
    assert "Traceback" not in result.content[0].text and "\n" not in result.content[0].text


@pytest.mark.parametrize("name", sorted(content_files("runbooks", "*.md")))
def test_every_page_fits(tools, name):
    answer = tools.runbook(name.removesuffix(".md"))
    assert size(answer) <= MOST_CHARACTERS and answer.markdown.startswith("# ")


def test_lists_are_cut_and_it_is_printed():
    state = PersistentIssueSummary("id", "t" * 200, "warning", "pool", ["o" * 200], "c" * 200, None, [])
    cut = fitted(AuditSummary("states", "summary", [state] * 50, 0, []), "states")
    assert 0 < len(cut.states) < 50 and size(cut) <= MOST_CHARACTERS
    assert cut.left_out == [f"{50 - len(cut.states)} of 50 states"]
    with pytest.raises(ValueError, match="RunbookPage without its lists"):
        fitted(RunbookPage("id", "x" * MOST_CHARACTERS, []))


def test_a_focus_on_no_role_is_all():
    assert set(FleetPart().as_options().values()) == {None}
    with pytest.raises(InferdocError, match="none of"):
        FleetPart(role="x").as_options()


def test_the_command_serves_over_its_pipes(path):
    """The real command, driven as a client drives it; nothing but the protocol goes to its output."""
    command = StdioServerParameters(command=sys.executable, args=["-c", RUN, "mcp", "--store", str(path)])

    async def call_tool():
        async with Client(stdio_client(command)) as client:
            return await client.call_tool("diagnose", {"since": "30m", "until": "latest"})

    result = asyncio.run(asyncio.wait_for(call_tool(), 120))
    assert structured(result)["findings"][0]["id"] == "kv-preemption-thrash"


def test_the_largest_answer_is_short(tools):
    answer = tools.diagnose("30m", "latest")
    assert isinstance(answer, DiagnosisSummary) and size(answer) <= MOST_CHARACTERS

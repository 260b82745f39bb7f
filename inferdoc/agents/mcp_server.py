"""The tools over the Model Context Protocol, on standard input and output (modelcontextprotocol.io).

All are annotated as read-only: a client may call them without asking its user. An error of ours is one line, and an
answer of a tool that failed, not a fault of the protocol.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

from inferdoc.agents.summaries import (
    AuditSummary,
    DiagnosisSummary,
    ForecastSummary,
    RecipeList,
    RunbookPage,
    SignalList,
)
from inferdoc.agents.tools import FleetPart, Tools
from inferdoc.catalogue.document import nearest
from inferdoc.errors import InferdocError
from inferdoc.escaping import one_line
from inferdoc.extras import needed
from inferdoc.version import __version__

if TYPE_CHECKING:
    from mcp.server import MCPServer
    from mcp.server.mcpserver.tools import Tool

INSTRUCTIONS = """\
Metrics of an LLM-inference fleet (vLLM engines, llm-d router, NVIDIA DCGM). Begin with `diagnose`; for an alert use
`around` with the time at which it began. A finding names a runbook: read it with `runbook` before you advise a change.
`unknown` and `could_not_judge` mean that data are missing, not that all is well. Nothing here changes anything."""


def server(tools: Tools) -> MCPServer[Any]:
    """A server with every tool. Raises InferdocError where the SDK is not installed."""
    with needed("mcp", "inferdoc mcp"):
        from mcp.server import MCPServer

    made = [_tool(title, function) for title, function in _functions(tools).items()]
    return MCPServer("inferdoc", instructions=INSTRUCTIONS, version=__version__, log_level="WARNING", tools=made)


def _tool(title: str, function: Callable[..., Any]) -> Tool:
    """A tool that refuses arguments it does not know: the SDK drops them, and an agent that names a pod by a wrong word
    would take the answer about the whole fleet for one about that pod."""
    from mcp.server.mcpserver.exceptions import ToolError
    from mcp.server.mcpserver.tools import Tool
    from mcp.types import ToolAnnotations
    from pydantic import ValidationError

    class ClosedTool(Tool):
        async def run(self, arguments: dict[str, Any], *args: Any, **named: Any) -> Any:
            allowed = list(self.parameters["properties"])
            unknown = [name for name in arguments if name not in allowed]
            if unknown:
                there = f"allowed: {', '.join(allowed)}" if allowed else "it takes none"
                near = nearest(unknown[0], allowed)
                raise ToolError(one_line(f"{self.name}: unknown argument {', '.join(unknown)}{near}; {there}")[:500])
            try:
                return await super().run(arguments, *args, **named)
            except ToolError as error:
                if not isinstance(error.__cause__, ValidationError):
                    raise
                wrong = ", ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.__cause__.errors())
                raise ToolError(one_line(f"{self.name}: {wrong}")) from error

    notes = ToolAnnotations(title=title, read_only_hint=True, destructive_hint=False, idempotent_hint=True)
    made = ClosedTool.from_function(_in_one_line(function), title=title, annotations=notes)
    made.parameters["additionalProperties"] = False
    return made


def _in_one_line(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with expected errors passed to the client; the SDK hides the text of others."""
    from mcp.server.mcpserver.exceptions import ToolError

    @wraps(function)
    def wrapped(*args: Any, **named: Any) -> Any:
        try:
            return function(*args, **named)
        except InferdocError as error:
            raise ToolError(one_line(str(error))) from error

    return wrapped


def _functions(tools: Tools) -> dict[str, Callable[..., Any]]:
    """By title: what the SDK makes tools of, by their names, parameters and docstrings."""

    def diagnose(
        since: str = "1h",
        until: str = "now",
        pod: str | None = None,
        model: str | None = None,
        namespace: str | None = None,
        cluster: str | None = None,
        tier: str | None = None,
        role: str | None = None,
    ) -> DiagnosisSummary:
        """Answers "what is wrong with model X since 14:00?", "why is it slow?", "why do requests fail?": cause, onset,
        pods, certainty, evidence, next steps and runbook. Use it first. since: how far back from until (90s, 15m, 1h,
        2d); until: RFC 3339, Unix seconds, now, or latest (the newest sample). pod, model, namespace, cluster, tier
        (GPU type), role (prefill, decode, both): report on this part of the fleet only; the rest is still compared."""
        return tools.diagnose(since, until, FleetPart(model, namespace, cluster, tier, role, pod))

    def around(
        moment: str,
        pod: str | None = None,
        model: str | None = None,
        namespace: str | None = None,
        cluster: str | None = None,
    ) -> DiagnosisSummary:
        """Answers "what caused this alert?" and "what happened at 03:12?": the diagnosis of the half hour before and
        after a moment. moment: start of the alert, RFC 3339 or Unix seconds. pod, model, namespace, cluster: report on
        this part of the fleet only; take them from the labels of the alert."""
        return tools.around(moment, FleetPart(model, namespace, cluster, pod=pod))

    def signals(
        until: str = "latest", pod: str | None = None, namespace: str | None = None, names: list[str] | None = None
    ) -> SignalList:
        """Answers "how is the fleet doing now?" and "what is the TTFT of pod X?": current values of latency, queues, KV
        cache, GPUs and router with their target ranges, the worst first. names: only these signals, such as
        ttft_p99."""
        return tools.signals(until, pod, namespace, names or ())

    def recipes(word: str | None = None) -> RecipeList:
        """Answers "which faults can inferdoc identify?": ids and titles of causes. word: only those with it in id or
        title."""
        return tools.recipes(word)

    def runbook(cause: str | None = None) -> RunbookPage:
        """Answers "how do I fix it?": the runbook of a cause with the first five minutes, mitigation and how to verify.
        Read it before you advise a change. cause: the field `runbook` of a finding; without it, the list of
        runbooks."""
        return tools.runbook(cause)

    def forecast(hours: float = 24.0, pool: str | None = None, zone: str = "UTC") -> ForecastSummary:
        """Answers "when is the next peak, and how high?": load of each pool in the next hours, or why there is no
        forecast. hours: at most 336. zone: IANA time zone of the users."""
        return tools.forecast(hours, pool, zone)

    def audit(
        since: str = "24h",
        until: str = "now",
        pod: str | None = None,
        model: str | None = None,
        namespace: str | None = None,
        cluster: str | None = None,
    ) -> AuditSummary:
        """Answers "where do we waste GPUs?" and "which settings are wrong?": persistent issues that no alert shows,
        highest cost first. pod, model, namespace, cluster: report on this part of the fleet only."""
        return tools.audit(since, until, FleetPart(model, namespace, cluster, pod=pod))

    return {
        "Find what is wrong": diagnose,
        "Explain an alert or a moment": around,
        "Show current metrics": signals,
        "List known causes": recipes,
        "Read a runbook": runbook,
        "Forecast load": forecast,
        "Find waste and wrong settings": audit,
    }

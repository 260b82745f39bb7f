"""One Slack thread and one Grafana annotation per incident, which later runs update, over HTTP."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from inferdoc.config_sections import OutputSection
from inferdoc.serve.outputs.sending import PostError
from inferdoc.serve.outputs.slack import post
from tests.serve.running import GivenRunner, firing, running, webhook

TOKEN = "xoxb-1"


class Api:
    """The calls of Slack's Web API and of Grafana's annotations API that inferdoc uses, with their state.

    messages: by ts; annotations: by id; fail: the next calls of these methods return an error, by method.
    """

    def __init__(self) -> None:
        self.messages: dict[str, dict[str, Any]] = {}
        self.annotations: dict[int, dict[str, Any]] = {}
        self.fail: dict[str, list[str]] = {}
        self.calls: list[str] = []
        api = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                api.calls.append(f"{self.command} {self.path}")
                known = self.headers["Authorization"] == f"Bearer {TOKEN}"
                status, result = api.respond(self.command, self.path, body) if known else (401, {})
                text = json.dumps(result).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_POST = do_PATCH = answer  # noqa: N815

            def log_message(self, *args: Any) -> None:
                """Nobody reads it."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def respond(self, command: str, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if path.startswith("/api/annotations"):
            return self._annotation(command, path, body)
        method = path.removeprefix("/slack/")
        if self.fail.get(method):
            return 200, {"ok": False, "error": self.fail[method].pop(0)}
        if method == "chat.postMessage":
            if body.get("thread_ts", "1") not in (*self.messages, "1"):
                return 200, {"ok": False, "error": "thread_not_found"}
            ts = f"{len(self.messages) + 1}.0"
            self.messages[ts] = body
            return 200, {"ok": True, "channel": "C1", "ts": ts, "message": body}
        if body["ts"] not in self.messages:
            return 200, {"ok": False, "error": "message_not_found"}
        assert body["channel"] == "C1", "updates need the id of the channel"
        self.messages[body["ts"]] |= {"text": body["text"], "blocks": body["blocks"]}
        return 200, {"ok": True, "channel": "C1", "ts": body["ts"]}

    def _annotation(self, command: str, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if command == "POST":
            number = len(self.calls) + 40
            self.annotations[number] = body
            return 200, {"message": "Annotation added", "id": number}
        number = int(path.rsplit("/", 1)[1])
        if number not in self.annotations:
            return 404, {"message": "Could not find annotation to update"}
        self.annotations[number] |= body
        return 200, {"message": "Annotation patched"}

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def api() -> Iterator[Api]:
    found = Api()
    yield found
    found.stop()


@pytest.fixture
def outputs(api, tmp_path) -> tuple[OutputSection, ...]:
    token = tmp_path / "token"
    token.write_text(TOKEN)
    return (
        OutputSection(kind="slack", channel="#llm", url=f"{api.address}/slack", token_file=str(token)),
        OutputSection(kind="grafana", url=api.address, token_file=str(token)),
    )


def test_an_incident_is_one_thread_and_one_annotation_over_a_restart(tmp_path, sick, api, outputs):
    with running(tmp_path, GivenRunner({}, {}, answer=sick), outputs) as service:
        service.post(webhook(firing()))
        service.until(lambda: api.messages and api.annotations)
    with running(tmp_path, GivenRunner({}, {}, answer=sick), outputs) as service:
        service.post(webhook(firing(ended=True)))
        service.until(lambda: len(api.messages) == 2 and "resolved" in next(iter(api.annotations.values()))["tags"])
    first, reply = api.messages.values()
    assert first["channel"] == "#llm" and "thread_ts" not in first
    assert reply["thread_ts"] == "1.0" and reply["channel"] == "C1"
    assert "Resolved: " in first["text"] and "Resolved: " in reply["text"]
    (annotation,) = api.annotations.values()
    assert annotation["timeEnd"] > annotation["time"] and "Resolved: " in annotation["text"]


def test_what_was_deleted_there_is_created_again(tmp_path, sick, api, outputs):
    with running(tmp_path, GivenRunner({}, {}, answer=sick), outputs) as service:
        service.post(webhook(firing()))
        service.until(lambda: api.messages and api.annotations)
        api.messages.clear()
        api.annotations.clear()
        service.post(webhook(firing(ended=True)))
        service.until(lambda: api.messages and api.annotations)
    (message,) = api.messages.values()
    assert "thread_ts" not in message and message["channel"] == "#llm" and len(api.annotations) == 1


def test_a_reply_that_fails_is_sent_again_without_a_second_thread(tmp_path, sick, api, outputs):
    with running(tmp_path, GivenRunner({}, {}, answer=sick), outputs[:1]) as service:
        service.post(webhook(firing()))
        service.until(lambda: api.messages)
        api.fail["chat.postMessage"] = ["ratelimited"]
        service.post(webhook(firing(ended=True)))
        service.until(lambda: len(api.messages) == 2)
    assert [message.get("thread_ts") for message in api.messages.values()] == [None, "1.0"]


@pytest.mark.parametrize(("error", "final"), [("channel_not_found", False), ("invalid_blocks", True)])
def test_an_error_of_slack_is_one_line_and_final_where_a_retry_repeats_it(firing_note, api, outputs, error, final):
    api.fail["chat.postMessage"] = [error]
    with pytest.raises(PostError, match=f"^chat.postMessage: {error}$") as refused:
        post(firing_note, outputs[0], None)
    assert refused.value.final is final


def test_a_wrong_token_is_not_in_the_error(firing_note, api, outputs, tmp_path):
    (tmp_path / "token").write_text("xoxb-wrong")
    with pytest.raises(PostError, match="HTTP 401") as refused:
        post(firing_note, outputs[0], None)
    assert "xoxb" not in str(refused.value)

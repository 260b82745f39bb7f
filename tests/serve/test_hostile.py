"""Anybody may call: what is asked of callers, what is refused, and what comes out of text that is up to no good."""

from __future__ import annotations

import base64
import json
import socket
import threading
import time
from pathlib import Path

import pytest
import requests
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from inferdoc.config_sections import OutputSection, ServeSection
from inferdoc.errors import ConfigError
from inferdoc.serve.gate import LARGEST_BODY, callers_of
from tests.serve.running import GivenRunner, Hook, firing, running, webhook

TOKEN = "s3cret-token-of-a-test"
EVIL = (
    '<script>alert(1)</script>"><img src=x onerror=alert(2)>\u202e\x1b]8;;http://evil\x07*_`[x](javascript:1)<!channel>'
)


@pytest.fixture(scope="module")
def service(tmp_path_factory, sick):
    with running(tmp_path_factory.mktemp("serve"), GivenRunner({}, {}, answer=sick)) as opened:
        yield opened


@pytest.mark.parametrize("listen", ["0.0.0.0:9109", ":9109", "192.0.2.7:9109", "[::]:9109", "example.org:9109"])
def test_nobody_else_is_served_without_credentials(listen, tmp_path):
    host = listen.rpartition(":")[0].strip("[]") or "0.0.0.0"
    with pytest.raises(ConfigError, match="bearer_token_file") as refused:
        callers_of(ServeSection(listen=listen), host)
    assert "\n" not in str(refused.value)
    token = tmp_path / "token"
    token.write_text(TOKEN)
    assert callers_of(ServeSection(listen=listen, bearer_token_file=str(token)), host).needed


@pytest.mark.parametrize("content", ["", "two\nlines", None])
def test_a_file_without_a_secret_is_refused_at_the_start(tmp_path, content):
    token = tmp_path / "token"
    if content is not None:
        token.write_text(content)
    with pytest.raises(ConfigError, match="bearer_token_file") as refused:
        callers_of(ServeSection(bearer_token_file=str(token)), "127.0.0.1")
    assert "two" not in str(refused.value)


def test_everything_but_health_requests_who_calls(tmp_path, sick):
    token, password = tmp_path / "token", tmp_path / "password"
    token.write_text(TOKEN + "\n")
    password.write_text("pass word")
    section = {"bearer_token_file": str(token), "username": "oncall", "password_file": str(password)}
    with running(tmp_path, GivenRunner({}, {}, answer=sick), **section) as service:
        paths = ("/", "/incidents", "/health", "/metrics", "/api/v1/incidents", "/api/v1/openapi.json", "/nope")
        right = (f"Bearer {TOKEN}", "Basic " + base64.b64encode(b"oncall:pass word").decode())
        wrong = (
            "",
            "Bearer x",
            "Basic x",
            "Basic " + base64.b64encode(b"oncall:no").decode(),
            f"Basic {TOKEN}",
            "Bearer ",
        )
        for path in paths:
            for header in wrong:
                answer = service.get(path, headers={"Authorization": header})
                assert answer.status_code == 401 and "www-authenticate" in answer.headers, (path, header)
            for header in right:
                assert service.get(path, headers={"Authorization": header}).status_code in (200, 404)
        assert service.post(webhook(firing())).status_code == 401
        assert service.get("/healthz").status_code == 200
        assert service.get("/runbooks/engine-down").status_code == 200, "a link in an alert opens it"
        token.write_text("renewed")
        assert service.get("/", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 401
        assert service.get("/", headers={"Authorization": "Bearer renewed"}).status_code == 200
        assert TOKEN not in str(service.logged)


def test_a_page_of_somebody_else_cannot_call_by_another_name(service):
    answer = service.get("/incidents", headers={"Host": "evil.example:80"})
    assert answer.status_code == 421 and service.get("/incidents", headers={"Host": "localhost:1"}).status_code == 200
    text = requests.post(f"{service.address}/alertmanager", data=json.dumps(webhook()), timeout=5)
    assert text.status_code == 415, "what a form of another page can send without asking is not taken"


def test_hostile_text_is_text_on_every_page_and_in_every_output(tmp_path, sick):
    hook, folder = Hook(), tmp_path / "reports"
    outputs = (
        OutputSection(kind="slack", url=hook.address),
        OutputSection(kind="teams", url=hook.address + "/teams"),
        OutputSection(kind="file", folder=str(folder)),
    )
    with running(tmp_path, GivenRunner({}, {}, answer=sick), outputs) as service:
        alert = firing(EVIL, mark="../../etc/passwd", pod=EVIL, namespace=EVIL, model_name=EVIL)
        alert["generatorURL"] = "javascript:alert(3)"
        alert["annotations"] = {"summary": EVIL, "runbook_url": "javascript:alert(4)"}
        service.post(webhook(alert))
        service.until(lambda: len(hook.bodies) == 2 and list(folder.glob("*.md")))
        (incident,) = service.get("/api/v1/incidents").json()["incidents"]
        for path in ("/", "/incidents", f"/incidents/{incident['id']}", "/health"):
            page = service.get(path).text
            assert "<script>alert" not in page and "<img src=x" not in page and 'href="javascript' not in page, path
            assert "\u202e" not in page and "\x1b" not in page, path
        slack = next(body for path, _, body in hook.received if path == "/")
        assert "<!channel>" not in json.dumps(slack) and "<script>" not in str(slack["blocks"][1:])
        assert "javascript:" not in str([b for b in slack["blocks"] if b["type"] == "context"])
        teams = next(body for path, _, body in hook.received if path == "/teams")
        assert "javascript:" not in str(teams["attachments"][0]["content"]["actions"])
        (report,) = folder.glob("*.md")
        shown = MarkdownIt("commonmark").render(report.read_text())
        assert "<script>alert" not in shown and "<img" not in shown and 'href="javascript' not in shown
        assert all(line.isprintable() for line in service.logged)
    hook.stop()


def test_headers_keep_a_browser_from_running_anything(service):
    headers = service.get("/").headers
    assert (
        "default-src 'none'" in headers["content-security-policy"]
        and "script" not in headers["content-security-policy"]
    )
    assert headers["x-content-type-options"] == "nosniff" and headers["x-frame-options"] == "DENY"
    assert "server" not in headers


@pytest.mark.parametrize(
    "path",
    [
        "/incidents/../../../etc/passwd", "/incidents/%2e%2e%2f%2e%2e%2fetc%2fpasswd", "/runbooks/..%2f..%2fREADME",
        "/runbooks/../engine-down", "/incidents/%00", "/runbooks/%00", "/incidents/" + "a" * 5000, "/runbooks/%ff%fe",
        "/incidents/%0d%0aSet-Cookie:x=1", "//evil.example/", "/runbooks/.", "/static/x",
    ],
)  # fmt: skip
def test_paths_lead_nowhere_else(service, path):
    with socket.create_connection(("127.0.0.1", int(service.address.rpartition(":")[2])), 5) as raw:
        raw.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        answer = b"".join(iter(lambda: raw.recv(65536), b"")).decode("utf-8", "replace")
    head = answer.partition("\r\n\r\n")[0]
    assert head.split()[1] in ("400", "404", "431") and "root:" not in answer and "set-cookie" not in head.lower()
    assert "Traceback" not in answer


@pytest.mark.parametrize(
    "body",
    [
        b"", b"null", b"[]", b"{}", b'{"version":"4"}', b'{"version":"4","alerts":null}', b"\xff\xfe", b"[" * 100_000,
        b'{"version":"3","alerts":[]}', b'{"version":"4","alerts":[{"status":"burning","labels":{},"startsAt":"x"}]}',
        b'{"version":"4","alerts":[{"status":"firing","labels":{"a":1},"startsAt":"2026-01-01T00:00:00Z"}]}',
        b'{"version":"4","alerts":[{"status":"firing","labels":[],"startsAt":"9999999-01-01T00:00:00Z"}]}',
    ],
)  # fmt: skip
def test_what_is_no_webhook_is_refused_in_one_line(service, body):
    answer = requests.post(
        f"{service.address}/alertmanager", data=body, headers={"Content-Type": "application/json"}, timeout=10
    )
    assert answer.status_code == 400 and "\n" not in answer.json()["error"] and "Traceback" not in answer.text


texts = st.text(max_size=40)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    body=st.one_of(
        st.binary(max_size=200),
        st.recursive(
            st.none() | st.booleans() | st.floats() | st.integers() | texts,
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
            max_leaves=8,
        ),
        st.fixed_dictionaries(
            {
                "version": st.just("4"),
                "alerts": st.lists(
                    st.fixed_dictionaries(
                        {
                            "status": st.sampled_from(["firing", "resolved"]),
                            "labels": st.dictionaries(texts, texts, max_size=4),
                            "annotations": st.dictionaries(texts, texts, max_size=3),
                            "startsAt": st.datetimes().map(lambda moment: moment.isoformat() + "Z"),
                            "endsAt": st.datetimes().map(lambda moment: moment.isoformat() + "Z"),
                            "generatorURL": texts,
                            "fingerprint": texts,
                        }
                    ),
                    max_size=3,
                ),
            }
        ),
    )
)
def test_no_body_brings_out_a_fault(service, body):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = requests.post(
        f"{service.address}/alertmanager", data=data, headers={"Content-Type": "application/json"}, timeout=10
    )
    assert answer.status_code in (200, 400, 503), answer.text
    assert "Traceback" not in answer.text and "fault" not in answer.text


def test_large_bodies_are_refused_before_they_arrive(service):
    port = int(service.address.rpartition(":")[2])
    head = "POST /alertmanager HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    with socket.create_connection(("127.0.0.1", port), 5) as raw:
        raw.sendall(f"{head}Content-Length: {100 << 20}\r\n\r\n".encode())
        assert b" 413 " in raw.recv(4096)
    with socket.create_connection(("127.0.0.1", port), 5) as raw:
        raw.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
        sent, part = 0, b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
        answer = b""
        while sent < 100 << 20 and not answer:
            try:
                raw.sendall(part)
            except OSError:
                break
            sent += 0x10000
            if sent > LARGEST_BODY:
                raw.settimeout(0.5)
                try:
                    answer = raw.recv(4096)
                except TimeoutError:
                    continue
                except OSError:
                    break
        assert sent < 100 << 20 and (b" 413 " in answer or sent > LARGEST_BODY)
    assert service.get("/healthz").status_code == 200


def test_slow_callers_are_let_go_and_hold_up_nobody(service, monkeypatch):
    import inferdoc.serve.command as serving
    import inferdoc.serve.gate as gate

    monkeypatch.setattr(gate, "BODY_SECONDS", 0.5)
    monkeypatch.setattr(serving, "HEADER_SECONDS", 0.5)
    port = int(service.address.rpartition(":")[2])
    head = (
        b"POST /alertmanager HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n"
    )
    with (
        socket.create_connection(("127.0.0.1", port), 5) as body,
        socket.create_connection(("127.0.0.1", port), 5) as top,
    ):
        body.sendall(head + b"\r\n{")
        top.sendall(head)
        assert service.get("/healthz").status_code == 200
        body.settimeout(10)
        assert b" 408 " in body.recv(4096)
        top.settimeout(10)
        assert top.recv(4096) == b"", "a head that does not end is let go"


def test_many_webhooks_at_once_are_each_answered_merged_or_refused(tmp_path, sick):
    slow = GivenRunner({}, {}, answer=sick, seconds=0.2)
    outcomes: list[int] = []
    with running(tmp_path, slow, queue=5) as service:

        def send(worker: int) -> None:
            with requests.Session() as session:
                for number in range(60):
                    alert = firing(mark=f"{worker}-{number}", model_name=f"m{number % 20}")
                    answer = session.post(f"{service.address}/alertmanager", json=webhook(alert), timeout=30)
                    outcomes.append(answer.status_code)

        threads = [threading.Thread(target=send, args=(worker,)) for worker in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(outcomes) == 240 and set(outcomes) <= {200, 503} and 503 in outcomes
        assert len(service.record.incidents()) <= 20


def test_a_redirect_is_not_followed_and_no_secret_is_reported(tmp_path, sick):
    elsewhere, secret = Hook(), "/services/T0/s3cret"
    hook = Hook(307, location=elsewhere.address + "/stolen")
    url = tmp_path / "url"
    url.write_text(hook.address + secret)
    outputs = (OutputSection(kind="slack", url_file=str(url)),)
    with running(tmp_path, GivenRunner({}, {}, answer=sick), outputs) as service:
        service.post(webhook(firing()))
        service.until(lambda: any("redirect" in line for line in service.logged))
        shown = service.get("/health").text + service.get("/metrics").text + str(service.logged)
    assert not elsewhere.received and secret not in shown
    assert secret.encode() not in b"".join(path.read_bytes() for path in Path(tmp_path).glob("incidents.db*"))
    elsewhere.stop()
    hook.stop()


def test_an_alert_from_a_wrong_clock_counts_from_now(tmp_path, sick):
    runner = GivenRunner({}, {}, answer=sick)
    with running(tmp_path, runner) as service:
        for number, starts in enumerate(("0001-01-01T00:00:00Z", "1999-12-31T00:00:00Z", "2999-01-01T00:00:00Z")):
            service.post(webhook(firing(mark=str(number), starts=starts, model_name=f"m{number}")))
        service.until(lambda: len(runner.taken) == 3)
        assert all(abs(incident.opened - time.time()) < 60 for incident in service.record.incidents())

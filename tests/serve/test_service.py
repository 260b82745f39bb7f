"""Alert in, diagnosis out: what is answered, posted, kept and shown."""

from __future__ import annotations

import re
import threading
import time

import jsonschema
import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.routing import Route

from inferdoc.config_sections import OutputSection
from inferdoc.incidents import runs
from inferdoc.incidents.intake import RuleTimes
from tests.serve.running import GivenRunner, Hook, firing, running, webhook


@pytest.fixture
def hook():
    opened = Hook()
    yield opened
    opened.stop()


def slack(hook: Hook) -> tuple[OutputSection, ...]:
    return (OutputSection(kind="slack", url=f"{hook.address}/services/T0"),)


def test_an_alert_is_answered_at_once_and_reported_to_the_output(tmp_path, sick, hook):
    runner = GivenRunner({"store": "x"}, {"TtftHigh": RuleTimes(120, 300)}, answer=sick, page="<p>the report</p>")
    with running(tmp_path, runner, slack(hook)) as service:
        assert service.post(webhook(firing(pod="vllm-1"))).json() == {"result": "accepted"}
        (message,) = service.until(lambda: hook.bodies)
        (incident,) = service.get("/api/v1/incidents").json()["incidents"]
        finding = sick.findings[0]
        assert finding.title in message["text"] and incident["id"] in str(message["blocks"][-1])
        assert finding.id in str(message["blocks"]) and finding.scope.pods[0] in str(message["blocks"])
        assert "https://runbooks.example.org/x" in str(message["blocks"])
        (request,) = runner.taken
        assert request.place.pod == "vllm-1" and request.until - request.from_ == pytest.approx(60 + 420 + 900, abs=5)

        one = service.get(f"/api/v1/incidents/{incident['id']}").json()
        assert one["story"]["cause"] == finding.id and one["looks"][0]["state"] == "done"
        document = service.get(f"/api/v1/incidents/{incident['id']}/diagnosis").json()
        assert document["findings"][0]["id"] == finding.id
        assert service.get(f"/incidents/{incident['id']}/report").text == "<p>the report</p>"
        for path in ("/", "/incidents", f"/incidents/{incident['id']}", "/health", f"/runbooks/{finding.runbook}"):
            answer = service.get(path)
            assert answer.status_code == 200 and "<main>" in answer.text, path
        beside = re.findall(r'href="([a-z0-9-]+(?:\.md)?)"', service.get("/runbooks/slo-outage").text)
        assert len(beside) >= 4
        for name in beside:
            assert service.get(f"/runbooks/{name}").status_code == 200, f"a link of a runbook page: {name}"
        assert service.get("/healthz").text == "ok\n" and service.get("/readyz").text == "ready\n"


def test_the_end_prints_how_long_and_what_changed(tmp_path, sick, hook):
    with running(tmp_path, GivenRunner({}, {}, answer=sick), slack(hook)) as service:
        service.post(webhook(firing()))
        service.until(lambda: len(hook.bodies) == 1)
        service.post(webhook(firing(ended=True)))
        service.until(lambda: len(hook.bodies) == 2)
        assert hook.bodies[1]["text"].startswith("🟢 Resolved: ") and "rollout of vllm" in str(hook.bodies[1])


@pytest.mark.parametrize("later", [0, 7])
def test_a_pair_of_alertmanagers_opens_one_incident_and_reports_it_once(tmp_path, sick, hook, later):
    """Both send every message, the second one as its own Prometheus saw it, seconds later."""
    began = time.time() - 60
    models = [f"m{number}" for number in range(10)]

    def send(service, one: int, *, ended: bool) -> None:
        starts = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(began + one * later))
        for model in models if one else reversed(models):
            alert = firing(mark=model, starts=starts, ended=ended, model_name=model)
            assert service.post(webhook(alert)).status_code == 200

    with running(tmp_path, GivenRunner({}, {}, answer=sick, seconds=0.05), slack(hook)) as service:
        for ended in (False, True):
            pair = [threading.Thread(target=send, args=(service, one), kwargs={"ended": ended}) for one in (0, 1)]
            for each in pair:
                each.start()
            for each in pair:
                each.join()
            service.until(lambda ended=ended: len(hook.bodies) >= len(models) * (1 + ended))
            service.until(lambda: not runs.pending(service.record))
            service.until(lambda: not runs.counts(service.record).get("running"))
        assert len(service.record.incidents()) == len(models)
        assert len(service.record.incidents(only_open=True)) == 0
    ends = [body["text"].startswith("🟢 Resolved: ") for body in hook.bodies]
    assert ends.count(False) == ends.count(True) == len(models)


def test_a_failed_run_is_reported_too(tmp_path, hook):
    with running(tmp_path, GivenRunner({}, {}, answer="the server does not answer"), slack(hook)) as service:
        service.post(webhook(firing()))
        service.until(lambda: hook.bodies)
        assert "Diagnosis failed: the server does not answer" in hook.bodies[0]["text"]


def test_a_repeat_reports_again_and_a_message_in_between_does_not(tmp_path, sick, hook):
    runner = GivenRunner({}, {}, answer=sick)
    with running(tmp_path, runner, slack(hook)) as service:
        started = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 3600))
        service.post(webhook(firing(starts=started)))
        service.until(lambda: len(hook.bodies) == 1)
        assert service.post(webhook(firing(starts=started))).json() == {"result": "merged"}
        service.service.clock = service.service.dispatcher.clock = lambda: time.time() + 4 * 3600
        # The look that follows a first cause is due by then too; whichever comes first, the repeat is told.
        assert service.post(webhook(firing(starts=started))).status_code == 200
        service.until(lambda: any("Still: " in body["text"] for body in hook.bodies))
        assert runner.taken[-1].from_ == pytest.approx(runner.taken[0].from_, abs=2), "from before the first alert"
        assert len(hook.bodies) == 2 and len(service.get("/api/v1/incidents").json()["incidents"]) == 1


def test_the_watchdog_is_no_incident_but_is_heard(tmp_path, sick):
    with running(tmp_path, GivenRunner({}, {}, answer=sick)) as service:
        assert service.post(webhook(firing("InferdocWatchdog"))).json() == {"result": "ignored"}
        families = {f.name: f for f in text_string_to_metric_families(service.get("/metrics").text)}
        assert families["inferdoc_watchdog_timestamp_seconds"].samples[0].value == pytest.approx(time.time(), abs=60)
        assert not service.get("/api/v1/incidents").json()["incidents"]


def test_the_metrics_count_what_happened(tmp_path, sick, hook):
    with running(tmp_path, GivenRunner({}, {}, answer=sick), slack(hook), every=60.0) as service:
        service.post(webhook(firing()))
        service.post({"version": "4"})
        service.until(lambda: hook.bodies)
        service.until(lambda: "inferdoc_verdict{" in service.get("/metrics").text)
        samples = {
            (s.name, *sorted(s.labels.values())): s.value
            for family in text_string_to_metric_families(service.get("/metrics").text)
            for s in family.samples
        }
        assert samples["inferdoc_webhook_messages_total", "accepted"] == 1
        assert samples["inferdoc_webhook_messages_total", "invalid"] == 1
        assert samples["inferdoc_incidents_open",] == 1 and samples["inferdoc_looks_total", "ok"] == 1
        assert samples["inferdoc_verdict", sick.verdict] == 1


def test_the_api_is_as_documented(tmp_path, sick, hook):
    with running(tmp_path, GivenRunner({}, {}, answer=sick, page="<p>"), slack(hook), every=60.0) as service:
        service.post(webhook(firing()))
        service.until(lambda: hook.bodies)
        document = service.get("/api/v1/openapi.json").json()
        (incident,) = service.get("/api/v1/incidents").json()["incidents"]
        served = {route.path for route in service.service.application().routes if isinstance(route, Route)} - {
            "/api/v1/openapi.json"
        }
        assert set(document["paths"]) == served
        accepted = document["paths"]["/alertmanager"]["post"]
        wrong = service.post({})
        for body, schema in (
            (webhook(firing()), accepted["requestBody"]["content"]),
            (service.post(webhook(firing())).json(), accepted["responses"]["200"]["content"]),
            (wrong.json(), accepted["responses"][str(wrong.status_code)]["content"]),
        ):
            jsonschema.validate(body, {**schema["application/json"]["schema"], "components": document["components"]})
        for path, methods in document["paths"].items():
            if "get" not in methods:
                continue
            name = "engine-hung" if path.startswith("/runbooks") else incident["id"]
            answer = service.get(path.replace("{id}", name))
            ((media, content),) = methods["get"]["responses"]["200"]["content"].items()
            assert answer.status_code == 200 and answer.headers["Content-Type"].startswith(media), path
            if media == "application/json":
                jsonschema.validate(answer.json(), {**content["schema"], "components": document["components"]})
            if "{id}" in path:
                assert service.get(path.replace("{id}", "nope")).status_code == 404
                assert "404" in methods["get"]["responses"]


def test_tenants_are_those_that_are_configured(tmp_path, sick):
    runner = GivenRunner({}, {}, answer=sick)
    with running(tmp_path, runner, tenants=("team-a",)) as service:
        assert service.post(webhook(firing()), headers={"X-Scope-OrgID": "team-a"}).status_code == 200
        service.until(lambda: runner.taken)
        assert runner.taken[0].headers == {"X-Scope-OrgID": "team-a"}
        for refused in ("team-b", "team-a\tx", "../team-a"):
            answer = service.post(webhook(firing()), path="/alertmanager?tenant=" + refused)
            assert answer.status_code == 403, refused


def test_what_waits_when_it_ends_is_diagnosed_after_the_next_start(tmp_path, sick, hook):
    slow = GivenRunner({}, {}, answer=sick, seconds=0.5)
    with running(tmp_path, slow, slack(hook)) as service:
        for number in range(3):
            service.post(webhook(firing(mark=f"f{number}", model_name=f"m{number}")))
        service.until(lambda: slow.taken)
    finished = len(hook.bodies)
    assert finished >= 1, "what was under way is finished, and told"
    with running(tmp_path, GivenRunner({}, {}, answer=sick), slack(hook)) as service:
        service.until(lambda: len(hook.bodies) == 3)


def test_an_output_that_is_down_holds_up_no_other(tmp_path, sick, hook):
    outputs = (
        OutputSection(kind="webhook", name="dead", url="http://127.0.0.1:9/none"),
        *slack(hook),
        OutputSection(kind="file", folder=str(tmp_path / "reports"), format="json"),
    )
    with running(tmp_path, GivenRunner({}, {}, answer=sick), outputs) as service:
        service.post(webhook(firing()))
        service.until(lambda: hook.bodies and list((tmp_path / "reports").glob("*.json")))
        service.until(lambda: any("output dead: connection failed" in line for line in service.logged))
        (report,) = (tmp_path / "reports").glob("*.json")
        assert msgspec.json.decode(report.read_bytes())["diagnosis"]["findings"][0]["id"] == sick.findings[0].id


def test_what_other_commands_left_is_on_the_page_and_rubbish_is_not(tmp_path, sick):
    metrics = tmp_path / "metrics"
    metrics.mkdir()
    (metrics / "a.prom").write_text(
        '# TYPE inferdoc_prewarm_floor_replicas gauge\ninferdoc_prewarm_floor_replicas{pool="x"} 11\n'
    )
    (metrics / "b.prom").write_text("inferdoc_prewarm_floor_replicas 3\ninferdoc_incidents_open 99\nother 1\n")
    (metrics / "c.prom").write_text("<html>{{{")
    with running(tmp_path, GivenRunner({}, {}, answer=sick), textfiles=(f"{metrics}/*.prom",)) as service:
        text = service.get("/metrics").text
        assert 'inferdoc_prewarm_floor_replicas{pool="x"} 11.0' in text and "other 1.0" in text
        assert "floor_replicas 3" not in text and "99" not in text
        service.get("/metrics")
        assert len([line for line in service.logged if "c.prom" in line]) == 1
        list(text_string_to_metric_families(text))

"""What each kind of output sends, in the form that the other side documents."""

from __future__ import annotations

import json
import ssl
import subprocess
from dataclasses import replace

import msgspec
import pytest

from inferdoc.config_sections import OutputSection
from inferdoc.errors import ConfigError
from inferdoc.incidents.model import DiagnosisRun
from inferdoc.serve.note import Note, note
from inferdoc.serve.outputs import grafana, pagerduty, slack, teams, webhook
from inferdoc.serve.outputs.file import write
from inferdoc.serve.outputs.sending import Outgoing, PostError, send
from tests.certificate import self_signed
from tests.incidents.alerts import NOW
from tests.source.fake_server import Answer, serving


@pytest.fixture
def over_note(incident, sick) -> Note:
    over = msgspec.structs.replace(incident, resolved=NOW + 720, ended_by="rollout of vllm: 2 pods", reopened=2)
    return note(over, DiagnosisRun(2, incident.id, "resolved", "done", NOW, NOW), sick, incident, None)


def test_a_note_prints_cause_pods_onset_next_and_where_to_read_on(firing_note, sick):
    finding = sick.findings[0]
    facts = dict(firing_note.facts)
    assert firing_note.title.startswith(finding.title) and firing_note.colour == finding.severity
    assert facts["cause"] == finding.id and facts["pods"].startswith(finding.scope.pods[0])
    assert facts["since"].startswith(finding.onset[:16]) and finding.certainty in facts["sure"]
    assert firing_note.steps[0] == finding.next_steps[0].do
    assert dict(firing_note.links) == {
        "Incident": f"https://inferdoc.example.org/incidents/{firing_note.incident}",
        "Runbook": f"https://inferdoc.example.org/runbooks/{finding.runbook}",
    }


def test_the_first_line_of_evidence_is_what_users_feel(firing_note, sick):
    harm = [piece.statement for piece in sick.findings[0].evidence if piece.role == "harm"]
    symptoms = [piece.statement for piece in sick.findings[0].evidence if piece.role == "symptom"]
    assert firing_note.evidence[0].startswith(harm[0]) and firing_note.evidence[1].startswith(symptoms[0])


def test_the_end_reports_how_long_what_ended_it_and_when_it_was_before(over_note):
    facts = dict(over_note.facts)
    assert over_note.state == "resolved" and over_note.title.startswith("Resolved: ")
    assert facts["lasted"] == "12 min" and facts["before it ended"] == "rollout of vllm: 2 pods"
    assert facts["came back"] == "2 times" and facts["seen before"].startswith("2027-01-15T08:00")


def test_slack_keeps_within_its_limits(firing_note):
    message = slack.payload(replace(firing_note, title="x" * 5000, evidence=("y" * 9000,)))
    assert len(message["blocks"]) <= 50 and len(message["blocks"][0]["text"]["text"]) <= 150
    assert all(len(block["text"]["text"]) <= 3000 for block in message["blocks"] if block["type"] == "section")


def test_slack_links_only_what_we_link(firing_note):
    """Addresses, channels and underscores in the words of others stay text."""
    evil = "_seen_ on https://evil.example, _x and vllm_queue_time"
    message = slack.payload(
        replace(firing_note, title=evil, facts=(("cause", evil),), evidence=(evil,), steps=(evil,), commands=("x",))
    )
    texts = [block["text"] for block in message["blocks"] if "text" in block]
    texts += [element for block in message["blocks"] for element in block.get("elements", ())]
    markup = [text for text in texts if text["type"] == "mrkdwn"]
    assert len(markup) == 5 and all(text["verbatim"] for text in markup)
    for text in (message["text"], *(text["text"] for text in markup[:3])):
        assert "ˍseenˍ" in text and " ˍx" in text and "vllm_queue_time" in text


def test_teams_gets_an_adaptive_card(firing_note):
    message = teams.payload(firing_note)
    card = message["attachments"][0]["content"]
    assert message["type"] == "message" and card["type"] == "AdaptiveCard" and card["version"] == "1.4"
    assert {fact["title"] for fact in card["body"][1]["facts"]} >= {"cause", "pods", "since"}
    assert [action["title"] for action in card["actions"]] == ["Incident", "Runbook"]
    assert len(json.dumps(message)) < 28_000


def test_pagerduty_has_one_alert_for_an_incident(firing_note, over_note, tmp_path):
    key = tmp_path / "key"
    key.write_text("r0utingkey")
    section = OutputSection(kind="pagerduty", token_file=str(key))
    sent = pagerduty.outgoing(firing_note, section)
    event, end = json.loads(sent.body), pagerduty.payload(over_note)
    assert sent.url == "https://events.pagerduty.com/v2/enqueue" and event["routing_key"] == "r0utingkey"
    assert event["event_action"] == "trigger" and event["payload"]["severity"] in ("critical", "warning", "info")
    assert end["event_action"] == "resolve" and end["dedup_key"] == event["dedup_key"]
    assert "r0utingkey" not in repr(sent.headers)


def test_grafana_gets_a_region_from_the_onset_to_the_end(over_note, tmp_path):
    token = tmp_path / "token"
    token.write_text("glsa_x")
    sent = grafana.outgoing(over_note, OutputSection(kind="grafana", url="http://grafana:3000/", token_file=str(token)))
    annotation = json.loads(sent.body)
    assert sent.url == "http://grafana:3000/api/annotations" and sent.headers["Authorization"] == "Bearer glsa_x"
    assert annotation["timeEnd"] == (NOW + 720) * 1000 and annotation["time"] <= annotation["timeEnd"]
    assert "inferdoc" in annotation["tags"] and over_note.cause in annotation["tags"]


@pytest.mark.parametrize(
    ("template", "body"),
    [
        (None, None),
        ('{"t": {{ incident.title | tojson }}, "c": {{ diagnosis.findings[0].id | tojson }}}', "c"),
    ],
)
def test_a_webhook_takes_the_whole_document_or_a_template(firing_note, sick, tmp_path, template, body):
    file = tmp_path / "body.j2"
    file.write_text(template or "")
    section = OutputSection(kind="webhook", url="http://x/", template_file=str(file) if template else None)
    result = json.loads(webhook.outgoing(firing_note, section, sick).body)
    if body:
        assert result["c"] == sick.findings[0].id and result["t"] == firing_note.title
    else:
        assert result["diagnosis"]["findings"][0]["id"] == sick.findings[0].id
        assert result["incident"]["incident"] == firing_note.incident


@pytest.mark.parametrize(
    "template",
    [
        "{{ nope.nope }}",
        "{{",
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{% include '/etc/passwd' %}",
        "{{ 1/0 }}",
    ],
)
def test_a_template_that_fails_or_breaks_out_is_one_line(firing_note, sick, tmp_path, template):
    file = tmp_path / "body.j2"
    file.write_text(template)
    with pytest.raises(ConfigError, match=r"body\.j2") as refused:
        webhook.outgoing(firing_note, OutputSection(kind="webhook", url="http://x/", template_file=str(file)), sick)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(("form", "ending"), [("markdown", "md"), ("json", "json"), ("html", "html")])
def test_a_folder_has_one_report_for_an_incident(firing_note, sick, tmp_path, form, ending):
    section = OutputSection(kind="file", folder=str(tmp_path / "reports"), format=form)
    for _ in range(2):
        write(firing_note, section, sick, None)
    (report,) = (tmp_path / "reports").iterdir()
    assert report.name == f"{firing_note.incident}.{ending}" and sick.findings[0].title in report.read_text()


@pytest.mark.parametrize(
    "section",
    [
        {"kind": "slack"},
        {"kind": "slack", "url": "http://x", "url_file": "y"},
        {"kind": "file"},
        {"kind": "pagerduty"},
        {"kind": "slack", "url": "http://x", "folder": "y"},
        {"kind": "slack", "url": "http://x", "template_file": "y"},
    ],
)
def test_an_output_that_is_not_whole_is_refused_where_it_is_read(section):
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(section, OutputSection)


@pytest.mark.parametrize("url", ["file:///etc/passwd", "javascript:1", "gopher://x", "example.org"])
def test_an_address_is_one_of_the_web(firing_note, url):
    with pytest.raises(ConfigError, match="http"):
        slack.outgoing(firing_note, OutputSection(kind="slack", url=url))


def test_an_output_whose_certificate_is_not_trusted_gets_nothing(tmp_path):
    """It waits, and is sent once the CA is given; nothing is sent before the certificate is checked."""
    certificate, key = self_signed(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with serving(lambda _: Answer(200, ""), context) as output:
        for url in (output.url, output.url.replace("127.0.0.1", "localhost")):
            with pytest.raises(PostError, match="SSLError") as caught:
                send(Outgoing(f"{url}/services/s3cret", b"{}"))
            assert not caught.value.final and "s3cret" not in str(caught.value)
        assert not output.asked
        send(Outgoing(output.url, b"{}"), str(certificate))
        assert len(output.asked) == 1


@pytest.mark.parametrize("fault", ["expired", "another name", "no TLS"])
def test_a_certificate_that_is_trusted_is_checked_all_the_same(tmp_path, fault):
    certificate, key = self_signed(tmp_path)
    if fault == "expired":
        renew = ["openssl", "x509", "-in", certificate, "-signkey", key, "-days", "-1", "-out", certificate]
        subprocess.run(renew, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with serving(lambda _: Answer(200, ""), None if fault == "no TLS" else context) as output:
        host = "localhost" if fault == "another name" else "127.0.0.1"
        url = output.url.replace("http://", "https://").replace("127.0.0.1", host)
        with pytest.raises(PostError, match="SSLError") as caught:
            send(Outgoing(f"{url}/services/s3cret", b"{}"), str(certificate))
        assert not caught.value.final and "s3cret" not in str(caught.value) and not output.asked


@pytest.mark.parametrize(
    ("status", "final"),
    [(status, status in (400, 413, 422)) for status in (302, 400, 401, 403, 404, 410, 413, 422, 429, 500, 503)],
)
def test_only_a_fault_of_the_message_itself_is_final(status, final):
    with serving(lambda _: Answer(status, "", {"Location": "/x"})) as output, pytest.raises(PostError) as caught:
        send(Outgoing(output.url, b"{}"))
    assert caught.value.final is final

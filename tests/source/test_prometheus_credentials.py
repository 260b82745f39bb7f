"""Credentials and certificates of a Prometheus-compatible server."""

from __future__ import annotations

import ssl

import pytest

from inferdoc.errors import ConfigError
from inferdoc.source.open import open_source
from inferdoc.source.prometheus_access import Access
from inferdoc.source.prometheus_http import Client
from tests.certificate import self_signed
from tests.source.fake_server import in_turn, refusal, serving
from tests.source.reading import GOOD, failure, read


def test_401_says_what_to_give():
    with serving(in_turn(refusal(401, "", "no"))) as fake:
        assert "401" in (text := failure(fake.url))
        assert "bearer token file" in text


def test_a_replaced_token_is_read_again(tmp_path):
    token = tmp_path / "token"
    token.write_text("first-token\n")

    def respond(asked):
        if asked.headers["Authorization"] == "Bearer second-token":
            return GOOD
        token.write_text("second-token\n")
        return refusal(401, "", "expired")

    with serving(respond) as fake:
        result, source = read(fake.url, bearer_token_file=token)
        assert result.keys
        assert len(fake.asked) == 2
        assert "token" not in repr(source)


def test_a_token_that_stays_wrong_is_not_tried_twice_and_not_shown(tmp_path):
    token = tmp_path / "token"
    token.write_text("very-secret-token")

    def echo(asked):
        return refusal(401, "", f"bad header {asked.headers['Authorization']}")

    with serving(echo) as fake:
        text = failure(fake.url, bearer_token_file=token)
        assert len(fake.asked) == 1
    assert "secret" not in text
    assert "***" in text


def test_password_from_file_environment_and_address(tmp_path, monkeypatch):
    secret = tmp_path / "password"
    secret.write_text("pass-word\n")
    seen = []

    def respond(asked):
        seen.append(asked.headers.get("Authorization"))
        return refusal(403, "", f"{asked.headers['Authorization']} may not; pass-word")

    with serving(respond) as fake:
        address = fake.url.replace("http://", "http://me:pass-word@")
        texts = [failure(fake.url, username="me", password_file=secret), failure(address)]
        monkeypatch.setenv("INFERDOC_PROMETHEUS_PASSWORD", "pass-word")
        texts.append(failure(fake.url, username="me"))
        location = open_source(prometheus=address).location
    assert set(seen) == {"Basic bWU6cGFzcy13b3Jk"}
    assert all("pass-word" not in t and "bWU6" not in t and "403" in t for t in texts)
    assert location == fake.url


def test_credentials_that_cannot_be(tmp_path):
    for options, part in [
        ({"username": "me"}, "INFERDOC_PROMETHEUS_PASSWORD"),
        ({"bearer_token_file": tmp_path / "gone"}, "is not there"),
        ({"ca_file": tmp_path / "gone"}, "is not there"),
        ({"headers": {"X-Bad": "a\r\nb"}}, "malformed"),
        ({"timeout": 0}, "above 0"),
    ]:
        with pytest.raises(ConfigError, match=part):
            open_source(prometheus="http://127.0.0.1:1", **options)
    empty = tmp_path / "empty"
    empty.write_text("")
    assert "one line" in failure("http://127.0.0.1:1", bearer_token_file=empty)


def test_extra_headers_are_sent_and_netrc_is_not_asked(tmp_path, monkeypatch):
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login stranger password leaked\n")
    monkeypatch.setenv("NETRC", str(netrc))
    with serving(in_turn(GOOD)) as fake:
        read(fake.url, headers={"X-Scope-OrgID": "team-a"})
        assert fake.asked[0].headers["X-Scope-OrgID"] == "team-a"
        assert "Authorization" not in fake.asked[0].headers


def test_secrets_stay_out_of_repr():
    access = Access("http://me:hidden-word@h:1/p?token=hidden-word", headers={"X-Key": "hidden-word"})
    assert "hidden-word" not in repr(access) + repr(Client(access))
    assert access.url == "http://h:1/p"


def test_insecure_ways_are_warned_of(tmp_path):
    token = tmp_path / "token"
    token.write_text("t")
    assert any(
        "plain http" in w for w in open_source(prometheus="http://far.example", bearer_token_file=token).warnings
    )
    assert not open_source(prometheus="https://far.example", bearer_token_file=token).warnings
    assert any("not checked" in w for w in open_source(prometheus="https://far.example", insecure=True).warnings)


def test_certificates_are_checked(tmp_path):
    certificate, key = self_signed(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with serving(in_turn(GOOD), context) as fake:
        text = failure(fake.url)
        assert "certificate" in text
        assert "CA file" in text
        assert read(fake.url, ca_file=certificate)[0].keys
        assert read(fake.url, insecure=True)[0].keys

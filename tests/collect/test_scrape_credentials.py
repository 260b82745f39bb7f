"""What the scraper shows of itself to a target and believes of it: credentials, certificates."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from inferdoc.collect.discovery import make_target
from inferdoc.collect.scrape import ScrapeOptions, Scraper
from tests.certificate import self_signed

from .conftest import PageServer, respond

PAGE = b"a 1\n"


def test_credentials_are_sent_and_never_shown(server: PageServer, tmp_path: Path) -> None:
    server.pages["/metrics"] = respond(b"", status=401)
    token = tmp_path / "token"
    token.write_text("s3cret-token\n")
    options = ScrapeOptions(bearer_token_file=token, headers={"X-Scope-OrgID": "s3cret-tenant"}, password="s3cret-word")
    assert "s3cret" not in repr(options)
    with Scraper(options) as scraper:
        result = scraper.scrape(make_target(server.url))
        token.write_text("rotated")
        scraper.scrape(make_target(server.url))
        token.unlink()
        gone = scraper.scrape(make_target(server.url))
        token.write_text("two\nlines")
        bad = scraper.scrape(make_target(server.url))
    assert "s3cret" not in repr(result)
    assert server.requests[0][1]["Authorization"] == "Bearer s3cret-token"
    assert server.requests[0][1]["X-Scope-OrgID"] == "s3cret-tenant"
    assert server.requests[1][1]["Authorization"] == "Bearer rotated"
    assert gone.error == f"bearer token file {token}: No such file or directory"
    assert bad.error == "invalid request header"


def test_basic_authentication(server: PageServer, tmp_path: Path) -> None:
    server.pages["/metrics"] = respond(PAGE)
    secret = tmp_path / "password"
    secret.write_text("word\n")
    for options in (
        ScrapeOptions(username="scraper", password="word"),
        ScrapeOptions(username="scraper", password_file=secret),
    ):
        with Scraper(options) as scraper:
            assert scraper.scrape(make_target(server.url)).up
        assert server.requests[-1][1]["Authorization"] == "Basic c2NyYXBlcjp3b3Jk"


def test_the_environment_names_no_proxy_and_no_netrc(
    server: PageServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login someone password else\n")
    monkeypatch.setenv("NETRC", str(netrc))
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    server.pages["/metrics"] = respond(PAGE)
    with Scraper() as scraper:
        assert scraper.scrape(make_target(server.url)).up
    assert "Authorization" not in server.requests[0][1]


def test_tls_is_verified_and_a_ca_can_be_given(server: PageServer, tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server._server.socket = context.wrap_socket(server._server.socket, server_side=True)
    server.pages["/metrics"] = respond(PAGE)
    url = server.url.replace("http://", "https://")
    with Scraper() as scraper:
        error = scraper.scrape(make_target(url)).error
    assert error is not None
    assert error.startswith("TLS certificate is not trusted (self-signed certificate)")
    with Scraper(ScrapeOptions(ca_file=certificate)) as scraper:
        assert scraper.scrape(make_target(url)).error is None
        assert scraper.scrape(make_target(url)).error is None

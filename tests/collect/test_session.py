"""Credentials stay with their origin, whatever a server answers, wherever inferdoc sends a request."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import pytest

import inferdoc
from inferdoc.collect.discovery import make_target
from inferdoc.collect.probe import probe
from inferdoc.collect.scrape import ScrapeOptions, Scraper
from inferdoc.collect.session import OriginSession, RedirectError
from inferdoc.collect.targets import HttpDiscovery
from inferdoc.config import Config, load_config
from inferdoc.errors import InferdocError
from inferdoc.origins import origin_of
from inferdoc.serve.outputs.sending import Outgoing, send
from inferdoc.source.configured import open_configured
from tests.source.fake_server import Answer, serving
from tests.source.reading import GOOD, GRID, READ, read

SECRET = "s3cret"
HEADERS = {"Authorization": f"Bearer {SECRET}", "X-Api-Key": SECRET}
STATUSES = (301, 302, 303, 307, 308)


def _read(url: str, **access: object) -> None:
    read(url, timeout=5, **access)


def _sources(folder: Path) -> Iterator[tuple[str, Callable[[str], object]]]:
    """All that sends a request to an address somebody gives, with every kind of credentials that it takes."""
    word = folder / "word"
    word.write_text(SECRET)
    yield "probe", lambda url: probe(url, 5, HEADERS)
    yield "probe of a model", lambda url: probe(url, 5, HEADERS, "m")
    yield "prometheus, header", lambda url: _read(url, headers=HEADERS)
    yield "prometheus, token", lambda url: _read(url, bearer_token_file=word)
    yield "prometheus, basic", lambda url: _read(url, username="u", password_file=word)
    for name, options in {
        "header": ScrapeOptions(headers=HEADERS),
        "token": ScrapeOptions(bearer_token_file=word),
        "basic": ScrapeOptions(username="u", password_file=word),
    }.items():
        yield f"scrape, {name}", lambda url, options=options: _scraped(url, options)
        yield f"http_sd, {name}", lambda url, options=options: HttpDiscovery(url, options).targets()
    yield "output", lambda url: send(Outgoing(url, b"{}", HEADERS))


def _scraped(url: str, options: ScrapeOptions) -> None:
    with Scraper(options) as scraper:
        scraper.scrape(make_target(url))


@pytest.mark.parametrize("status", STATUSES)
def test_no_credentials_follow_a_redirect_to_another_port(tmp_path, status):
    with (
        serving(lambda _: Answer(200, "a 1\n")) as other,
        serving(lambda asked: Answer(status, "", {"Location": f"{other.url}{asked.path}"})) as origin,
    ):
        for name, request in _sources(tmp_path):
            before = len(origin.asked)
            with suppress(InferdocError):
                request(origin.url)
            assert len(origin.asked) > before, f"{name}: nothing was sent to the origin"
            assert not other.asked, f"{name}: {other.asked}"


@pytest.mark.parametrize(
    "location",
    ["https://127.0.0.1:{port}/", "http://localhost:{port}/", "//127.0.0.1:1/", "http://u:p@127.0.0.1:1/", "http://[/"],
)
def test_scheme_host_and_port_all_count(location):
    with serving(lambda asked: Answer(302, "", {"Location": location.format(port=port)})) as origin:
        port = origin_of(origin.url).port
        with OriginSession(origin.url, environment=False) as session, pytest.raises(RedirectError) as caught:
            session.get_following(origin.url, headers=HEADERS, timeout=5)
        assert len(origin.asked) == 1 and "u:p" not in str(caught.value)
        assert probe(origin.url, 5, HEADERS).outcome == "refused"


def test_redirects_within_the_origin_are_followed_with_the_credentials():
    def respond(asked):
        return Answer(200, "a 1\n") if asked.path == "/there" else Answer(307, "", {"Location": "/there"})

    with serving(respond) as origin, OriginSession(origin.url, environment=False) as session:
        session.headers.update(HEADERS)
        answer = session.get_following(f"{origin.url}/metrics", timeout=5)
        assert answer.text == "a 1\n" and len(answer.history) == 1
        assert [asked.headers["X-Api-Key"] for asked in origin.asked] == [SECRET, SECRET]


def test_a_session_sends_nothing_to_another_address():
    with (
        serving(lambda _: Answer(200, "")) as other,
        OriginSession("http://127.0.0.1:1/", environment=False) as session,
    ):
        for send_it in (session.get, session.post):
            with pytest.raises(RedirectError):
                send_it(other.url, headers=HEADERS, timeout=5)
        assert not other.asked


def test_the_body_of_a_redirect_is_not_read():
    """Otherwise a target fills the memory with a redirect whose body does not end."""
    long = Answer(302, b"x" * 500, {"Location": "/x"}, drip=0.01)
    with serving(lambda _: long) as origin, OriginSession(origin.url, environment=False) as session:
        answer = session.get(origin.url, stream=True, timeout=5)
        assert answer.is_redirect and not answer.raw.closed
        answer.close()


def test_cookies_and_netrc_are_not_used(tmp_path, monkeypatch):
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login someone password else\n")
    monkeypatch.setenv("NETRC", str(netrc))

    def cookie(_):
        return Answer(200, "", {"Set-Cookie": "a=b"})

    with serving(cookie) as origin, OriginSession(origin.url, environment=True) as session:
        session.get(origin.url, timeout=5)
        session.get(origin.url, timeout=5)
    assert all("Cookie" not in asked.headers and "Authorization" not in asked.headers for asked in origin.asked)


def test_a_user_in_the_address_signs_as_before():
    with serving(lambda _: Answer(200, "")) as origin:
        url = origin.url.replace("http://", "http://me:word@")
        with OriginSession(url, environment=True) as session:
            session.get(url, timeout=5)
    assert origin.asked[0].headers["Authorization"].startswith("Basic ")


def _config(folder: Path, server: str, environment: Mapping[str, str]) -> Config:
    word, file = folder / "word", folder / "inferdoc.toml"
    word.write_text(SECRET)
    file.write_text(
        f'[source]\nprometheus = "{server}"\nbearer_token_file = "{word}"\nheaders = {{"X-Api-Key" = "{SECRET}"}}\n'
    )
    return load_config(file, environment)


@pytest.mark.parametrize("by", ["option", "environment"])
def test_credentials_of_the_configuration_stay_with_its_server(tmp_path, by):
    with serving(lambda _: GOOD) as own, serving(lambda _: GOOD) as other:
        for fake, sends in ((own, True), (other, False)):
            environment = {"INFERDOC_PROMETHEUS_URL": fake.url} if by == "environment" else {}
            config = _config(tmp_path, own.url, environment)
            source = open_configured(config, {"prometheus": fake.url} if by == "option" else {})
            source.evaluate([READ], GRID)
            source.close()
            assert fake.asked, "nothing was sent"
            assert all(_signed(asked.headers) is sends for asked in fake.asked)
            assert any("not sent to" in line for line in source.warnings) is (by == "option" and not sends)


def _signed(headers: Mapping[str, str]) -> bool:
    return SECRET in "".join(headers.values())


def test_no_other_module_opens_a_session_of_its_own():
    """But for those of `alerts backfill`, which send no credentials to the Prometheus that they started."""
    root = Path(inferdoc.__file__).parent
    opened = re.compile(r"requests\.(?:Session|get|post|put|request|head)\(|urlopen\(|HTTPAdapter\b|PoolManager\(")
    found = {str(path.relative_to(root)) for path in root.rglob("*.py") if opened.search(path.read_text("utf-8"))}
    assert found == {"collect/session.py", "backtest/backfill.py"}

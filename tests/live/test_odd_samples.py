"""Samples as no healthy exporter sends them: both sources still give the same numbers."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from inferdoc.errors import SourceError
from inferdoc.source.open import open_source
from inferdoc.source.reads import Grid, Read
from inferdoc.store.importer import import_file
from inferdoc.store.store import Store
from tests import prometheus_server

pytestmark = pytest.mark.live

START_S = 1_700_000_000
SCRAPES = 150
# user `admin`, password `test`: the example of https://prometheus.io/docs/guides/basic-auth/
WEB_CONFIG = "basic_auth_users:\n  admin: $2b$12$hNf2lSsxfm0.i4a.1kVpSOVyBCfIB51VRjgBUyv6kdnyTlgWj81Ay\n"

KINDS = {
    "resets": lambda r, i, v: 0.0 if r.random() < 0.15 else v + r.random() * 1e6,
    "tiny_after_huge": lambda r, i, v: 1e15 if i == 20 else v + 1e-3 if i > 20 and v < 1e14 else r.random(),
    "nan_now_and_then": lambda r, i, v: math.nan if r.random() < 0.2 else i * 3.0,
    "infinite": lambda r, i, v: r.choice([math.inf, -math.inf, 1.0, 2.0]),
    "negative": lambda r, i, v: r.uniform(-1e3, 1e3),
    "flat": lambda r, i, v: 7.0,
    "from_zero": lambda r, i, v: max(0.0, i - 100.0),
    "gappy": lambda r, i, v: None if r.random() < 0.5 else i * 1.5,
    "born_late": lambda r, i, v: None if i < 90 else i - 90.0,
    "gone_early": lambda r, i, v: i / 7 if i < 60 else None,
    "once": lambda r, i, v: 5.0 if i == 75 else None,
}


def recording():
    """Two targets scraped out of step and unevenly; every kind twice on each."""
    chance = random.Random(8)
    lines = {name: [f"# TYPE {name} gauge"] for name in ("up", *KINDS)}
    for pod in ("p0", "p1"):
        labels = f'job="odd",instance="{pod}:1",pod="{pod}"'
        times, now = [], START_S + chance.random()
        for _ in range(SCRAPES):
            now += chance.choice([2.0, 2.0, 2.001, 1.9, 4.0, 9.5])
            times.append(f"{now:.3f}")
        lines["up"] += [f"up{{{labels}}} 1 {t}" for t in times]
        for name, kind in KINDS.items():
            for member in "ab":
                value = 0.0
                for i, t in enumerate(times):
                    made = kind(chance, i, value)
                    value = value if made is None else made
                    if made is not None:
                        text = {math.inf: "+Inf", -math.inf: "-Inf"}.get(made, repr(made).replace("nan", "NaN"))
                        lines[name].append(f'{name}{{{labels},member="{member}"}} {text} {t}')
    return "\n".join([line for own in lines.values() for line in own] + ["# EOF\n"])


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    if not prometheus_server.available():
        pytest.skip(prometheus_server.MISSING)
    folder = tmp_path_factory.mktemp("odd")
    text, web, password = folder / "odd.om", folder / "web.yml", folder / "password"
    text.write_text(recording())
    web.write_text(WEB_CONFIG)
    password.write_text("test\n")
    with Store.open(folder / "odd.db", "w") as writing:
        import_file(writing, text)
    option = f"--web.config.file={web}"
    with prometheus_server.running([text], folder / "server", option, auth=("admin", "test")) as address:
        store = open_source(store=folder / "odd.db")
        server = open_source(prometheus=address, username="admin", password_file=password)
        yield store, server, address
        store.close()
        server.close()


@pytest.mark.parametrize("fn", ["rate", "increase", "last", "max", "mean", "change"])
@pytest.mark.parametrize("agg", ["sum", "max", "min"])
@pytest.mark.parametrize("by", [("pod", "member"), ("pod",), ()])
def test_odd_samples(sources, fn, agg, by):
    store, server, _ = sources
    grid = Grid(START_S * 1000 + 123, 1_730, 260, 2000, 10_000, 5_000)
    reads = [Read(name, fn, by, (), agg, width) for name in KINDS for width in (1, 4)]
    ours, theirs = store.evaluate(reads, grid), server.evaluate(reads, grid)
    for read in reads:
        assert ours[read].keys == theirs[read].keys, read
        # Prometheus sums up with compensation; where 1e15 and 1e-3 meet, single bits of the former may differ
        np.testing.assert_allclose(ours[read].values, theirs[read].values, rtol=1e-9, atol=1e-9, err_msg=str(read))


def test_a_real_server_that_wants_a_password(sources):
    _, server, address = sources
    assert server.names(START_S * 1000, START_S * 1000 + 600_000) == {"up", *KINDS}
    with pytest.raises(SourceError, match="401 Unauthorized"):
        open_source(prometheus=address).latest_ms()


def test_a_real_server_says_what_is_wrong_with_a_matcher(sources):
    for source in sources[:2]:
        with pytest.raises(Exception, match=r"regular expression|parse error") as caught:
            source.evaluate(
                [Read("up", "last", ())], Grid(START_S * 1000, 1000, 2, 1000, 1000, 1000), (("pod", "=~", "("),)
            )
        assert "\n" not in str(caught.value)

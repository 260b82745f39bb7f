"""`inferdoc slo` says the same of the embedded store and of a real Prometheus over the same recording."""

from __future__ import annotations

import msgspec
import pytest

from inferdoc.catalogue.load import load_catalogue
from inferdoc.config import Config
from inferdoc.slo.attainment import shown
from inferdoc.source.open import open_source

pytestmark = pytest.mark.live


def test_both_sources_give_one_answer(store_of, prometheus_of):
    answers = []
    name, asked = "control-pd", {"since": "10m", "until": "latest"}
    for source in (open_source(store=store_of(name)), open_source(prometheus=prometheus_of(name))):
        report = shown(source, Config(), load_catalogue(), asked)
        answers.append([msgspec.to_builtins(report)[part] for part in ("from", "until", "objectives", "goodput")])
        source.close()
    ours, theirs = answers
    assert ours[2] and ours[3] and ours[:2] == theirs[:2]
    for part in (2, 3):
        for one, other in zip(ours[part], theirs[part], strict=True):
            assert one.keys() == other.keys()
            for key, value in one.items():
                if (isinstance(value, dict) and "low" in value) or isinstance(value, float):
                    assert value == pytest.approx(other[key], rel=1e-9), key
                else:
                    assert value == other[key], key

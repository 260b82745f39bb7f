"""One fault under the labels of many scrape configurations, from a store: the right cause, pod, totals and advice."""

from __future__ import annotations

import json

import pytest

from inferdoc import diagnose, open_source
from inferdoc.catalogue.load import load_catalogue
from inferdoc.config import Config
from inferdoc.report.doctor import examine
from inferdoc.simulate.output import write_store
from inferdoc.store.store import Store
from tests.identity.assertions import assert_identified, assert_lines
from tests.identity.layouts import SHAPES


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """Name of a layout -> a store that holds it."""
    folder = tmp_path_factory.mktemp("layouts")

    def of(name):
        path = folder / f"{name}.db"
        if not path.exists():
            with Store.open(path, "w") as store:
                write_store(SHAPES[name].stored(), store)
        return path

    return of


@pytest.mark.parametrize("name", SHAPES)
def test_every_layout_gives_the_same_report(name, stored):
    source = open_source(store=stored(name))
    assert_identified(SHAPES[name], diagnose(source, since="15m"))
    lines, good = examine(open_source(store=stored(name)), Config(), load_catalogue(), "latest")
    assert good
    assert_lines(SHAPES[name], lines)
    source.close()


def test_two_clusters_are_two_findings_in_every_output(stored):
    from inferdoc.report.html import html
    from inferdoc.report.markdown import markdown
    from inferdoc.report.text import text

    answer = diagnose(open_source(store=stored("two-clusters")), since="15m")
    first, second = (json.loads(answer.to_json())["findings"][n]["scope"] for n in (0, 1))
    assert {first["cluster"], second["cluster"]} == {"eu-1", "us-1"} and first["pods"] == second["pods"]
    assert "cluster" in answer.summary
    for page in (text(answer), markdown(answer), html(answer)):
        assert "eu-1" in page and "us-1" in page
    entities = {item.entity for finding in answer.findings for item in finding.evidence}
    assert {"eu-1/llm/vllm-1", "us-1/llm/vllm-1"} <= entities

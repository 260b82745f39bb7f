"""Error codes of NVSwitches: on pages that name a node and no pod, and reported for each engine of the node."""

from __future__ import annotations

import lzma

import pytest

from inferdoc import diagnose, open_source
from inferdoc.store.importer import import_file
from inferdoc.store.store import Store
from tests.conftest import ROOT

CASE = ROOT / "fixtures/public/17-xid45-only/in.om.xz"
BEGIN, STEP = 1795600000, 15


@pytest.mark.parametrize(
    ("family", "code", "words"),
    [
        (
            "DCGM_FI_DEV_NVSWITCH_FATAL_ERRORS",
            12020,
            "SXid 12020 (egress: sequence ID error; NVIDIA: restart the host)",
        ),
        ("DCGM_FI_DEV_NVSWITCH_NON_FATAL_ERRORS", 20001, "SXid 20001 (NVLink packets sent again"),
    ],
)
def test_the_code_of_a_switch_is_a_change_of_the_engines_beside_it(tmp_path, family, code, words):
    text = lzma.decompress(CASE.read_bytes()).decode().removesuffix("# EOF\n")
    last = max(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith("up{"))
    labels = 'nvswitch="nvswitch0",hostname="node-1",instance="node-1:9400",job="dcgm"'
    steps = range(BEGIN, int(last) + 1, STEP)
    shown = [f"{family}{{{labels}}} {code if at > last - 900 else 0} {at}\n" for at in steps]
    page = tmp_path / "page.om"
    page.write_text(f"{text}# TYPE {family} gauge\n{''.join(shown)}# EOF\n")
    with Store.open(tmp_path / "page.db", "w") as store:
        import_file(store, page)
    answer = diagnose(open_source(store=tmp_path / "page.db"), since="30m")
    assert any(words in change.detail for change in answer.changes)

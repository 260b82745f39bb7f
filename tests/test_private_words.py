"""Words that only this project would use for a concept of the field: their number per folder may only fall."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from tests.conftest import ROOT

WORDS = frozenset(
    re.findall(
        r"\w+",
        "told tells tell hurt hurts calm strike struck mend mended cure foretell foretold stretch rung ladder dearest "
        "wish wished asked asks said wanted begun began held promised odds",
    )
)
PART = re.compile(r"[A-Z]?[a-z]+")
TEXT = {".py", ".md", ".yaml"}
GENERATED = {"alerts/generated", "docs/coverage.md", "docs/versions.md"}
MOST: dict[str, int] = {
    "diagnostics": 2,
    "docs": 7,
    "inferdoc": 5,
    "inferdoc/agents": 3,
    "inferdoc/audit": 22,
    "inferdoc/bench": 1,
    "inferdoc/catalogue": 1,
    "inferdoc/cli": 1,
    "inferdoc/collect": 1,
    "inferdoc/headroom": 3,
    "inferdoc/incidents": 11,
    "inferdoc/judging": 33,
    "inferdoc/kv": 2,
    "inferdoc/prewarm": 2,
    "inferdoc/report": 12,
    "inferdoc/serve": 1,
    "inferdoc/slo": 4,
    "inferdoc/source": 5,
    "inferdoc/store": 24,
    "inferdoc/verify": 2,
    "inferdoc/whatif": 1,
}
"""Lower a number with each change that lowers the count."""


def counted() -> Counter[str]:
    """Private words by package of `inferdoc`, or by top folder; parts of identifiers count too."""
    found: Counter[str] = Counter()
    for top in ("inferdoc", "inferdoc_dev", "collectors", "diagnostics", "runbooks", "dashboards", "docs"):
        for path in sorted((ROOT / top).rglob("*")):
            name = str(path.relative_to(ROOT))
            if path.suffix in TEXT and not any(name.startswith(one) for one in GENERATED):
                parts = Path(name).parts
                folder = "/".join(parts[:2]) if top == "inferdoc" and len(parts) > 2 else top
                found[folder] += sum(part.lower() in WORDS for part in PART.findall(path.read_text("utf-8")))
    return found


def test_private_words_only_become_fewer():
    now = counted()
    assert sum(now.values()) > 0 and now.keys() <= MOST.keys() | {folder for folder, count in now.items() if count == 0}
    assert {folder: (count, MOST[folder]) for folder, count in now.items() if count > MOST.get(folder, 0)} == {}


def test_the_limits_are_those_of_today():
    now = counted()
    assert {folder: limit for folder, limit in MOST.items() if limit > 1.1 * now[folder] + 5} == {}, "lower the limit"

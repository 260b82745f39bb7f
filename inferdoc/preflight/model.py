"""The checks of manifests as a document: `inferdoc.preflight/v1`."""

from __future__ import annotations

import msgspec

PREFLIGHT_SCHEMA_ID = "inferdoc.preflight/v1"


class PreflightProblem(msgspec.Struct):
    """One thing that cannot work, or not as meant. check: its name; flag: where it is set; text: what is wrong; do:
    what to change."""

    workload: str
    file: str
    check: str
    flag: str
    text: str
    do: str


class PreflightAnswer(msgspec.Struct):
    """checked: workloads with an engine; skipped: workloads that could not be checked, each with the reason."""

    schema: str
    tier: str
    checked: list[str]
    problems: list[PreflightProblem]
    skipped: list[str]

    def to_json(self) -> str:
        """The document as indented JSON."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2).decode()

    def to_text(self) -> str:
        """One line for each problem, one for each workload without any."""
        found = {problem.workload for problem in self.problems}
        lines = [f"{each.workload}: {each.flag}: {each.text}; {each.do}" for each in self.problems]
        lines += [f"{name}: no problem found for {self.tier}" for name in self.checked if name not in found]
        return "\n".join([*lines, *(f"not evaluated: {reason}" for reason in self.skipped)]) + "\n"

"""From the options of the command (which finding, which pool, when the step was taken) to a verification."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from inferdoc.catalogue.document import nearest
from inferdoc.errors import NOT_JSON, ExitCode, InferdocError
from inferdoc.judging.model import Diagnosis, Finding
from inferdoc.times import moment_of, rfc3339
from inferdoc.verify.measure import LEAST, SETTLING, kept, moves_of_evidence, moves_of_users, outcome_of, sides
from inferdoc.verify.model import VERIFICATION_SCHEMA_ID, Verification
from inferdoc.version import __version__
from inferdoc.whatif.answer import limits_for_request
from inferdoc.whatif.live import STEP, observed
from inferdoc.whatif.model import WhatIfAnswer

if TYPE_CHECKING:
    from inferdoc.catalogue.load import Catalogue
    from inferdoc.config import Config
    from inferdoc.source.identified import Identified


MOST_HISTORY = "24h"


def verified(source: Identified, config: Config, catalogue: Catalogue, asked: Mapping[str, Any]) -> Verification:
    """What the step has brought. Raises InferdocError."""
    wanted = verify_for_request(asked, catalogue)
    pool = observed(source, config, catalogue, {**asked, "history": MOST_HISTORY})
    both = sides(pool, wanted.onset, wanted.step_at)
    if both is None:
        raise InferdocError(
            f"{pool.name}: {LEAST} minutes with traffic are needed between onset and step, and after the step from "
            f"{SETTLING // 60} minutes on; give --at as it was, or wait"
        )
    limits = limits_for_request(pool, catalogue, asked)
    titles = {
        name: (catalogue.signals[name].title, catalogue.signals[name].unit, str(catalogue.signals[name].harm))
        for name in wanted.evidence
    }
    moves = [*moves_of_users(both, limits), *moves_of_evidence(source, both, wanted.evidence, titles)]
    outcome, why = outcome_of(moves, both)
    prediction = wanted.prediction
    return Verification(
        VERIFICATION_SCHEMA_ID,
        __version__,
        wanted.finding,
        pool.name,
        rfc3339(wanted.onset, "seconds"),
        rfc3339(wanted.step_at, "seconds"),
        rfc3339(both.after.begin + both.after.stretches * STEP, "seconds"),
        outcome,
        why,
        moves,
        {} if prediction is None else prediction.changes,
        [] if prediction is None else kept(both, prediction, limits),
    )


def exit_code(answer: Verification) -> int:
    """0: no worse; 1: worse; 3: that cannot be told."""
    return {"worse": ExitCode.FINDINGS, "cannot tell": ExitCode.UNKNOWN}.get(answer.outcome, ExitCode.OK)


MOST_BEFORE = 3600
"""Seconds before the step that are compared at most."""


@dataclass(frozen=True)
class VerifyRequest:
    """onset, step_at: Unix seconds; evidence: signal -> the pods it was seen on; prediction: None without one."""

    finding: str
    onset: int
    step_at: int
    evidence: Mapping[str, frozenset[str]]
    prediction: WhatIfAnswer | None


def verify_for_request(asked: Mapping[str, Any], catalogue: Catalogue) -> VerifyRequest:
    """The finding of --diagnosis FILE, or a cause with --onset. Raises InferdocError."""
    if not asked.get("finding"):
        raise InferdocError(
            "which finding? name a cause, with --diagnosis FILE or --onset TIME; --list shows the ledger"
        )
    if not asked.get("step_at"):
        raise InferdocError("--at: when was the step taken?")
    step_at = moment_of(asked["step_at"], "--at")
    name, evidence = asked["finding"], dict[str, frozenset[str]]()
    if asked.get("diagnosis"):
        finding = _finding(_document(asked["diagnosis"], Diagnosis, "--diagnosis"), name, asked["diagnosis"])
        onset = moment_of(asked.get("onset") or finding.onset, "--onset")
        for item in finding.evidence:
            if item.signal in catalogue.signals:
                evidence[item.signal] = frozenset(finding.scope.pods)
    elif asked.get("onset"):
        if name not in catalogue.recipes:
            raise InferdocError(f'no cause "{name}"{nearest(name, catalogue.recipes)}; see `inferdoc recipes list`')
        onset = moment_of(asked["onset"], "--onset")
    else:
        raise InferdocError(
            f"{name}: since when? give --diagnosis FILE, as `diagnose -o json` writes it, or --onset TIME"
        )
    if onset >= step_at:
        raise InferdocError(
            "--at: the step must come after the onset; what was before it is compared with what came after"
        )
    predicted = asked.get("prediction")
    return VerifyRequest(
        name,
        max(onset, step_at - MOST_BEFORE),
        step_at,
        evidence,
        None if predicted is None else _document(predicted, WhatIfAnswer, "--prediction"),
    )


def _document(path: str, kind: type[Any], flag: str) -> Any:
    try:
        return msgspec.json.decode(Path(path).read_bytes(), type=kind)
    except OSError as error:
        raise InferdocError(f"{flag} {path}: cannot be read: {error.strerror or error}") from None
    except NOT_JSON:
        command = "diagnose -o json" if kind is Diagnosis else "whatif -o json"
        raise InferdocError(f"{flag} {path}: not what `inferdoc {command}` writes") from None


def _finding(document: Diagnosis, name: str, path: str) -> Finding:
    found = next((each for each in document.findings if each.id == name), None)
    if found is None:
        ids = ", ".join(each.id for each in document.findings) or "none"
        raise InferdocError(f'--diagnosis {path}: no finding "{name}"; it has {ids}')
    return found

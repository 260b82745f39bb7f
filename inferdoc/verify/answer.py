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
from inferdoc.verify.model import UNDECIDED, VERIFICATION_SCHEMA_ID, Verification
from inferdoc.version import __version__
from inferdoc.whatif.answer import limits_for_request
from inferdoc.whatif.live import STEP, observed
from inferdoc.whatif.model import WhatIfAnswer

if TYPE_CHECKING:
    from inferdoc.catalogue.load import Catalogue
    from inferdoc.config import Config
    from inferdoc.source.identified import Identified


MOST_HISTORY = "24h"


def verified(source: Identified, config: Config, catalogue: Catalogue, options: Mapping[str, Any]) -> Verification:
    """What the step has brought. Raises InferdocError."""
    request = verify_for_request(options, catalogue)
    pool = observed(source, config, catalogue, {**options, "history": MOST_HISTORY})
    both = sides(pool, request.onset, request.step_at)
    if both is None:
        raise InferdocError(
            f"{pool.name}: {LEAST} minutes with traffic are needed between onset and step, and after the step from "
            f"{SETTLING // 60} minutes on; give --at as it was, or wait"
        )
    limits = limits_for_request(pool, catalogue, options)
    titles = {
        name: (catalogue.signals[name].title, catalogue.signals[name].unit, str(catalogue.signals[name].harm))
        for name in request.evidence
    }
    moves = [*moves_of_users(both, limits), *moves_of_evidence(source, both, request.evidence, titles)]
    outcome, why = outcome_of(moves, both)
    prediction = request.prediction
    return Verification(
        VERIFICATION_SCHEMA_ID,
        __version__,
        request.finding,
        pool.name,
        rfc3339(request.onset, "seconds"),
        rfc3339(request.step_at, "seconds"),
        rfc3339(both.after.begin + both.after.intervals * STEP, "seconds"),
        outcome,
        why,
        moves,
        {} if prediction is None else prediction.changes,
        [] if prediction is None else kept(both, prediction, limits),
    )


def exit_code(answer: Verification) -> int:
    """0: no worse; 1: worse; 3: that is unknown."""
    return {"worse": ExitCode.FINDINGS, UNDECIDED: ExitCode.UNKNOWN}.get(answer.outcome, ExitCode.OK)


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


def verify_for_request(options: Mapping[str, Any], catalogue: Catalogue) -> VerifyRequest:
    """The finding of --diagnosis FILE, or a cause with --onset. Raises InferdocError."""
    if not options.get("finding"):
        raise InferdocError(
            "which finding? name a cause, with --diagnosis FILE or --onset TIME; --list shows the ledger"
        )
    if not options.get("step_at"):
        raise InferdocError("--at: when was the step taken?")
    step_at = moment_of(options["step_at"], "--at")
    name, evidence = options["finding"], dict[str, frozenset[str]]()
    if options.get("diagnosis"):
        finding = _finding(_document(options["diagnosis"], Diagnosis, "--diagnosis"), name, options["diagnosis"])
        onset = moment_of(options.get("onset") or finding.onset, "--onset")
        for item in finding.evidence:
            if item.signal in catalogue.signals:
                evidence[item.signal] = frozenset(finding.scope.pods)
    elif options.get("onset"):
        if name not in catalogue.recipes:
            raise InferdocError(f'no cause "{name}"{nearest(name, catalogue.recipes)}; see `inferdoc recipes list`')
        onset = moment_of(options["onset"], "--onset")
    else:
        raise InferdocError(
            f"{name}: since when? give --diagnosis FILE, as `diagnose -o json` writes it, or --onset TIME"
        )
    if onset >= step_at:
        raise InferdocError(
            "--at: the step must come after the onset; what was before it is compared with what came after"
        )
    predicted = options.get("prediction")
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

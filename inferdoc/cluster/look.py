"""Puts what the cluster tells beside findings, and lets it decide what it is declared to decide."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence

from inferdoc.catalogue.cluster import Sign
from inferdoc.catalogue.load import Catalogue
from inferdoc.cluster.pods import NAME, SECONDS, Kubectl, facts_of
from inferdoc.errors import SourceError
from inferdoc.judging.model import ClusterFact, Diagnosis, Finding

MOST_PODS = 8
"""So many are asked about in one diagnosis."""


def kubectl(words: Sequence[str]) -> str:
    """Run the user's kubectl. Raises SourceError."""
    shown = f"kubectl {' '.join(words[:3])}"
    try:
        done = subprocess.run(["kubectl", *words], capture_output=True, text=True, timeout=2 * SECONDS, check=False)
    except FileNotFoundError:
        raise SourceError("kubectl is not installed; run where it is, or leave --kubernetes out") from None
    except subprocess.TimeoutExpired:
        raise SourceError(f"`{shown}` took more than {2 * SECONDS} s; is the cluster reachable?") from None
    if done.returncode != 0:
        answer = (done.stderr.strip().splitlines() or ["no message"])[-1][:200]
        raise SourceError(f"`{shown}` failed: {answer}")
    return done.stdout


def look_at_cluster(answer: Diagnosis, catalogue: Catalogue, run: Kubectl = kubectl) -> None:
    """Fill in `cluster` of the findings, and weigh it. A cluster that cannot be asked is one warning."""
    known: dict[tuple[str, str], list[ClusterFact]] = {}
    for finding in answer.findings:
        for place in _places(finding):
            if place not in known and len(known) < MOST_PODS:
                try:
                    known[place] = facts_of(*place, catalogue.signs, run)
                except SourceError as error:
                    answer.source.warnings.append(f"the cluster was not looked at: {error}")
                    return
            finding.cluster += known.get(place, [])
        before = finding.certainty
        weigh(finding, catalogue)
        if finding is answer.findings[0]:
            answer.summary = answer.summary.replace(f"({before})", f"({finding.certainty})", 1)


def _places(finding: Finding) -> list[tuple[str, str]]:
    namespace = finding.scope.namespace or ""
    names = [pod for pod in finding.scope.pods if NAME.fullmatch(pod)]
    return [(namespace, pod) for pod in names] if NAME.fullmatch(namespace) else []


def weigh(finding: Finding, catalogue: Catalogue) -> None:
    """Signs that speak for a finding prove it; signs that speak for one of its rivals alone leave it possible."""
    signs: Mapping[str, Sign] = {fact.sign: catalogue.signs[fact.sign] for fact in finding.cluster if fact.sign}
    certainty = finding.certainty
    if any(finding.id in sign.speaks_for for sign in signs.values()):
        certainty = "proven"
    else:
        for rival in finding.differential:
            said = [sign.says for sign in signs.values() if rival.id in sign.speaks_for]
            rival.speaks_for += said
            if said:
                certainty = "possible"
    known = finding.probability is not None
    finding.regrade(certainty, catalogue.calibration.probability(certainty) if known else None)

"""Add evidence from Kubernetes or from a probe request to findings."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

from inferdoc.catalogue.cluster import Sign
from inferdoc.catalogue.load import Catalogue
from inferdoc.cluster.pods import NAME, SECONDS, Kubectl, facts_of
from inferdoc.errors import InferdocError, SourceError
from inferdoc.judging.document import DiagnosisWithSeries
from inferdoc.judging.model import ClusterFact, Diagnosis, Finding

MOST_PODS = 8
"""Maximum number of pods per diagnosis."""
PROBE_SECONDS = 20.0


def kubectl(words: Sequence[str]) -> str:
    """Run the user's kubectl. Raises SourceError."""
    shown = f"kubectl {' '.join(words[:3])}"
    try:
        done = subprocess.run(
            ["kubectl", *words],
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=2 * SECONDS,
            check=False,
        )
    except FileNotFoundError:
        raise SourceError("kubectl is not installed; run where it is, or leave --kubernetes out") from None
    except subprocess.TimeoutExpired:
        raise SourceError(f"`{shown}` took more than {2 * SECONDS} s; is the cluster reachable?") from None
    if done.returncode != 0:
        answer = (done.stderr.strip().splitlines() or ["no message"])[-1][:200]
        raise SourceError(f"`{shown}` failed: {answer}")
    return done.stdout


def add_cluster_evidence(answer: Diagnosis, catalogue: Catalogue, run: Kubectl = kubectl) -> None:
    """Fill in `cluster` of the findings, and weigh it. An unreachable cluster is one warning."""
    known: dict[tuple[str, str], list[ClusterFact]] = {}
    for finding in answer.findings:
        for place in _places(finding):
            if place not in known and len(known) < MOST_PODS:
                try:
                    known[place] = facts_of(*place, catalogue.signs, run)
                except SourceError as error:
                    answer.source.warnings.append(f"Kubernetes was not queried: {error}")
                    return
            finding.cluster += known.get(place, [])
        _weigh_in(answer, finding, catalogue)


def urls_of(answer: Diagnosis, pages: Sequence[str] = ()) -> dict[str, str]:
    """The addresses of the engines that were read, by pod, without a path. pages: those that were scraped directly, for
    their scheme."""
    view = answer.view if isinstance(answer, DiagnosisWithSeries) else None
    own = {urlsplit(page).netloc: page.removesuffix(urlsplit(page).path) for page in pages}
    members = () if view is None else view.fleet.members
    return {one.pod: own.get(one.instance, f"http://{one.instance}") for one in members if ":" in one.instance}


def probe_pods(answer: Diagnosis, catalogue: Catalogue, urls: Mapping[str, str], headers: Mapping[str, str]) -> None:
    """Send one request of one token to the engines of the findings, or without findings to all of these (at most
    eight), and weigh the result. urls: by pod; headers: sent along. A verdict of `unknown` stays; its summary gets
    what was seen."""
    named = dict.fromkeys(pod for finding in answer.findings for pod in finding.scope.pods) or urls
    pods = [pod for pod in named if pod in urls][:MOST_PODS]
    with ThreadPoolExecutor(MOST_PODS) as pool:
        facts = dict(
            zip(
                pods,
                pool.map(lambda pod: _probed(pod, urls[pod], headers, catalogue.signs), pods),
                strict=True,
            )
        )
    if not facts:
        answer.source.warnings.append("nothing was probed: no address of an engine is known")
    for finding in answer.findings:
        finding.cluster += [facts[pod] for pod in finding.scope.pods if pod in facts]
        _weigh_in(answer, finding, catalogue)
    if not answer.findings:
        answer.summary = " ".join(
            [answer.summary, *(f"{fact.pod}: {fact.says}, {fact.detail}." for fact in facts.values())]
        )


def _probed(pod: str, url: str, headers: Mapping[str, str], signs: Mapping[str, Sign]) -> ClusterFact:
    from inferdoc.collect.probe import probe  # loads requests, which few diagnoses need

    try:
        found = probe(url, PROBE_SECONDS, headers)
    except InferdocError as error:
        return ClusterFact(pod, "probe", str(error), None, None, "the server was not probed")
    name = next((name for name, sign in signs.items() if found.outcome in sign.probe), None)
    says = signs[name].says if name else found.outcome
    return ClusterFact(pod, "probe", f"{found.detail}, {found.seconds:.2f} s", None, name, says)


def _weigh_in(answer: Diagnosis, finding: Finding, catalogue: Catalogue) -> None:
    """The same, with the certainty in the summary where it is the first finding."""
    before = finding.certainty
    weigh(finding, catalogue)
    if finding is answer.findings[0]:
        answer.summary = answer.summary.replace(f"({before})", f"({finding.certainty})", 1)


def _places(finding: Finding) -> list[tuple[str, str]]:
    namespace = finding.scope.namespace or ""
    names = [pod for pod in finding.scope.pods if NAME.fullmatch(pod)]
    return [(namespace, pod) for pod in names] if NAME.fullmatch(namespace) else []


def weigh(finding: Finding, catalogue: Catalogue) -> None:
    """Signs that speak for a finding prove it; signs that speak against it, or for one of its rivals alone, leave it
    possible."""
    signs: Mapping[str, Sign] = {fact.sign: catalogue.signs[fact.sign] for fact in finding.cluster if fact.sign}
    certainty = finding.certainty
    if any(finding.id in sign.speaks_for for sign in signs.values()):
        certainty = "proven"
    else:
        if any(finding.id in sign.speaks_against for sign in signs.values()):
            certainty = "possible"
        for rival in finding.differential:
            signs_of_rival = [sign.says for sign in signs.values() if rival.id in sign.speaks_for]
            rival.speaks_for += signs_of_rival
            if signs_of_rival:
                certainty = "possible"
    known = finding.probability is not None
    finding.regrade(certainty, catalogue.calibration.probability(certainty) if known else None)

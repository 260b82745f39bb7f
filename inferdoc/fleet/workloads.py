"""Find the workload of a pod from its owner or its name.

Names of pods: a Deployment's are `<deployment>-<hash of the pod template>-<5 characters>`, a StatefulSet's
`<set>-<ordinal>`; the characters are those of Kubernetes' `rand.String` (k8s.io/apimachinery/pkg/util/rand: no vowels,
no 0, 1, 3), the hash is up to ten of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

REPLICA_SET = re.compile(r"(?P<workload>.+)-(?P<template>[bcdf-hj-np-tv-z2456789]{6,10})")
REPLICA_SET_POD = re.compile(REPLICA_SET.pattern + "-[bcdf-hj-np-tv-z2456789]{5}")
ORDINAL = re.compile(r"(?P<workload>.+?)(?:-\d+)+")


def workload(pod: str, owners: Mapping[str, str] | None = None) -> tuple[str, str]:
    """(workload, pod template) from the owner of a pod or its name; the template is empty if unknown."""
    owner = (owners or {}).get(pod, "")
    by_name = REPLICA_SET_POD.fullmatch(pod)
    if owner:
        replica_set = REPLICA_SET.fullmatch(owner)
        return (replica_set["workload"], replica_set["template"]) if replica_set else (owner, "")
    if by_name:
        return by_name["workload"], by_name["template"]
    ordinal = ORDINAL.fullmatch(pod)
    return (ordinal["workload"] if ordinal else pod), ""

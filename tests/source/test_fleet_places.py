"""Whole families are read in parts; what is of no family is read where it may matter."""

from __future__ import annotations

from inferdoc.source.fleet_places import FleetPlaces

FAMILIES = {("", name, "m"): {("", name, f"{name}-0"), ("", name, f"{name}-1")} for name in ("a", "b", "c")}
HOSTS = {"node-a": {("", "a", "a-0")}, "node-shared": {("", "a", "a-1"), ("", "b", "b-0")}}


def target(namespace: str, pod: str, instance: str = "") -> dict[str, str]:
    return {"namespace": namespace, "pod": pod, "instance": instance or f"{pod}:8000"}


PODS = [target(name, f"{name}-{number}") for name in ("a", "b", "c") for number in (0, 1)]
REST = [
    target("a", "router-a"),
    target("infra", "router-of-all"),
    target("", "", "node-a:9400"),
    target("", "", "node-shared:9400"),
]


def read_in(place: int, most: int) -> set[str]:
    places = FleetPlaces.of(FAMILIES, HOSTS, PODS + REST, lambda each: ("", each["namespace"], each["pod"]))
    left, kept = places.divided(places.parts(most)[place])
    assert len(left) + len(kept) == len(PODS + REST)
    return {each["pod"] or each["instance"] for each in kept}


def test_a_part_has_whole_families_and_its_routers_and_hosts():
    assert read_in(0, 3) == {"a-0", "a-1", "router-a", "router-of-all", "node-a:9400", "node-shared:9400"}
    assert read_in(1, 3) == {"b-0", "b-1", "router-of-all", "node-shared:9400"}
    assert read_in(2, 3) == {"c-0", "c-1", "router-of-all"}


def test_families_share_a_part_as_far_as_they_fit():
    assert {"a-0", "b-0", "router-a"} <= read_in(0, 6) and "c-0" not in read_in(0, 6)
    assert read_in(0, 100) == {each["pod"] or each["instance"] for each in PODS + REST}

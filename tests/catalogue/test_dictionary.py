"""The shipped dictionary: sound, read by somebody, and without numbers in the recipes; the schemas for editors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest
from msgspec import structs

from inferdoc.catalogue.conditions import AllOf, AnyOf, Level, Move, Not, Presence
from inferdoc.catalogue.document import decode, read_yaml
from inferdoc.catalogue.load import load_catalogue
from inferdoc.catalogue.observation import Name, fact_of
from inferdoc.catalogue.recipe_file import FamilyFile, RecipeFile
from inferdoc_dev.generate.editor_schema import FILES, editor_schema, schema_changes

CATALOGUE = load_catalogue()
FOLDER = Path(__file__).resolve().parents[2] / "diagnostics"
PLACES = [CATALOGUE.origin["recipe", name] for name in CATALOGUE.recipes]
OBSERVATIONS = editor_schema("observations.schema.json", CATALOGUE)
DECIDES = "needs|witnesses|impact|supported_by|proven_by|excluded_by|stages|critical_when|pool_share"


def named(name: Name) -> Iterator[str]:
    """An observation and all that it is made of."""
    plain = name if isinstance(name, str) else str(name.observation or name.not_)
    yield plain
    for part in CATALOGUE.dictionary.observations[plain].parts:
        yield from named(part)


def test_the_catalogue_is_sound():
    assert CATALOGUE.problems() == []


def test_every_observation_and_every_step_is_used():
    files = [decode(path, RecipeFile) for path in PLACES]
    watched = {fact for row in CATALOGUE.health for name in (*row.shows, *row.only_with) for fact in named(name)}
    families = decode(FOLDER / "families.yaml", FamilyFile).families.values()
    shown = {fact for family in families for name in family.shown_by for fact in named(name)}
    used = watched | shown | {fact for file in files for _, name in file.names() for fact in named(name)}
    assert used == CATALOGUE.dictionary.observations.keys()
    uses = [use for file in files for use in file.next_steps] + [use for one in families for use in one.next_steps]
    steps = {use if isinstance(use, str) else use.step for use in uses}
    assert steps - {None} == CATALOGUE.actions.keys()


def test_what_decides_stands_in_the_recipes_without_a_number():
    for path in PLACES:
        key = ""
        for line in path.read_text("utf-8").splitlines():
            key = line if re.match(r"[a-z_]+:", line) else key
            if re.match(f"({DECIDES}):", key) and not line.lstrip().startswith("#"):
                facts = re.sub(r'"[^"]*"', "", line)
                assert not re.search(r"(?<![a-z_])\d", re.sub(r"k_of: \d+", "", facts)), f"{path.name}: {line}"


def test_no_two_observations_say_the_same():
    plain = [CATALOGUE.dictionary.condition(name) for name in CATALOGUE.dictionary.observations]
    assert len(set(plain)) == len(plain)


def test_the_recipes_are_short():
    assert sum(len(path.read_text("utf-8").splitlines()) for path in PLACES) <= 1629, "half of what they once were"


def test_the_schemas_for_editors_are_up_to_date():
    assert sorted(FILES) == sorted(path.name for path in FOLDER.glob("*.schema.json"))
    assert schema_changes(FOLDER, CATALOGUE) == [], "run python -m inferdoc_dev.generate"


def test_the_schema_takes_the_dictionary_as_it_is():
    jsonschema.validate(read_yaml(FOLDER / "observations.yaml"), OBSERVATIONS)


@pytest.mark.parametrize(
    "wrong",
    [
        {"signal": "waiting"},
        {"signal": "waiting", "above": 3, "rises": 2},
        {"signal": "waiting", "above": 3, "within": "1m"},
        {"signal": "waiting", "reaches": 3},
        {"above": 3},
        {"signal": "waiting", "present": False},
        {"any": ["queue_grows"], "signal": "waiting"},
    ],
)
def test_the_schema_takes_only_the_keys_of_one_kind(wrong):
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"observations": {"it": wrong}}, OBSERVATIONS)


def test_a_condition_is_as_its_keys_say():
    fact = fact_of({"signal": "waiting", "falls": 0.5, "for": "20s", "by": 3.0})
    assert fact == Move(signal="waiting", ratio=0.5, up=False, for_="20s", by=3.0)
    assert hash(fact) == hash(Move(signal="waiting", ratio=0.5, up=False, for_="20s", by=3.0))
    assert fact not in {Move(signal="waiting", ratio=0.5, up=True, for_="20s", by=3.0)}
    assert fact_of({"signal": "waiting", "stalls": "load"}) != fact_of({"signal": "waiting", "follows": "load"})


def test_what_a_group_needs_is_worked_out_once():
    late = Move(signal="ttft_mean", ratio=1.5, up=True, average=True)
    group = AllOf((Level(signal="waiting", limit=3, up=True), AnyOf((Not(late), Presence(signal="up", there=True)))))
    assert group.needs_split and group.needs_split is vars(group)["needs_split"]
    assert group.signals == ("waiting", "ttft_mean", "up") and group.signals is group.signals
    assert not Not(structs.replace(late, average=False)).needs_split


def test_a_row_of_the_monitoring_table_names_observations_there_are(tmp_path):
    row = "{title: T, signals: [running], judge: trend, says: s, do: d, shows: [tokens_slw]}"
    (tmp_path / "collectors").mkdir()
    (tmp_path / "collectors" / "health.yaml").write_text(f"rows:\n  - {row}\n")
    (problem,) = load_catalogue([tmp_path]).problems()
    assert 'no such observation "tokens_slw"' in problem and "tokens_slow" in problem

"""The comparison of declared names with those in the source of a release."""

from __future__ import annotations

import zipfile

import pytest

from inferdoc.catalogue.signal import Exporter, Former, Metric, Unneeded
from tools.check_releases import compare, names_in_source

ENGINE = Exporter(
    exporter="engine",
    title="Engine",
    endpoint="/metrics",
    metrics={
        "engine:requests_total": Metric("counter", "requests"),
        "engine:renamed": Metric("gauge", "new name", since="0.3.0", formerly=(Former("engine:first", "0.2"),)),
        "engine:later": Metric("histogram", "since 0.4", since="0.4.0"),
    },
    unneeded=(Unneeded("engine:inside_.*", "inside the engine"),),
)


@pytest.fixture
def wheel(tmp_path):
    path = tmp_path / "engine-0.2.5-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as made:
        made.writestr(
            "engine/metrics.py", 'Counter("engine:requests")\nGauge(name="engine:first")\nG("engine:inside_a")\n'
        )
        made.writestr(
            "engine/late.py", 'Histogram("engine:later")\nGauge("engine:unheard_of")\nprint("engine: hello")\n'
        )
        made.writestr("engine/tests/test_it.py", 'Gauge("engine:of_a_test")\n')
        made.writestr("engine/notes.txt", '"engine:of_a_text"')
    return path


def test_names_of_a_wheel_are_its_constants_outside_tests(wheel):
    names = {"requests", "first", "inside_a", "later", "unheard_of"}
    assert names_in_source(wheel, "engine") == {f"engine:{name}" for name in names}


def test_a_folder_is_read_like_a_wheel(wheel, tmp_path):
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(tmp_path / "checkout")
    assert names_in_source(tmp_path / "checkout", "engine") == names_in_source(wheel, "engine")


def test_what_is_undeclared_gone_or_early_is_listed(wheel):
    found = compare(ENGINE, names_in_source(wheel, "engine"), "0.2.5")
    assert (found.undeclared, found.gone, found.early) == (("engine:unheard_of",), (), ("engine:later",))


def test_a_former_name_is_expected_until_its_last_release(wheel):
    found = compare(ENGINE, names_in_source(wheel, "engine"), "0.3.0")
    assert found.gone == ("engine:renamed",)


def test_a_checkout_is_the_newest_of_all(wheel):
    found = compare(ENGINE, names_in_source(wheel, "engine"), None)
    assert (found.gone, found.early) == (("engine:renamed",), ())

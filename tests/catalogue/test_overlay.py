"""Where content is found, and how a user's folder overlays it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from inferdoc.catalogue import content
from inferdoc.catalogue.content import (
    FOLDERS,
    content_file,
    content_files,
    content_folders,
    content_root,
    overlay_paths,
)
from inferdoc.catalogue.load import load_catalogue
from inferdoc.errors import CatalogueError
from tests.catalogue.conftest import Write, recipe

ROOT = Path(__file__).resolve().parents[2]


def test_the_checkout_is_found() -> None:
    assert content_root() == ROOT
    for folder in FOLDERS:
        assert content_folders(folder) == (ROOT / folder,)


def test_an_installed_package_brings_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "site-packages" / "inferdoc"
    shutil.copytree(ROOT / "collectors", package / "content" / "collectors")
    monkeypatch.setattr(content, "PACKAGE", package)
    assert content_root() == package / "content"
    assert content_file("collectors", "vllm.yaml") == package / "content" / "collectors" / "vllm.yaml"


def test_a_lost_catalogue_is_one_clear_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content, "PACKAGE", tmp_path / "inferdoc")
    with pytest.raises(CatalogueError, match=r"shipped catalogue is missing; reinstall inferdoc-toolkit$"):
        content_root()


def test_a_new_file_adds(overlay: Path, write: Write) -> None:
    path = write("diagnostics/my-queue.yaml", recipe("my-queue"))
    catalogue = load_catalogue([overlay])
    assert catalogue.recipes["my-queue"].title == "Queue grows without end"
    assert catalogue.origin["recipe", "my-queue"] == path
    assert set(load_catalogue().recipes) == set(catalogue.recipes) - {"my-queue"}


def test_a_file_of_the_same_name_replaces(overlay: Path, write: Write) -> None:
    text = (ROOT / "collectors" / "tiers.yaml").read_text(encoding="utf-8")
    path = write(
        "collectors/tiers.yaml", text.replace("kv_usage_high:             {value: 0.90", "kv_usage_high: {value: 0.85")
    )
    catalogue = load_catalogue([overlay], strict=False)
    assert catalogue.tiers.thresholds["kv_usage_high"].value == 0.85
    assert catalogue.origin["tiers", "tiers"] == path
    assert load_catalogue().tiers.thresholds["kv_usage_high"].value == 0.90


def test_the_last_overlay_wins(overlay: Path, write: Write, tmp_path: Path) -> None:
    write("diagnostics/my-queue.yaml", recipe("my-queue"))
    other = tmp_path / "theirs" / "diagnostics"
    other.mkdir(parents=True)
    (other / "my-queue.yaml").write_text(recipe("my-queue", "Queue grows", "Line grows"), encoding="utf-8")
    assert load_catalogue([overlay, tmp_path / "theirs"]).recipes["my-queue"].title == "Line grows without end"
    assert load_catalogue([tmp_path / "theirs", overlay]).recipes["my-queue"].title == "Queue grows without end"


def test_a_users_exporter_and_signals_add(overlay: Path, write: Write) -> None:
    write(
        "collectors/billing.yaml",
        """\
        exporter: billing
        title: Billing gateway
        endpoint: /metrics
        metrics:
          billing_tokens_total: {type: counter, meaning: Tokens billed, unit: tokens}
        """,
    )
    write(
        "collectors/signals-billing.yaml",
        """\
        signals:
          billed_rate:
            title: Tokens billed
            unit: tokens/s
            harm: info
            level: target
            readings: [{rate: billing_tokens_total}]
        """,
    )
    catalogue = load_catalogue([overlay], strict=True)
    assert "billed_rate" in catalogue.signals and "ttft_p99" in catalogue.signals
    assert catalogue.spellings["billing_tokens_total"].exporter == "billing"


def test_the_same_overlays_are_loaded_once(overlay: Path) -> None:
    assert load_catalogue([overlay]) is load_catalogue([str(overlay)])
    assert load_catalogue() is not load_catalogue([overlay])


def test_hidden_files_and_other_types_are_left_alone(overlay: Path, write: Write) -> None:
    write("diagnostics/.my-queue.yaml", "half: [")
    write("diagnostics/notes.txt", "half: [")
    assert not {".my-queue.yaml", "notes.txt"} & content_files("diagnostics", overlays=[overlay]).keys()


def test_a_missing_overlay_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(CatalogueError, match="no such catalogue folder"):
        load_catalogue([tmp_path / "nowhere"])


def test_an_overlay_without_content_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(CatalogueError, match="holds at least one of collectors/, diagnostics/"):
        overlay_paths([tmp_path])


def test_only_what_is_asked_for_is_read(overlay: Path, write: Write) -> None:
    """A broken cause does not stop a command that needs signals only."""
    write("diagnostics/broken.yaml", "id: [")
    catalogue = load_catalogue([overlay])
    assert "waiting" in catalogue.signals
    with pytest.raises(CatalogueError, match=r"broken\.yaml"):
        _ = catalogue.recipes

"""`make release`: what it refuses, and that a tag has one set of checksums."""

from __future__ import annotations

import hashlib
import os
import subprocess
import tarfile

import pytest
import yaml

from inferdoc.version import __version__
from tests.packages.built import BIN, ROOT, release

MOMENT = 1_796_000_000


@pytest.mark.parametrize(
    ("tags", "changes", "said"),
    [
        ([], "", f"HEAD has no tag v{__version__}"),
        (["v9.9.9"], "", f"HEAD has no tag v{__version__}"),
        ([f"v{__version__}"], " M README.md", "uncommitted changes"),
    ],
)
def test_a_checkout_that_is_not_the_tag_is_refused(tags, changes, said):
    release.check_tag([f"v{__version__}"], "")
    with pytest.raises(release.ReleaseError, match=said):
        release.check_tag(tags, changes)


def test_the_version_is_that_of_the_newest_section_with_a_date():
    text = "# Changelog\n\n## 1.2.0 - 2026-11-27\n\n### Added\n- new\n\n## 1.1.0 - 2026-01-01\n- old\n"
    assert release.release_notes(text, "1.2.0", dated=True) == "### Added\n- new\n"
    with pytest.raises(release.ReleaseError, match=r"section 1\.2\.0, inferdoc/version\.py has 1\.3\.0"):
        release.release_notes(text, "1.3.0", dated=True)
    unreleased = text.replace("2026-11-27", "unreleased")
    assert release.release_notes(unreleased, "1.2.0", dated=False)
    with pytest.raises(release.ReleaseError, match="has no date"):
        release.release_notes(unreleased, "1.2.0", dated=True)
    assert release.release_notes((ROOT / "CHANGELOG.md").read_text("utf-8"), __version__, dated=False)


def test_an_archive_has_the_same_bytes_whenever_and_wherever_it_is_built(tmp_path):
    sums = set()
    for name, at in (("a", 1), ("b", 2_000_000_000)):
        file = tmp_path / name / "kubectl-inferdoc"
        file.parent.mkdir()
        file.write_text("#!/bin/sh\n")
        file.chmod(0o755)
        os.utime(file, (at, at))
        release.pack(tmp_path / f"{name}.tar.gz", MOMENT, {file.name: file})
        sums.add(release.sha256(tmp_path / f"{name}.tar.gz"))
    assert len(sums) == 1
    with tarfile.open(tmp_path / "a.tar.gz") as tar:
        (member,) = tar.getmembers()
    assert (member.mode, member.mtime) == (0o755, MOMENT)


def test_the_manifest_of_the_plugin_has_the_checksum_of_its_archive(tmp_path):
    archive = tmp_path / "kubectl-inferdoc.tar.gz"
    archive.write_bytes(b"x")
    manifest = yaml.safe_load(release.krew(archive, "https://releases.invalid/v1/"))
    (platform,) = manifest["spec"]["platforms"]
    assert platform["sha256"] == hashlib.sha256(b"x").hexdigest()
    assert platform["uri"] == "https://releases.invalid/v1/kubectl-inferdoc.tar.gz"
    assert manifest["spec"]["version"] == f"v{__version__}"


def test_the_workflow_runs_the_same_command_on_a_tag():
    workflow = yaml.load((ROOT / ".github" / "workflows" / "release.yml").read_text("utf-8"), yaml.BaseLoader)
    assert workflow["on"]["push"]["tags"] == ["v*"]
    scripts = [step["run"] for step in workflow["jobs"]["release"]["steps"] if "run" in step]
    assert scripts[0].startswith("make release ") and any("gh release create" in script for script in scripts)
    for script in scripts:
        subprocess.run(["bash", "-n", "-c", script], check=True)


@pytest.mark.slow
def test_a_trial_builds_every_artefact_with_its_checksum(tmp_path):
    if not (BIN / "helm").is_file():
        pytest.skip("helm is not installed: make packages brings it")
    assert release.main(["--untagged", "--out", str(tmp_path / "dist")]) == 0
    sums = dict(reversed(line.split("  ")) for line in (tmp_path / "dist" / "SHA256SUMS").read_text().splitlines())
    assert sums == {p.name: release.sha256(p) for p in (tmp_path / "dist").iterdir() if p.name in sums}
    for part in (".whl", "-image.tar.gz", "cdx.json", "-chart-", "krew.yaml", "-rules-", "-dashboards-", "kubectl-"):
        assert any(part in name for name in sums), part
    with tarfile.open(tmp_path / "dist" / f"inferdoc-rules-{__version__}.tar.gz") as tar:
        assert {f"rules/{name}/inferdoc-rules.yaml" for name in release.SETS} <= set(tar.getnames())

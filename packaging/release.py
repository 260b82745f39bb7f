#!/usr/bin/env python3
"""Build a release into dist/: `make release`, from a clean checkout at the tag v<version>.

Artefacts: wheel, sdist, build context of the image (Containerfile, wheel, lock with hashes), SBOM, Helm chart, manifest
of the kubectl plugin for krew, rules of every set, dashboards, release notes, and SHA256SUMS of all. Archives have the
time of the commit, so that a second build of a tag has the same checksums.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable
from pathlib import Path

import yaml

from inferdoc.version import __version__

ROOT = Path(__file__).resolve().parents[1]
PACKAGING = ROOT / "packaging"
CHART = PACKAGING / "chart" / "inferdoc"
SETS = ("pages", "standard", "full")
SUMS = "SHA256SUMS"
SECTION = re.compile(r"^## (\S+) - (\S+)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)


class ReleaseError(Exception):
    """The checkout is no release. One line."""


def main(arguments: list[str] | None = None) -> int:
    """Exit code 1 where the checkout is no release or a program fails."""
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--out", type=Path, default=ROOT / "dist")
    ask.add_argument("--base-url", default="", help="address of the artefacts, for the manifest of the kubectl plugin")
    ask.add_argument("--untagged", action="store_true", help="a trial: without the tag, with uncommitted changes")
    given = ask.parse_args(arguments)
    try:
        if not given.untagged:
            check_tag(git("tag", "--points-at", "HEAD").split(), git("status", "--porcelain"))
        notes = release_notes((ROOT / "CHANGELOG.md").read_text("utf-8"), __version__, dated=not given.untagged)
        release(given.out, notes, given.base_url, int(git("log", "-1", "--format=%ct")))
    except (ReleaseError, subprocess.CalledProcessError) as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    return 0


def check_tag(tags: Iterable[str], changes: str) -> None:
    """Raises ReleaseError unless HEAD is the tag of the version, without changes."""
    if f"v{__version__}" not in tags:
        raise ReleaseError(
            f"HEAD has no tag v{__version__}; run git tag v{__version__}, or give --untagged for a trial"
        )
    if changes:
        raise ReleaseError("the checkout has uncommitted changes; commit or stash them")


def release_notes(changelog: str, version: str, *, dated: bool) -> str:
    """The section of a version. Raises ReleaseError where the newest section is of another version or has no date."""
    newest = SECTION.search(changelog)
    if newest is None or newest[1] != version:
        found = "no section" if newest is None else f"section {newest[1]}"
        raise ReleaseError(f"CHANGELOG.md begins with {found}, inferdoc/version.py has {version}; make them equal")
    if dated and not re.fullmatch(r"\d{4}-\d\d-\d\d", newest[2]):
        raise ReleaseError(f"CHANGELOG.md: section {version} has no date; write ## {version} - YYYY-MM-DD")
    return newest[3].strip() + "\n"


def release(out: Path, notes: str, base_url: str, moment: int) -> None:
    """Write the artefacts and their checksums. moment: Unix seconds of the commit."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("INFERDOC_")}
    run([sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--target", "sdist", "--directory", out])
    (wheel,) = out.glob("*.whl")
    lock = PACKAGING / "requirements.txt"
    pack(out / f"inferdoc-{__version__}-image.tar.gz", moment, {
        path.name: path for path in (PACKAGING / "Containerfile", lock, wheel)
    })  # fmt: skip
    run(["make", "sbom", f"SBOM={out / 'inferdoc.cdx.json'}"])
    with tempfile.TemporaryDirectory(prefix="inferdoc-") as folder:
        build = Path(folder)
        run(["helm", "package", CHART, "--destination", build, "--version", __version__, "--app-version", __version__])
        repack(build / f"inferdoc-{__version__}.tgz", out / f"inferdoc-chart-{__version__}.tgz", moment)
        for name in SETS:
            run([*inferdoc(), "alerts", "build", "--set", name, "--out", build / "rules" / name], environment)
        run([*inferdoc(), "dashboards", "build", "--provisioning", "--out", build / "dashboards"], environment)
        for name in ("rules", "dashboards"):
            paths = sorted(path for path in (build / name).rglob("*") if path.is_file())
            files = {str(path.relative_to(build)): path for path in paths}
            pack(out / f"inferdoc-{name}-{__version__}.tar.gz", moment, files)
        plugin = build / "kubectl-inferdoc"
        plugin.write_text(PLUGIN.format(version=__version__))
        plugin.chmod(0o755)
        archive = out / f"kubectl-inferdoc-{__version__}.tar.gz"
        pack(archive, moment, {plugin.name: plugin, "LICENSE": ROOT / "LICENSE"})
    (out / "inferdoc.krew.yaml").write_text(krew(archive, base_url))
    (out / "RELEASE.md").write_text(notes)
    artefacts = sorted(path for path in out.iterdir() if path.name not in (SUMS, ".gitignore"))
    (out / SUMS).write_text("".join(f"{sha256(path)}  {path.name}\n" for path in artefacts))
    for path in artefacts:
        print(f"{path.stat().st_size:>10,}  {path.name}")


PLUGIN = """\
#!/bin/sh
# kubectl inferdoc: the program of the package inferdoc-toolkit, installed or run by uv or pipx.
if command -v inferdoc >/dev/null; then exec inferdoc "$@"; fi
if command -v uvx >/dev/null; then exec uvx --from 'inferdoc-toolkit[all]=={version}' inferdoc "$@"; fi
if command -v pipx >/dev/null; then exec pipx run --spec 'inferdoc-toolkit[all]=={version}' inferdoc "$@"; fi
echo "kubectl inferdoc: inferdoc is not installed; run pip install 'inferdoc-toolkit[all]=={version}'" >&2
exit 127
"""


def krew(archive: Path, base_url: str) -> str:
    """The manifest of the plugin (https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest/)."""
    platforms = [
        {
            "selector": {"matchExpressions": [{"key": "os", "operator": "In", "values": ["linux", "darwin"]}]},
            "uri": f"{base_url.rstrip('/')}/{archive.name}" if base_url else archive.name,
            "sha256": sha256(archive),
            "bin": "kubectl-inferdoc",
            "files": [{"from": "*", "to": "."}],
        }
    ]
    manifest = {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "inferdoc"},
        "spec": {
            "version": f"v{__version__}",
            "shortDescription": "Diagnose LLM inference fleets",
            "description": "Reads metrics of vLLM fleets and prints the cause, the onset, the pods and the next steps.",
            "platforms": platforms,
        },
    }
    return yaml.safe_dump(manifest, sort_keys=False)


def pack(archive: Path, moment: int, files: dict[str, Path]) -> None:
    """A tar.gz of files by their names inside, the same bytes for the same files."""
    members = {name: (path.read_bytes(), path.stat().st_mode & 0o777) for name, path in files.items()}
    write_tar(archive, moment, members)


def repack(source: Path, archive: Path, moment: int) -> None:
    """The chart that helm packed, with the time of the commit."""
    with tarfile.open(source) as tar:
        members = {}
        for member in tar.getmembers():
            found = tar.extractfile(member)
            members[member.name] = (found.read() if found else b"", 0o644)
    write_tar(archive, moment, members)


def write_tar(archive: Path, moment: int, members: dict[str, tuple[bytes, int]]) -> None:
    """members: content and mode by name."""
    with (
        archive.open("wb") as raw,
        gzip.GzipFile(fileobj=raw, mode="wb", filename="", mtime=moment) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for name, (content, mode) in sorted(members.items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime, entry.mode = len(content), moment, mode
            tar.addfile(entry, io.BytesIO(content))


def sha256(path: Path) -> str:
    """The checksum, hexadecimal."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def git(*words: str) -> str:
    """What git prints. Raises CalledProcessError."""
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def inferdoc() -> list[str]:
    """The command of this checkout."""
    return [str(Path(sys.executable).with_name("inferdoc"))]


def run(words: list[str | Path], environment: dict[str, str] | None = None) -> None:
    """Run a program in the checkout, quietly. Raises CalledProcessError; its output is then on standard error."""
    path = os.pathsep.join((str(ROOT / "build" / "bin"), os.environ.get("PATH", os.defpath)))
    full = {**(environment or os.environ), "PATH": path}
    done = subprocess.run(
        [str(word) for word in words], cwd=ROOT, env=full, capture_output=True, text=True, check=False
    )
    if done.returncode:
        print(done.stdout + done.stderr, file=sys.stderr)
        done.check_returncode()


if __name__ == "__main__":
    sys.exit(main())

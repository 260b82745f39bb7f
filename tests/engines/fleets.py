"""Simulated fleets of every engine: each incident runs once, with the pages of all engines, and is then seen as one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from msgspec import structs

from inferdoc.catalogue.aliases import HISTOGRAM_PARTS
from inferdoc.catalogue.load import load_catalogue
from inferdoc.collect.samples import Layout, Page, Series
from inferdoc.simulate import scrape
from inferdoc.simulate.output import write_store
from inferdoc.simulate.scenario_files import load_scenario
from inferdoc.simulate.scrape import Scraped, at_version, router_at_version
from inferdoc.simulate.stats import Item
from inferdoc.store import Store
from inferdoc_dev.incidents.recording import record
from tests.engines.pages import engine_page, translated

WORKERS = ("sglang", "trtllm", "tgi", "triton", "lmdeploy", "nim", "dynamo-worker")
ROUTERS = ("dynamo-frontend",)
OF_ENGINES = ("vllm:", "process_", "python_", "http_requests_total", "http_request_")
"""What a page of the simulator's vLLM consists of."""
OF_ROUTERS = ("llm_d_epp_", "inference_")


@dataclass(frozen=True)
class Kind:
    """A kind of fleet. pages: of its pods and routers; colons: whether the scraper takes them."""

    pages: tuple[str, ...]
    colons: bool = True


KINDS: Mapping[str, Kind] = {
    "sglang": Kind(("sglang",)),
    "sglang_": Kind(("sglang",), colons=False),
    "trtllm": Kind(("trtllm",)),
    "tgi": Kind(("tgi",)),
    "triton": Kind(("triton",)),
    "lmdeploy": Kind(("lmdeploy",)),
    "nim": Kind(("nim",)),
    "dynamo": Kind(("sglang", "dynamo-worker", "dynamo-frontend")),
}


@dataclass
class EngineFleets:
    """Stores by kind of fleet and incident, each made on first use."""

    folder: Path
    _recorded: dict[str, list[Scraped]] = field(default_factory=dict)

    def store(self, kind: str, incident: str) -> Path:
        """The store of an incident in a fleet of that kind."""
        path = self.folder / f"{kind}-{incident}.db"
        if not path.exists():
            if incident not in self._recorded:
                self._recorded[incident] = recorded(incident)
            with Store.open(path, "w") as store:
                write_store(seen_as(KINDS[kind], self._recorded[incident]), store)
        return path


def recorded(incident: str) -> list[Scraped]:
    """Every target of an incident, with the pages of all engines on those of the engines."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scrape, "at_version", _with(at_version, WORKERS))
        patch.setattr(scrape, "router_at_version", _with(router_at_version, ROUTERS))
        scenario = load_scenario(incident)
        exporters = structs.replace(scenario.exporters, kube=True, kube_lineage=True)
        return record(structs.replace(scenario, exporters=exporters)).targets


def _with(
    plain: Callable[[Iterable[Item], str], Iterator[Item]], pages: Sequence[str]
) -> Callable[[Iterable[Item], str], Iterator[Item]]:
    def every(items: Iterable[Item], version: str) -> Iterator[Item]:
        own = list(plain(items, version))
        yield from own
        for page in pages:
            yield from translated(own, page)

    return every


def seen_as(kind: Kind, targets: Iterable[Scraped]) -> Iterator[Scraped]:
    """The targets without the pages of other engines."""
    others = {name for page in (*WORKERS, *ROUTERS) if page not in kind.pages for name in _names(page)}
    tells_start = any(engine_page(page).process for page in kind.pages)
    layouts: dict[bytes, tuple[np.ndarray, Layout]] = {}

    def stays(name: str) -> bool:
        if name.startswith("process_") and tells_start:
            return True
        return name not in others and not name.startswith((*OF_ENGINES, *OF_ROUTERS))

    def cut(page: Page) -> Page:
        digest = page.layout.digest
        if digest not in layouts:
            kept = np.array([stays(one.name) for one in page.layout.series])
            layouts[digest] = kept, _layout(page.layout, kept, kind.colons)
        kept, layout = layouts[digest]
        return Page(layout, page.values[kept])

    for target in targets:
        yield Scraped(target.labels, [(stamp, cut(page)) for stamp, page in target.pages])


def _names(page: str) -> Iterator[str]:
    metrics = load_catalogue().exporters[engine_page(page).exporter].metrics
    for name in metrics:
        created = f"{name}_created", f"{name.removesuffix('_total')}_created"
        yield from (name, *(name + part for part in HISTOGRAM_PARTS), *created)


def _layout(layout: Layout, kept: np.ndarray, colons: bool) -> Layout:
    def spelled(name: str) -> str:
        return name if colons else name.replace(":", "_")

    series = [one for one, stays in zip(layout.series, kept, strict=True) if stays]
    return Layout(
        [Series(spelled(one.name), one.labels) for one in series],
        {spelled(name): kind for name, kind in layout.types.items()},
    )

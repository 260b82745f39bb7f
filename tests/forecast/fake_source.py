"""A source whose signals a test makes, with the one signature that reads need."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from inferdoc.source.base import SourceKind
from inferdoc.source.frame import Entity, SignalFrame, SignalMatrix
from inferdoc.source.reads import Grid


class FakeSource:
    """Answers with `rows`. end: Unix seconds of the newest sample; reads: the signals of each read; begins: where each
    began."""

    kind: SourceKind = "store"

    def __init__(self, end: int) -> None:
        self.end = end
        self.reads: list[tuple[str, ...]] = []
        self.begins: list[float] = []

    def latest_ms(self) -> int | None:
        return self.end * 1000

    def rows(self, signal: str, times: np.ndarray) -> Mapping[Entity, np.ndarray]:
        """float64[n] of each entity that shows the signal, at Unix seconds `times`."""
        raise NotImplementedError

    def read(
        self,
        signals: Iterable[str],
        start: float,
        end: float,
        step: float | None = None,
        match: object = (),
        window: float | None = None,
    ) -> SignalFrame:
        assert step is not None
        self.reads.append(tuple(signals))
        self.begins.append(start)
        count = round((end - start) / step) + 1
        frame = SignalFrame(Grid(round(start * 1000), round(step * 1000), count, 15000, 75000, 37500))
        for signal in self.reads[-1]:
            rows = self.rows(signal, frame.times)
            if rows:
                frame.signals[signal] = SignalMatrix(list(rows), np.stack(list(rows.values())))
        return frame

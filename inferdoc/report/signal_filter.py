"""Filter the signal table; filters apply after all signals are compared."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from inferdoc.catalogue.document import nearest
from inferdoc.catalogue.load import Catalogue
from inferdoc.errors import InferdocError
from inferdoc.report.health import Line
from inferdoc.report.natural_sort import natural
from inferdoc.report.signals import Row


@dataclass(frozen=True)
class Shown:
    """pod, namespace: None for all; signals: empty for all."""

    pod: str | None = None
    namespace: str | None = None
    signals: tuple[str, ...] = ()

    def rows(self, rows: Sequence[Row], catalogue: Catalogue) -> list[Row]:
        """The selected rows. Raises InferdocError for an unknown name."""
        self._check(rows, catalogue)
        return [row for row in rows if self._keeps(row) and row.signal in (self.signals or (row.signal,))]

    def lines(self, lines: Sequence[Line], catalogue: Catalogue) -> list[Line]:
        """The same of the monitoring table; invisible signals are omitted if a pod or namespace is selected."""
        self._check([row for line in lines for row in line.values], catalogue)
        kept = []
        for line in lines:
            chosen = [(r, s) for r, s in zip(line.values, line.states, strict=True) if self._keeps(r)]
            sights = tuple(sight for sight in line.sights if self._is_of(sight.pod, sight.namespace))
            selections = not self.signals or line.signal in self.signals
            if selections and (chosen or sights or not (line.values or self.pod or self.namespace)):
                values, states = tuple(row for row, _ in chosen), tuple(state for _, state in chosen)
                kept.append(replace(line, values=values, states=states, sights=sights))
        return kept

    def _keeps(self, row: Row) -> bool:
        return self._is_of(row.pod.split(" ")[0], row.namespace)

    def _is_of(self, pod: str, namespace: str) -> bool:
        return self.pod in (None, pod) and self.namespace in (None, namespace)

    def _check(self, rows: Iterable[Row], catalogue: Catalogue) -> None:
        for name in self.signals:
            if name not in catalogue.signals:
                raise InferdocError(f"--signal {name}: no such signal{nearest(name, catalogue.signals)}")
        there = list(rows)
        selections = (
            ("--pod", self.pod, {row.pod.split(" ")[0] for row in there}),
            ("--namespace", self.namespace, {row.namespace for row in there}),
        )
        for option, value, known in selections:
            if value is not None and value not in known:
                listed = ", ".join(sorted(filter(None, known), key=natural)[:5]) or "none that have one"
                near = nearest(value, known)
                raise InferdocError(f"{option} {value}: no such {option.removeprefix('--')}{near}; there are {listed}")

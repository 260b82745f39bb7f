"""VictoriaMetrics: how it is recognised, and how its raw samples are requested."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np

from inferdoc.source.export_lines import BudgetError, RawSeries, SampleBudget, read_lines
from inferdoc.source.prometheus_answers import AnswerError
from inferdoc.source.prometheus_errors import PrometheusError, TooMuchError, shorten
from inferdoc.source.prometheus_http import Client, ReadDeadline
from inferdoc.source.raw_reads import MOST_SAMPLES

SIGN = "X-Server-Hostname"
"""A header of every answer of its components (lib/httpserver), vmauth's too; a proxy hands it on."""
LONGEST_MS = 24 * 3_600_000
"""Samples of a longer time range are not moved: the server adds up what it has."""
NAMES_AT_ONCE = 8
LABELS_KEPT = 30
"""Of a series with more labels, `__name__` among them, releases before 1.108 drop the rest (-maxLabelsPerTimeseries);
vLLM's cache_config_info has more."""
NOT_HANDED_OUT = (400, 403, 404, 405, 501)
"""What a vmauth without that route answers (400), or a proxy that lets only queries through."""

Parallel = Callable[[Sequence[Callable[[], list[RawSeries]]], ReadDeadline], list[list[RawSeries]]]


class Exports:
    """Reads samples from one server. parallel: does jobs some at a time."""

    def __init__(self, client: Client, parallel: Parallel) -> None:
        self._client = client
        self._parallel = parallel
        self._refused = False
        self._recognised = False

    @property
    def recognised(self) -> bool:
        """Whether the server is a VictoriaMetrics, by what it answered so far (every reading begins by looking for
        names or for the newest sample)."""
        self._recognised = self._recognised or SIGN in self._client.headers
        return self._recognised

    def usable(self, range_ms: int) -> bool:
        """Whether a time range is to be read by samples."""
        if self._refused or not self.recognised:
            return False
        if range_ms > LONGEST_MS:
            self._client.warn(
                f"time ranges of more than {LONGEST_MS // 3_600_000} hours are read by the rate of VictoriaMetrics, "
                "which differs from that of Prometheus by a few per cent; ask for a shorter one where that matters"
            )
            return False
        return True

    def refused(self, error: PrometheusError) -> bool:
        """Whether an error says that the server hands out no samples: it is reported once, and not requested again."""
        if isinstance(error, TooMuchError) or error.status not in NOT_HANDED_OUT:
            return False
        self._refused = True
        self._client.warn(
            f"{self._client.where} hands out no samples (/api/v1/export: {error.status}), so rates are those of "
            "VictoriaMetrics, which differ from those of Prometheus by a few per cent; allow that path"
        )
        return True

    def series(
        self,
        selectors: Sequence[str],
        start_ms: int,
        end_ms: int,
        deadline: ReadDeadline,
    ) -> list[RawSeries]:
        """All series that any of the selectors chooses, with their samples in [start, end]. Raises TooMuchError,
        PrometheusError."""
        budget = SampleBudget(MOST_SAMPLES)
        times: dict[bytes, np.ndarray] = {}

        def take(chunks: Iterator[bytes]) -> list[RawSeries]:
            try:
                return read_lines(chunks, budget, times)
            except AnswerError as error:
                raise self._unreadable(str(error)) from None
            except BudgetError:
                raise TooMuchError(
                    f"{self._client.where} has more than {budget.most:,} samples of that time range; "
                    "ask for a shorter window or for fewer pods (-l)"
                ) from None

        failed: list[TooMuchError] = []

        def job(some: Sequence[str]) -> list[RawSeries]:
            """Nothing where it is too much: a shorter time range is requested next, so nothing is called off."""
            if failed:
                return []
            try:
                return requested(some)
            except TooMuchError as error:
                failed.append(error)
                return []

        def requested(some: Sequence[str]) -> list[RawSeries]:
            params: dict[str, str | list[str]] = {
                "match[]": list(some),
                "start": f"{start_ms / 1000:.3f}",
                "end": f"{end_ms / 1000:.3f}",
            }
            return self._client.stream("export", params, deadline, take)

        parts = [selectors[at : at + NAMES_AT_ONCE] for at in range(0, len(selectors), NAMES_AT_ONCE)]
        answers = self._parallel([partial(job, part) for part in parts], deadline)
        if failed:
            raise failed[0]
        found = [one for answer in answers for one in answer]
        for name in sorted({one.name for one in found if len(one.labels) + 1 == LABELS_KEPT}):
            self._client.warn(
                f"{name} has {LABELS_KEPT} labels, as many as VictoriaMetrics keeps by default; was more dropped when "
                f"it was stored? -maxLabelsPerTimeseries={2 * LABELS_KEPT} keeps all"
            )
        return found

    def _unreadable(self, why: str) -> PrometheusError:
        """An error while samples are sent stands at the end of them, where the head has already said 200."""
        what = shorten(self._client.access.redact(why))
        return PrometheusError(f"{self._client.where} sent samples that cannot be read ({what}); see the server's log")

"""A capsule: one file with the samples that a diagnosis was made of, its document and what was configured.

It is a zip of `capsule.json` (the request and the document) and `samples-N.om` (OpenMetrics text with timestamps,
one per time range: the window with its history, and an earlier day if the diagnosis was compared with one).
"""

from __future__ import annotations

import io
import lzma
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO, cast

import msgspec

from inferdoc.catalogue.load import Catalogue, load_catalogue
from inferdoc.catalogue.recognise_names import NameReader
from inferdoc.config import Config, promises_of
from inferdoc.config_sections import LabelsSection, PodSection, SloSection
from inferdoc.errors import NOT_JSON, InferdocError
from inferdoc.fleet.members import FleetFilter, assignments_of
from inferdoc.incidents.record import Record
from inferdoc.judging.api import diagnose
from inferdoc.judging.model import Diagnosis, seconds
from inferdoc.judging.request import options_of
from inferdoc.judging.session import Options
from inferdoc.replacing import PRIVATE, replace_file
from inferdoc.source.identified import Identified
from inferdoc.source.open import open_source
from inferdoc.source.prometheus import PrometheusSource
from inferdoc.source.prometheus_answers import AnswerSeries
from inferdoc.store import Store, export, import_file
from inferdoc.times import around_window, resolve_window
from inferdoc.version import __version__

CAPSULE_SCHEMA_ID = "inferdoc.capsule/v1"
LEAD_MS = 7_200_000
"""History before the window: at least half an hour, and at least the length of the window."""
FAR_MS = 600_000
"""Margin around an earlier baseline range."""
LARGEST_SAMPLES = 2 << 30
LARGEST_DOCUMENT = 64 << 20
_NO_ARCHIVE = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, KeyError, RuntimeError, EOFError, *NOT_JSON)
"""What zipfile raises: RuntimeError also for an encrypted entry or an unknown method."""
FOCUS = ("model", "namespace", "tier", "role", "pod", "cluster")


class CapsuleError(InferdocError):
    """A file is no capsule, or one cannot be made."""


class Capsule(msgspec.Struct):
    """What `capsule.json` holds. from_ms, until_ms: of the request, milliseconds since 1970, until_ms None for up
    to the newest sample; focus: by name; pods, slo, labels, disabled: as configured; document: the diagnosis."""

    schema: str
    inferdoc_version: str
    from_ms: int
    until_ms: int | None
    focus: dict[str, str]
    pods: list[PodSection]
    slo: list[SloSection]
    labels: LabelsSection
    disabled: list[str]
    document: Diagnosis


def save(place: Path, source: Identified, config: Config, catalogue: Catalogue, params: Mapping[str, Any]) -> Capsule:
    """Diagnose, and write the capsule. params: as of `inferdoc diagnose`. Raises CapsuleError where it cannot be
    written, SourceError where the source cannot be read."""
    latest, until = source.latest_ms(), params.get("until") or "now"
    if params.get("around"):
        begin, until = around_window(params["around"], until, latest)
        from_ms, until_ms = resolve_window(None, begin, until, latest)
    else:
        from_ms, until_ms = resolve_window(params.get("since"), params.get("begin"), until, latest)
    end_ms = None if until == "latest" else until_ms
    answer = _judged(source, options_of(source, config, catalogue, dict(params)), from_ms, end_ms)
    capsule = Capsule(
        CAPSULE_SCHEMA_ID,
        __version__,
        from_ms,
        end_ms,
        {name: str(params[name]) for name in FOCUS if params.get(name)},
        list(config.pods),
        list(config.slo),
        config.labels,
        list(config.recipes.disabled),
        answer,
    )
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        archive.writestr(_entry("capsule.json"), msgspec.json.format(msgspec.json.encode(capsule), indent=1))
        for number, (first, last) in enumerate(_ranges(answer, from_ms, until_ms)):
            archive.writestr(_entry(f"samples-{number}.om"), _samples(source, catalogue, first, last))
    try:
        replace_file(place, packed.getvalue(), PRIVATE)
    except OSError as error:
        raise CapsuleError(f"{place}: the capsule cannot be written: {error.strerror or error}") from None
    return capsule


def _entry(name: str) -> zipfile.ZipInfo:
    """Without the time of day, so that the same samples make the same file."""
    entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o644 << 16
    return entry


def _ranges(answer: Diagnosis, from_ms: int, until_ms: int) -> list[tuple[int, int]]:
    """Milliseconds since 1970: the window with its lead, and an earlier baseline range, if separate."""
    begin_ms = from_ms - max(LEAD_MS, until_ms - from_ms)
    ranges = [(begin_ms, until_ms)]
    baseline = answer.window.baseline
    if baseline.from_ is not None and baseline.until is not None:
        first, last = (round(1000 * seconds(moment)) for moment in (baseline.from_, baseline.until))
        if first < begin_ms:
            ranges.append((first - FAR_MS, min(last + FAR_MS, begin_ms - 1)))
    return ranges


def _judged(source: Identified, options: Options, from_ms: int, until_ms: int | None) -> Diagnosis:
    """The document alone, without the series it was made of."""
    until = "latest" if until_ms is None else until_ms / 1000
    answer = diagnose(source, from_=from_ms / 1000, until=until, options=options)
    return msgspec.convert(msgspec.to_builtins(answer), Diagnosis)


def _samples(source: Identified, catalogue: Catalogue, begin_ms: int, end_ms: int) -> bytes:
    out = io.BytesIO()
    raw = source.raw
    if isinstance(raw, PrometheusSource):
        stored = raw.names(begin_ms, end_ms)
        known = NameReader(catalogue).known(stored) | {"up"}
        names = sorted(stored & known)
        _write(out, raw.samples(names, begin_ms, end_ms))
    else:
        with Store.open(source.location) as store:
            export(store, begin_ms, end_ms, out)
    return out.getvalue()


def _write(out: io.BytesIO, answers: Iterable[tuple[str, AnswerSeries]]) -> None:
    """As families without a type: the store identifies a counter by its name."""
    last = None
    for name, series in sorted(answers, key=lambda entry: entry[0]):
        if name != last:
            out.write(f"# TYPE {name} unknown\n".encode())
            last = name
        pairs = ",".join(f'{label}="{_escaped(text)}"' for label, text in sorted(series.labels.items()))
        head = f"{name}{{{pairs}}}"
        lines = (
            f"{head} {float(value)!r} {moment / 1000:.3f}\n"
            for moment, value in zip(series.times_ms.tolist(), series.values.tolist(), strict=True)
        )
        out.write(
            "".join(lines).replace(" inf ", " +Inf ").replace(" -inf ", " -Inf ").replace(" nan ", " NaN ").encode()
        )
    out.write(b"# EOF\n")


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


@contextmanager
def _opened(place: Path) -> Iterator[zipfile.ZipFile]:
    """The archive. Raises CapsuleError if it, or what is read of it, is none."""
    try:
        with zipfile.ZipFile(place) as archive:
            yield archive
    except OSError as error:
        raise CapsuleError(f"{place}: cannot be read: {error.strerror or error}") from None
    except _NO_ARCHIVE:
        raise CapsuleError(f"{place}: not a capsule, or damaged; `inferdoc capsule save` writes one") from None


def read(place: Path) -> tuple[Capsule, Sequence[str]]:
    """The capsule and the names of its samples. Raises CapsuleError for any other file."""
    with _opened(place) as archive:
        entry = archive.getinfo("capsule.json")
        if entry.file_size > LARGEST_DOCUMENT:
            raise CapsuleError(f"{place}: its document holds more than {LARGEST_DOCUMENT >> 20} MiB")
        capsule = msgspec.json.decode(archive.read(entry), type=Capsule)
        samples = [each for each in archive.infolist() if each.filename.endswith(".om")]
        if sum(each.file_size for each in samples) > LARGEST_SAMPLES:
            raise CapsuleError(f"{place}: its samples hold more than {LARGEST_SAMPLES >> 30} GiB")
    if capsule.schema != CAPSULE_SCHEMA_ID:
        raise CapsuleError(f"{place}: a capsule of another release ({capsule.schema[:40]})")
    return capsule, [each.filename for each in samples]


def replay(place: Path, overlays: Sequence[str] = ()) -> tuple[Capsule, Diagnosis]:
    """Judge the samples of a capsule again, as it was configured, by the rules of today. overlays: the user's catalogue
    folders. Raises CapsuleError."""
    capsule, names = read(place)
    promises = promises_of(place, capsule.slo)
    catalogue = load_catalogue(overlays, disabled=tuple(capsule.disabled), promises=promises)
    with TemporaryDirectory(prefix="inferdoc-") as folder:
        path = Path(folder) / "capsule.db"
        with Store.open(path, "w") as store, _opened(place) as archive:
            for name in names:
                with archive.open(name) as samples:
                    import_file(store, cast(BinaryIO, samples))
        selected = FleetFilter(*(capsule.focus.get(name) for name in FOCUS))
        options = Options(selected=selected, assignments=assignments_of(tuple(capsule.pods)), catalogue=catalogue)
        with closing(open_source(store=path, labels=capsule.labels.chosen)) as source:
            return capsule, _judged(source, options, capsule.from_ms, capsule.until_ms)


def diagnosis_named(name: str, record: Callable[[], Record]) -> Diagnosis:
    """The document. record: opens the record, where the name is no file. Raises InferdocError."""
    place = Path(name)
    if place.is_file():
        if zipfile.is_zipfile(place):
            return read(place)[0].document
        try:
            return msgspec.json.decode(place.read_bytes(), type=Diagnosis)
        except OSError as error:
            raise InferdocError(f"{name}: cannot be read: {error.strerror or error}") from None
        except NOT_JSON:
            raise InferdocError(f"{name}: neither a capsule nor what `inferdoc diagnose -o json` writes") from None
    opened = record()
    try:
        run = find_conclusive_run(opened, opened.incident(name).id)
        return opened.diagnosis(run)
    finally:
        opened.close()


def find_conclusive_run(record: Record, incident: str) -> int:
    """The number of the last run with a cause, else of the last finished run. Raises InferdocError."""
    run = record.conclusive_run(incident)
    if run is None:
        raise InferdocError(f"{incident}: no finished diagnosis yet; retry in a minute")
    return run.number

"""Which declared series a name of a source stands for, by the transformations of `collectors/names.yaml`."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from inferdoc.catalogue.aliases import HISTOGRAM_PARTS, MAIN
from inferdoc.catalogue.load import Catalogue
from inferdoc.catalogue.names import NameForms, load_identity, load_name_forms
from inferdoc.catalogue.signal import Exporter, Metric

RULE = ":"
"""Recording rules put levels before and operations behind a colon, so a name with two of them is one."""


@dataclass(frozen=True)
class NameMatch:
    """A name of a source and the declared series that it stands for. factor: from its unit to the declared one; form:
    what was done to the name, in words, empty where only separators differ; prefix: as it is written."""

    name: str
    series: str
    exporter: str
    factor: float = 1.0
    form: str = ""
    prefix: str = ""


@dataclass(frozen=True)
class NotUnderstood:
    """Names of one word that no declaration explains. families: how many; example: one of them; nearest: the declared
    family most like it, None without one; hidden: whether they look like an engine of which nothing is read."""

    word: str
    families: int
    example: str
    nearest: str | None
    hidden: bool = False


class NameReader:
    """Reads names of series by what exporters declare."""

    def __init__(self, catalogue: Catalogue, forms: NameForms | None = None) -> None:
        self._forms = load_name_forms(catalogue.overlays) if forms is None else forms
        self._exporters = catalogue.exporters
        identity = load_identity(catalogue.overlays)
        self._signs = {name for group in identity.engines for name in group}
        self._join = str.maketrans(dict.fromkeys(self._forms.separators, "_"))
        self._rewrites = [(each.title, re.compile(each.find), each.put) for each in self._forms.rewrites]
        self._undeclared: dict[str, str] = {}

    @cached_property
    def declared(self) -> dict[str, tuple[Exporter, Metric]]:
        """Every declared series, under current and former names, with its parts."""
        return {
            name + part: (exporter, metric)
            for exporter in self._exporters.values()
            for current, metric in exporter.metrics.items()
            for name in (current, *(former.name for former in metric.formerly))
            for part in ("", *(HISTOGRAM_PARTS if metric.type in ("histogram", "summary") else ()))
        }

    @cached_property
    def _by_key(self) -> dict[str, str]:
        """Declared series by their names without separators. A series wins over one of which it is a part."""
        found: dict[str, str] = {}
        for name in self.declared:
            found.setdefault(name.translate(self._join), name)
        return found

    def read(self, names: Collection[str]) -> list[NameMatch]:
        """Those of some names that stand for a declared series without being one, sorted. An undeclared prefix is known
        from then on, once a whole page under it was seen."""
        unknown = sorted(name for name in names if name not in self.declared)
        found = [each for name in unknown if (each := self.of(name)) is not None]
        known = {each.name for each in found}
        pages = self._pages([name for name in unknown if name not in known])
        if pages:
            self._undeclared |= pages
            found += [each for name in unknown if name not in known and (each := self.of(name)) is not None]
        return sorted(found, key=lambda each: each.name)

    def known(self, names: Collection[str]) -> set[str]:
        """Those of some names that are declared, or stand for a declared series."""
        return {name for name in names if name in self.declared}.union(each.name for each in self.read(names))

    def of(self, name: str) -> NameMatch | None:
        """What a name stands for; None where it is declared itself, or nothing explains it."""
        if name in self.declared or not name:
            return None
        for title, text in self._rewritten(name):
            if text.count(RULE) > 1:
                continue
            key = text.translate(self._join)
            for prefix, words in self._prefixes(key, text):
                plain = self._plain(key[len(prefix) :])
                if plain is not None:
                    series, factor, unit = plain
                    form = ", ".join(filter(None, (title, words, unit)))
                    exporter = self.declared[series][0].exporter
                    return NameMatch(name, series, exporter, factor, form, text[: len(prefix)])
        return None

    def _rewritten(self, name: str) -> Iterator[tuple[str, str]]:
        """The name as it is, and as each rewrite reads it, with the title of the rewrite."""
        yield "", name
        for title, pattern, put in self._rewrites:
            if (match := pattern.fullmatch(name)) is not None:
                yield title, match.expand(put)

    def _prefixes(self, key: str, text: str) -> Iterator[tuple[str, str]]:
        yield "", ""
        for each in self._forms.prefixes:
            if key.startswith(f"{each.prefix}_"):
                yield f"{each.prefix}_", each.title
        for prefix in self._undeclared:
            if text.startswith(prefix):
                yield prefix.translate(self._join), f"prefix {prefix}"

    def _plain(self, key: str) -> tuple[str, float, str] | None:
        """The series of a key, the factor of its unit, and what was done in words."""
        series = self._by_key.get(key) or self._counter(key)
        if series is not None:
            return series, 1.0, ""
        for unit in self._forms.units:
            changed, count = re.subn(rf"_{unit.written}(?=_(bucket|sum|count|total)$|$)", f"_{unit.declared}", key)
            series = (self._by_key.get(changed) or self._counter(changed)) if count else None
            if series is not None:
                return series, unit.factor, unit.written
        return None

    def _counter(self, key: str) -> str | None:
        """The counter that a name without `_total` stands for."""
        for ending in self._forms.counters:
            series = self._by_key.get(f"{key.removesuffix(ending)}_total") if key.endswith(ending) else None
            if series is not None:
                exporter, metric = self.declared[series]
                if metric.type == "counter" and exporter.page != "beside":
                    return series
        return None

    def _pages(self, names: Iterable[str]) -> dict[str, str]:
        """Undeclared prefixes under which a whole page of an engine stands, by exporter."""
        words = {exporter.family: exporter for exporter in self._exporters.values() if exporter.page == "engine"}
        inside = re.compile(
            rf"(?P<prefix>.+?[._:/])(?P<rest>({'|'.join(map(re.escape, filter(None, words)))})[._:/].+)"
        )
        pages: dict[str, set[str]] = {}
        for name in names:
            match = inside.fullmatch(name)
            plain = self._plain(match["rest"].translate(self._join)) if match and RULE not in match["prefix"] else None
            if match is not None and plain is not None:
                pages.setdefault(match["prefix"], set()).add(plain[0])
        return {
            prefix: min(self.declared[one][0].exporter for one in series)
            for prefix, series in sorted(pages.items())
            if len(series) >= self._forms.page_families
            and self._signs & series
            and any(one.endswith("_bucket") for one in series)
        }

    # ---- what is not understood ---------------------------------------------------------------------------------

    def not_understood(self, names: Collection[str]) -> list[NotUnderstood]:
        """What looks like the page of an engine, of a part of one or of a router and no declaration explains, by word:
        first what hides an engine, then most families first."""
        words: dict[tuple[str, str | None], set[str]] = {}
        signs: dict[str, dict[tuple[str, str | None], set[str]]] = {"state": {}, "queue": {}, "tokens": {}}
        unread: dict[str, set[str]] = {}
        for name in names:
            if name.endswith("_created") or name in self.declared:
                continue
            if self._unread.match(name):
                title = next(each.title for each in self._forms.unread_engines if re.match(each.find, name))
                unread.setdefault(title, set()).add(base_name(name))
                continue
            if name.count(RULE) > 1:
                continue
            family = base_name(name)
            word, declared = self._word(family)
            match = self._engine.fullmatch(family[len(word) :] if declared else family)
            is_sign = match is not None and word != declared
            if not declared and not is_sign:  # most names of a server; the tests below take ten times as long
                continue
            if family in self.declared or self._is_unneeded(family) or self.of(name) is not None:
                continue
            if match is not None and is_sign:
                sign = next(sign for sign in signs if match[sign])
                signs[sign].setdefault((word or match["word"] or "", declared), set()).add(family)
            if declared:
                words.setdefault((word, declared), set()).add(family)
        states = signs["state"]
        beside_tokens = {key for key in (states.keys() | signs["queue"].keys()) & signs["tokens"].keys() if key[0]}
        hidden = {key for key, each in states.items() if len(each) >= self._forms.engine_families} | beside_tokens
        found_words = [self._not_understood(*key, each, key in hidden) for key, each in words.items()]
        found_words += [
            self._not_understood(*key, set().union(*(own.get(key, ()) for own in signs.values())), True)
            for key in hidden - words.keys()
        ]
        found_words += [NotUnderstood(title, len(each), min(each), None, True) for title, each in unread.items()]
        return sorted(found_words, key=lambda each: (not each.hidden, -each.families, each.word))

    def _not_understood(
        self, word: str, declared: str | None, families: Collection[str], hidden: bool
    ) -> NotUnderstood:
        example = min(families)
        known = {key: base_name(name) for key, name in self._by_key.items() if key.startswith(f"{declared or MAIN}_")}
        guess = f"{declared or MAIN}_{example[len(word) :].translate(self._join).lstrip('_')}"
        near = difflib.get_close_matches(guess, known, 1, 0.5)
        return NotUnderstood(word, len(families), example, known[near[0]] if near else None, hidden)

    def _is_unneeded(self, family: str) -> bool:
        return any(exporter.why_unneeded(family) is not None for exporter in self._exporters.values())

    @cached_property
    def _engine(self) -> re.Pattern[str]:
        forms = self._forms
        signs = f"(?P<state>{forms.engine_like})|(?P<queue>{forms.engine_queue})|(?P<tokens>{forms.engine_tokens})"
        return re.compile(rf"((?P<word>[a-zA-Z][\w.]*?)?[:._/])??({signs})")

    @cached_property
    def _unread(self) -> re.Pattern[str]:
        return re.compile("|".join(each.find for each in self._forms.unread_engines) or "(?!)")

    @cached_property
    def _words(self) -> tuple[str, ...]:
        """First words of the pages of engines, their parts and routers, the longest first."""
        words = {
            word.translate(self._join)
            for exporter in self._exporters.values()
            if exporter.page != "beside"
            for word in filter(None, (exporter.family, *exporter.prefixes_before))
        }
        return tuple(f"{word.strip('_')}_" for word in sorted(words, key=lambda word: (-len(word), word)))

    def _word(self, name: str) -> tuple[str, str | None]:
        """The first word of a name up to one that is declared, and that one; nothing without one."""
        key = f"_{name.translate(self._join)}"
        for word in self._words if self._any_word.search(key) else ():
            at = key.find(f"_{word}")
            if at >= 0:
                return name[: at + len(word) - 1], word[:-1]
        return "", None

    @cached_property
    def _any_word(self) -> re.Pattern[str]:
        return re.compile(f"_({'|'.join(map(re.escape, self._words))})")


def base_name(name: str) -> str:
    """The name without the ending of a part of a histogram."""
    return next((name.removesuffix(part) for part in HISTOGRAM_PARTS if name.endswith(part)), name)


def by_form(found: Iterable[NameMatch], exporters: Mapping[str, Exporter]) -> dict[tuple[str, str, str], int]:
    """How many families were read, by title of their exporter, prefix with its first word, and form."""
    families: dict[tuple[str, str, str], set[str]] = {}
    for each in found:
        exporter = exporters[each.exporter]
        written = f"{each.prefix}{_first_word(each.name[len(each.prefix) :], exporter)}"
        families.setdefault((exporter.title, written, each.form), set()).add(base_name(each.series))
    return {key: len(names) for key, names in families.items()}


def _first_word(name: str, exporter: Exporter) -> str:
    """The first word of a name with the separator behind it, as it is written."""
    length = len(exporter.family or re.split("[:._/]", name)[0])
    return name[: length + 1]

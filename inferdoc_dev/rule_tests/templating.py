"""What Prometheus makes of the templates in annotations, for the few forms that generated rules use."""

from __future__ import annotations

import re
from collections.abc import Mapping

from inferdoc.errors import InferdocError
from inferdoc.generate.links import NOW, QUOTED, SERVER

TEMPLATE = re.compile(r"\{\{ with \$labels\.(\w+) \}\}(.*?)\{\{ end \}\}|\{\{ (.+?) \}\}")
VALUE = re.compile(f"{re.escape(QUOTED)}|{re.escape('{{ . }}')}")
LARGE = ("", "k", "M", "G", "T", "P", "E", "Z", "Y")
SMALL = ("", "m", "u", "n", "p", "f", "a", "z", "y")


def expand(text: str, labels: Mapping[str, str], value: float, at: int = 0) -> str:
    """The text with `{{ $labels.x }}`, `{{ with $labels.x }}...{{ end }}` around QUOTED, `{{ $value | form }}` and the
    time of the evaluation (`at`, Unix seconds) filled in as Prometheus 2.42 does."""

    def filled(found: re.Match[str]) -> str:
        label, inside, other = found.groups()
        return _expanded(other, labels, value) if label is None else _with(inside, labels.get(label, ""))

    return TEMPLATE.sub(filled, text.replace(NOW, str(at)).replace(SERVER, ""))  # promtool has no address


def _with(inside: str, value: str) -> str:
    quoted = value.replace("'", r"'\''")
    return VALUE.sub(lambda found: quoted if found[0] == QUOTED else value, inside) if value else ""


def _expanded(inside: str, labels: Mapping[str, str], value: float) -> str:
    what, _, form = (part.strip() for part in inside.partition("|"))
    if what.startswith("$labels."):
        return labels.get(what.removeprefix("$labels."), "")
    if what == '"{{"':
        return "{{"
    forms = {"humanize": humanize, "humanizePercentage": percentage, "humanizeDuration": duration}
    if what == "$value" and form in forms:
        return forms[form](value)
    raise InferdocError(f"no such template: {{{{ {inside} }}}}")


def humanize(value: float) -> str:
    """1234 -> "1.234k", 0.0123 -> "12.3m"."""
    return _scaled(value, LARGE if abs(value) >= 1 else SMALL)


def percentage(value: float) -> str:
    return f"{value * 100:.4g}%"


def duration(value: float) -> str:
    """Seconds: 0.0123 -> "12.3ms", 75 -> "1m 15s"."""
    if value == 0:
        return "0s"
    if abs(value) < 1:
        return f"{_scaled(value, SMALL)}s"
    sign, length = ("-" if value < 0 else ""), abs(value)
    whole = int(length)
    days, hours, minutes, seconds = whole // 86400, whole // 3600 % 24, whole // 60 % 60, whole % 60
    if days:
        return f"{sign}{days}d {hours}h {minutes}m {seconds}s"
    if hours:
        return f"{sign}{hours}h {minutes}m {seconds}s"
    return f"{sign}{minutes}m {seconds}s" if minutes else f"{sign}{length:.4g}s"


def _scaled(value: float, prefixes: tuple[str, ...]) -> str:
    if value == 0:
        return "0"
    chosen = ""
    for prefix in prefixes[1:]:
        if (abs(value) < 1000) if prefixes is LARGE else (abs(value) >= 1):
            break
        chosen = prefix
        value = value / 1000 if prefixes is LARGE else value * 1000
    return f"{value:.4g}{chosen}"

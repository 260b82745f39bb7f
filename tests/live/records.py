"""What our rules recorded, taken out of the database of a Prometheus."""

from __future__ import annotations

import re
import subprocess
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from inferdoc.catalogue.record_names import PREFIX

SAMPLE = re.compile(r"\{(?P<labels>.*)\} (?P<value>\S+) (?P<at>\d+)$")
NAME = re.compile(r'__name__="([^"]*)"(, )?')

Families = Mapping[str, list[str]]
"""Lines of OpenMetrics by the name of their family; the first is its type."""


def recorded_families(database: Path, cluster: str) -> Families:
    """What rules recorded of a cluster."""
    (database / "wal").mkdir(exist_ok=True)  # a server would have made it, and promtool reads none without it
    match = f'{{__name__=~".+{PREFIX}.+|ALERTS", cluster="{cluster}"}}'
    command = ["promtool", "tsdb", "dump", f"--match={match}", str(database)]
    dumped = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    families = defaultdict[str, list[str]](list)
    for line in dumped.splitlines():
        parts, name = SAMPLE.match(line), NAME.search(line)
        if parts is None or name is None:
            continue
        labels = NAME.sub("", parts["labels"]).replace('", ', '",')
        rows = families[name[1]]
        rows += [] if rows else [f"# TYPE {name[1]} unknown"]
        rows.append(f"{name[1]}{{{labels}}} {parts['value']} {int(parts['at']) / 1000}")
    return families


def multiplied(families: Families, own: str, names: Sequence[str]) -> Iterator[str]:
    """The series of one cluster under the names of others, as one text."""
    for kind, *rows in families.values():
        yield kind + "\n"
        body = "".join(f"{row}\n" for row in rows)
        for name in names:
            yield body.replace(f'cluster="{own}"', f'cluster="{name}"')
    yield "# EOF\n"


def recorded_text(database: Path, cluster: str, folder: Path) -> Path:
    """What rules recorded of a cluster, as OpenMetrics text."""
    text = folder / f"{cluster}.records.om"
    with text.open("w", encoding="utf-8") as file:
        file.writelines(multiplied(recorded_families(database, cluster), cluster, [cluster]))
    return text

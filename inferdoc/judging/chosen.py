"""Has a source read the families that a scan chose, and nothing of the pods of the others."""

from __future__ import annotations

from collections.abc import Collection

from inferdoc.judging.reading import names_of
from inferdoc.judging.scan import Scan
from inferdoc.judging.sessions import Inquiry, needed_signals
from inferdoc.source.identified import Identified


def read_chosen(inquiry: Inquiry, scan: Scan, span: tuple[int, int], quiet_hosts: Collection[str] = ()) -> None:
    """From now on read what is about the chosen families, with their exporters. A server is asked for the pods by their
    names, since pods of several clusters have the same addresses; where it names none, and of a store, the targets of
    the other pods are left out. span: from the begin of the history until the end of the window, milliseconds;
    quiet_hosts: those of exporters that tell of other pods only. Raises SourceError."""
    source, catalogue = inquiry.source, inquiry.catalogue
    assert isinstance(source, Identified)
    quiet = {member.key for member in scan.quiet}
    source.leave_out_pods((), (), 0, 0)
    aliases = catalogue.aliases
    needed = names_of(needed_signals(catalogue), catalogue, aliases)
    pods = {member.key for member in scan.members if member.key not in quiet}
    if not source.read_pods(pods, needed, span):
        source.leave_out_pods(quiet, quiet_hosts, *span)

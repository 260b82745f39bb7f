"""Whether a collector keeps up with its targets, and what it says where it does not."""

from __future__ import annotations

from collections.abc import Callable

TOLD_SECONDS = 60.0
"""How often to look: a moment in which the disk or the machine was busy is no limit."""
LEAST_SHARE = 0.01
"""Fewer scrapes that are left out are chance."""
HELP = "scrape less often (--interval), share the targets (--shard 1/2), or have a Prometheus agent scrape them"


class KeepingUp:
    """Counts scrapes that were left out because this process was busy, and says so. A target that is slow itself is not
    counted here. say: told what is wrong, None when all is well again."""

    def __init__(self, interval: float, say: Callable[[str | None], None], began: float) -> None:
        self._interval, self._say = interval, say
        self._left_out = 0
        self._look_at = began + max(TOLD_SECONDS, 2 * interval)
        self._looked = began

    def left_out(self, scrapes: int) -> None:
        """So many scrapes were left out."""
        self._left_out += scrapes

    def look(self, now: float, targets: int) -> None:
        """Say how it stands, once a minute. now: seconds; targets: how many are scraped."""
        if now < self._look_at:
            return
        seconds = now - self._looked
        asked = targets * seconds / self._interval
        if self._left_out > max(1.0, LEAST_SHARE * asked):
            share = min(1.0, self._left_out / asked) if asked else 1.0
            asked_of_it = f"{targets:,} targets every {self._interval:g} s"
            self._say(f"cannot keep up with {asked_of_it}: {share:.0%} of the scrapes are left out; {HELP}")
        elif not self._left_out:
            self._say(None)
        self._left_out, self._looked = 0, now
        self._look_at = now + max(TOLD_SECONDS, 2 * self._interval)

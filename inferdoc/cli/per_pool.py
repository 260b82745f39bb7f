"""Options of which each pool can have a value of its own: `--max 40 --max chat-decode-h100=12`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from inferdoc.prewarm.plan_options import PerPool


def per_pool(
    flag: str, name: str, kind: click.ParamType[Any], default: Any = None, *, words: str
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """An option that may be repeated; the command gets a `PerPool`. default: the value of pools that none names."""
    shown = "|".join(kind.choices) if isinstance(kind, click.Choice) else kind.name.upper()
    words = words if default is None else f"{words} Default: {default}."
    return click.option(
        flag,
        name,
        multiple=True,
        metavar=f"[POOL=]{shown}",
        help=words,
        callback=partial(_values, kind=kind, default=default),
    )


def _values(
    context: click.Context, option: click.Parameter, texts: tuple[str, ...], kind: click.ParamType[Any], default: Any
) -> PerPool[Any]:
    from inferdoc.prewarm.plan_options import PerPool

    usual, own = default, {}
    for text in texts:
        pool, _, given = text.rpartition("=")
        value = kind.convert(given, option, context)
        if pool:
            own[pool.strip()] = value
        else:
            usual = value
    return PerPool(usual, own)

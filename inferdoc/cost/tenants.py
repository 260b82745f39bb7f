"""What tenants cost: the bill of a model divided by what its router counted for each of them: tokens, else requests."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from inferdoc.catalogue.signal import Term
from inferdoc.cost.gather import Sum
from inferdoc.cost.model import BillRow
from inferdoc.cost.reading import Piece
from inferdoc.errors import SourceError
from inferdoc.source.frame import Entity
from inferdoc.source.plan import BY

COUNTED = {
    "input": Term(rate="llm_d_epp_request_input_tokens_sum"),
    "output": Term(rate="llm_d_epp_request_output_tokens_sum"),
    "requests": Term(rate="llm_d_epp_request_total"),
}
NOBODY = "(no tenant told)"


def by_tenant(found: Sequence[Piece], by_family: Callable[[Piece], dict[str, Sum]]) -> list[BillRow]:
    """A row per tenant, dearest first, and one for models of which no router counts tokens. by_family: the bill of each
    cluster, namespace and model. Raises SourceError where no series tells tenants apart."""
    held: dict[str, Sum] = {}
    told = False
    for piece in found:
        counted = {name: _by_family(piece, term) for name, term in COUNTED.items()}
        for family, whole in by_family(piece).items():
            rows = {name: counted[name].get(family, {}) for name in COUNTED}
            for name in ("input", "output"):
                rows[name] = rows[name] if sum(rows[name].values()) > 0 else rows["requests"]
            names = list(rows["output"]) if sum(rows["output"].values()) > 0 else []
            told = told or bool(names)
            for name in names or [NOBODY]:
                inputs, outputs = ((_share(rows[kind], name) if names else 1.0) for kind in ("input", "output"))
                held.setdefault(name, Sum()).add_share(whole, inputs, outputs)
    if not told:
        raise SourceError("no series tells tenants apart: they need llm_d_epp_request_total with fairness_id")
    return sorted((one.row(name) for name, one in held.items()), key=lambda row: (-row.whole.gpu_hours, row.name))


def _share(tokens: dict[str, float], name: str) -> float:
    whole = sum(tokens.values())
    return tokens.get(name, 0.0) / whole if whole > 0 else 0.0


def _by_family(piece: Piece, term: Term) -> dict[str, dict[str, float]]:
    """Family -> tenant -> how many. A router that calls the model by another name counts for the only one of its
    namespace."""
    families = {account.unit.member.pool.family for account in piece.accounts}
    found: dict[str, dict[str, float]] = {}
    for entity, values in piece.history.counts(term, piece.slots, BY["tenant"]).items():
        pool = piece.history.pool_of(entity, wide=True)
        near = [family for family in families if pool is not None and family[:2] == pool.family[:2]]
        family = pool.family if pool is not None and pool.family in families else near[0] if len(near) == 1 else None
        if family is not None:
            row = found.setdefault(str(family), {})
            name = _tenant(entity)
            row[name] = row.get(name, 0.0) + float(np.sum(values))
    return found


def _tenant(entity: Entity) -> str:
    return f"{entity.get('fairness_id') or 'default'}, priority {entity.get('priority') or '0'}"

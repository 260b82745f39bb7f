"""A change of settings on a calibrated pair of prefill and decode pods: of one side, or of both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace as with_fields

from inferdoc.errors import InferdocError
from inferdoc.whatif.calibrate_pair import CalibratedPair
from inferdoc.whatif.changes import ChangedPool, changed_pool
from inferdoc.whatif.pairs import APART
from inferdoc.whatif.setting import PairSetting
from inferdoc.whatif.settings import BOTH_SIDES, DECODE_ONLY, of_side, side_of

if TYPE_CHECKING:
    from inferdoc.catalogue.load import Catalogue


@dataclass(frozen=True)
class ChangedPair:
    """setting: what plays the pair after the change; prefill, decode: the change of each; guesses: what of it nothing
    measured, in words."""

    setting: PairSetting
    prefill: ChangedPool
    decode: ChangedPool
    guesses: tuple[str, ...]

    def drawn(self, seed: int, draw: float) -> PairSetting:
        """What plays it, with step times that the history allows just as well. draw: 0 to 1, of what is guessed."""
        prefill, decode = (each.drawn(seed, draw).parts for each in (self.prefill, self.decode))
        return self.setting.with_steps(prefill, decode)


def changed_pair(pair: CalibratedPair, settings: Mapping[str, Any], catalogue: Catalogue) -> ChangedPair:
    """The pair after a change. settings: by key. Raises InferdocError for what cannot be."""
    for key in settings:
        side, own = side_of(key)
        if side is None and own not in (*BOTH_SIDES, *DECODE_ONLY):
            raise InferdocError(f"--set {key}: of which side? prefill.{key} or decode.{key}")
        if side == "prefill" and own in DECODE_ONLY:
            raise InferdocError(f"--set {key}: prefill pods write one token, so drafts are of decode: {own}")
    prefill, decode = (changed_pool(pair.sides[role], of_side(settings, role), catalogue) for role in APART)
    traffic = with_fields(prefill.setting.traffic, output=decode.setting.traffic.output)
    return ChangedPair(
        PairSetting(prefill.setting, decode.setting, traffic),
        prefill,
        decode,
        tuple(dict.fromkeys((*prefill.guesses, *decode.guesses))),
    )

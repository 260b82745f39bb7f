"""What prefill and decode pods that work together are played with."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from inferdoc.simulate.scenario import Scenario, StepParts, Stream
from inferdoc.whatif.setting import PlayedSetting, play_of


@dataclass(frozen=True)
class PairSetting:
    """prefill, decode: each as it would be played by itself; traffic: of both."""

    prefill: PlayedSetting
    decode: PlayedSetting
    traffic: Stream

    apart: ClassVar[bool] = True
    """Whether two pools serve each request."""

    @property
    def sides(self) -> tuple[PlayedSetting, ...]:
        """Its pools, the prefill pool first."""
        return self.prefill, self.decode

    @property
    def assumptions(self) -> list[str]:
        """What nobody told of either, in words."""
        return [f"{side.role}: {words}" for side in self.sides for words in side.assumptions]

    def scenario(self, seed: int) -> Scenario:
        """A play of all stretches."""
        pools = tuple(side.pool_spec(side.role, side.replicas) for side in self.sides)
        return play_of(pools, self.traffic, self.prefill.router, seed)

    def with_steps(self, prefill: StepParts, decode: StepParts) -> PairSetting:
        """The same on machines with other step times."""
        return replace(self, prefill=self.prefill.with_steps(prefill), decode=self.decode.with_steps(decode))

    def with_traffic(self, traffic: Stream) -> PairSetting:
        """The same under other traffic."""
        return replace(self, traffic=traffic)

"""An incident or a control in surroundings drawn by chance: the same seed gives the same draw."""

from __future__ import annotations

from typing import Any, cast

import msgspec
import numpy as np

from inferdoc.simulate.autoscaler import sustainable
from inferdoc.simulate.scenario import FaultSpec, Scenario, Stream
from inferdoc.simulate.surroundings import Bystander, Surroundings
from inferdoc_dev.incidents.randomisation import RANDOMISATION, Chance, Choice, Randomisation, Range

replace = msgspec.structs.replace

MACHINES = (
    ("h100-80", "llama-3.1-8b", 1),
    ("a100-80", "llama-3.1-8b", 1),
    ("l40s", "llama-3.1-8b", 1),
    ("h100-80", "qwen3-32b", 2),
    ("a100-80", "qwen3-32b", 4),
    ("h200-141", "qwen3-32b", 1),
    ("h100-80", "llama-3.3-70b", 4),
    ("h200-141", "llama-3.3-70b", 2),
    ("b200-180", "llama-3.3-70b", 2),
    ("a100-80", "qwen3-30b-a3b", 1),
)
"""Tier, model and GPUs a pod: common deployments in which the weights leave room for a KV cache."""
DROPPABLE = (
    "vllm:inter_token_latency_seconds",
    "vllm:request_queue_time_seconds",
    "vllm:request_prefill_time_seconds",
    "vllm:request_decode_time_seconds",
    "vllm:request_time_per_output_token_seconds",
    "vllm:iteration_tokens_total",
    "vllm:request_prefill_kv_computed_tokens",
    "vllm:request_prompt_tokens",
    "vllm:request_generation_tokens",
    "vllm:num_requests_waiting_by_reason",
    "vllm:prompt_tokens_by_source_total",
    "vllm:prefix_cache_hits_total",
    "vllm:kv_cache_usage_perc",
    "vllm:num_preemptions_total",
    "vllm:cache_config_info",
    "process_start_time_seconds",
    "http_requests_total",
    "DCGM_FI_DEV_SM_CLOCK",
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
    "DCGM_FI_PROF_DRAM_ACTIVE",
    "llm_d_epp_scheduler_attempts_total",
    "llm_d_epp_request_ttft_seconds",
)
"""Families that a user may have dropped: every one is a witness of some cause, none is the only sign of life."""
MOST_REQUESTS = 9_000
"""Requests of one draw: longer windows are for quiet fleets (the simulation grows with requests, the physics not)."""
SCRAPES_AFTER, SCRAPES_BEFORE = 18, 12
"""Scrapes after and before the onset that a draw has at least, whatever its interval."""
QUIET = 0.45
"""Load up to which one pod more or less, or a burst, has no impact."""
CONVERSATIONS_BEFORE = 7.0
"""The warm-up in mean lengths of a conversation: prompts carry all turns before, so their mean comes near its level as
(1 + x) exp(-x), to 1 % here."""
ANSWER_SECONDS = 5.0
"""What a turn takes besides the thinking, about."""
AT_ONCE = 1.0
"""Seconds: what begins earlier than this was always so."""
ROLLED_BACK = frozenset({"restart", "rollout", "stop", "scale-in", "kill", "crash", "oom", "scaler", "xid", "gpu-lost"})
"""Faults that end processes: beside them no rollout is put into the fleet."""


def surrounded(scenario: Scenario, rng: np.random.Generator, ranges: Randomisation = RANDOMISATION) -> Scenario:
    """The scenario in surroundings drawn by chance. Its fault, fleet and severity stay."""
    return _Draw(scenario, rng, ranges).result()


class _Draw:
    """One scenario on its way into its surroundings. Steps in the order in which they depend on each other."""

    def __init__(self, scenario: Scenario, rng: np.random.Generator, ranges: Randomisation) -> None:
        self.scenario = scenario
        self.rng = rng
        self.ranges = ranges
        self.happened: list[str] = []
        self.long = False
        self.load = _load(scenario)

    def result(self) -> Scenario:
        self._window()
        self._telemetry()
        surroundings = self._scraped()
        self._clients()
        if surroundings.naming == "deployment" and self.scenario.expect.onset is not None:
            self._trigger()
        relabelled = self._innocent(surroundings)
        expect = self.scenario.expect
        onset = expect.onset if expect.onset is not None else self.scenario.duration / 2
        late, old = self.ranges.late.draw(self.rng), self.ranges.old.draw(self.rng)
        window = max(0.0, onset - max(self.ranges.healthy.draw(self.rng), SCRAPES_BEFORE * self.scenario.scrape))
        window = 0.0 if self.long else window
        room = self.scenario.duration - onset - old >= 240.0
        surroundings = replace(
            surroundings,
            relabelled=relabelled,
            window=round(0.0 if expect.cause is None else window, 3),
            late=round(late, 3),
            old=round(old, 3) if expect.onset is not None and room else None,
            bystanders=tuple(self._bystanders()),
            happened=tuple(self.happened),
        )
        return replace(self.scenario, surroundings=surroundings)

    def _yes(self, chance: Chance) -> bool:
        return chance.draw(self.rng)

    def _one(self, drawn: Range | Choice) -> Any:
        return drawn.draw(self.rng)

    # ---- time ---------------------------------------------------------------------------------------------------

    def _window(self) -> None:
        """History before the window, and scrapes enough on both sides of the onset."""
        s = self.scenario
        lead = self._one(self.ranges.lead)
        after = SCRAPES_AFTER * s.scrape
        rate = sum(stream.rate for stream in s.traffic)
        onset = s.expect.onset
        hours, long = self._one(self.ranges.hours), self._yes(self.ranges.long)
        room = min(3600.0 * hours, MOST_REQUESTS / max(rate, 0.1)) - s.duration
        if onset is None:
            self.scenario = delayed(s, round(lead, 3), round(max(0.0, room - lead), 3))
            return
        self.long = long and room > lead
        lead = max(lead, room) if long else lead
        if any(stream.pattern == "ramp" for stream in s.traffic) or any(p.scaler for p in s.pools):
            lead = 0.0  # its course is tied to the length
        else:
            lead = max(lead, SCRAPES_BEFORE * s.scrape - onset)
        more = max(0.0, after - (s.duration - onset))
        self.scenario = delayed(s, round(lead, 3), round(more, 3))

    # ---- what is scraped ----------------------------------------------------------------------------------------

    def _telemetry(self) -> None:
        """Exporters and releases."""
        s, r = self.scenario, self.ranges
        release, router = self._one(self.ranges.release), self._one(self.ranges.router_release)
        needs_kube = s.exporters.kube
        kube = self._yes(self.ranges.kube)
        profiling = r.profiling.draw(self.rng) or s.exporters.dcgm_profiling
        exporters = replace(
            s.exporters,
            dcgm=self._yes(self.ranges.dcgm),
            dcgm_profiling=profiling,
            router=self._yes(self.ranges.router),
            cadvisor=self._yes(self.ranges.cadvisor),
            kube=kube or needs_kube,
            kube_lineage=kube,
        )
        pools = tuple(replace(pool, version=release) for pool in s.pools)
        self.scenario = replace(
            s, pools=pools, exporters=exporters, router=replace(s.router, version=router), namespace="llm"
        )

    def _scraped(self) -> Surroundings:
        """Noise, labels and names."""
        count = int(self._one(self.ranges.withheld))
        names = self.rng.choice(DROPPABLE, size=count, replace=False).tolist() if count else []
        return Surroundings(
            seed=int(self.rng.integers(1 << 31)),
            jitter=round(self._one(self.ranges.jitter), 3),
            lost=round(self._one(self.ranges.lost), 4),
            refused=round(self._one(self.ranges.refused), 3),
            layout=self._one(self.ranges.layout),
            naming=self._one(self.ranges.naming),
            base=self._one(self.ranges.base),
            roles_named=self._yes(self.ranges.roles_named),
            exported=self._yes(self.ranges.exported),
            job=self._one(self.ranges.job),
            allow=self._one(self.ranges.allow),
            withheld=tuple(sorted(names)),
            age=round(self._one(self.ranges.age), 1),
        )

    # ---- traffic ------------------------------------------------------------------------------------------------

    def _clients(self) -> None:
        """Conversations, bursts and the hours of the day, where a stream has no course of its own."""
        s = self.scenario
        talks, shape = self._yes(self.ranges.conversations), self._one(self.ranges.shape)
        turns, think = self._one(self.ranges.turns), self._one(self.ranges.think)
        burst, wave, phase = (
            self._one(self.ranges.burst),
            self._one(self.ranges.wave),
            float(self.rng.uniform(0, 86400.0)),
        )
        changed = any(f.kind == "traffic" for f in s.faults) or any(t.start > 0 for t in s.traffic)
        quiet = self.load <= QUIET
        streams = []
        for stream in s.traffic:
            plain = stream.pattern == "poisson" and stream.rate > 0 and not changed
            if plain and talks and quiet and self._may_talk(stream):
                stream = replace(stream, turns=round(turns, 2), think=round(think, 2))
                self.happened.append("conversations")
            if plain and shape == "bursts" and quiet:
                every, length = 90.0, 10.0
                even = stream.rate / (1.0 + (burst - 1.0) * length / every)
                stream = replace(stream, pattern="bursts", rate=even, burst=burst, burst_for=length, burst_every=every)
                self.happened.append("bursts")
            if plain and shape == "waves" and quiet:
                stream = replace(stream, pattern="waves", burst=wave, wave=86400.0, phase=phase)
                self.happened.append("daily load")
            streams.append(stream)
        talking = any(stream.turns > 1.0 for stream in streams)
        warmup = max(s.warmup, CONVERSATIONS_BEFORE * turns * (think + ANSWER_SECONDS)) if talking else s.warmup
        self.scenario = replace(s, traffic=tuple(streams), warmup=round(warmup, 1))

    def _may_talk(self, stream: Stream) -> bool:
        """Growing prompts change nothing that the draw was made for: the cache has room, no prefix is at stake."""
        pools = self.scenario.pools
        alone = not stream.prefixes.count and not stream.adapters and not stream.images and not stream.structured
        roomy = all(p.flags.blocks is None and p.flags.pool == 1.0 and p.role == "both" for p in pools)
        return alone and roomy and not any(p.flags.draft or p.flags.offload for p in pools)

    # ---- what else happens --------------------------------------------------------------------------------------

    def _trigger(self) -> None:
        """The fault comes with a rollout: what a restart would have changed a rollout changes; before any other fault
        every pod is replaced, and the fault starts when the last of the new ones begins to serve."""
        s = self.scenario
        if not self._yes(self.ranges.trigger):
            return
        onset = s.expect.onset or 0.0
        cold, surge, early = (
            self._one(self.ranges.cold_start),
            float(self._one(self.ranges.surge)),
            self._yes(self.ranges.early),
        )
        flagged = [f for f in s.faults if f.kind == "restart" and f.flags and f.until is None]
        if flagged:
            faults = tuple(self._as_rollout(f, surge, early) if f in flagged else f for f in s.faults)
            self.scenario = replace(s, faults=faults)
        elif not any(f.kind in ROLLED_BACK for f in s.faults) and not any(p.scaler or p.late for p in s.pools):
            batches = int(np.ceil(1.0 / surge))
            begin = onset - batches * cold
            if begin < SCRAPES_BEFORE * s.scrape:
                return
            rollout = FaultSpec("rollout", round(begin, 3), after=cold, seconds=120.0, surge=surge, early=early)
            self.scenario = replace(s, faults=(rollout, *s.faults))
        else:
            return
        self.happened.append("rollout as trigger")

    @staticmethod
    def _as_rollout(fault: FaultSpec, surge: float, early: bool) -> FaultSpec:
        """The new pods load before the onset, so that the settings change when it says."""
        cold = fault.after or 60.0
        begin = max(AT_ONCE, fault.at)
        return replace(fault, kind="rollout", at=begin, after=cold, seconds=120.0, surge=surge, early=early)

    def _innocent(self, surroundings: Surroundings) -> float | None:
        """Something that has no impact, before the fault or anywhere in a control. Answers when labels change."""
        s = self.scenario
        if not self._yes(self.ranges.innocent):
            return None
        onset = s.expect.onset
        last = (onset - 240.0) if onset is not None else s.duration - 240.0
        earliest = 2 * SCRAPES_BEFORE / 3 * s.scrape
        if last <= earliest:
            return None
        at = round(float(self.rng.uniform(earliest, last)), 3)
        before = self.load <= QUIET and not any(p.scaler or p.late or p.ranks > 1 for p in s.pools)
        untouched = not any(f.kind in ROLLED_BACK for f in s.faults)
        choices = ["relabelled"]
        if before and untouched and surroundings.naming == "deployment" and "rollout as trigger" not in self.happened:
            choices += ["rollout", "rollout", "grow"]
        if before and untouched and surroundings.naming == "numbered" and s.pools[0].pods >= 3:
            choices += ["restart"]
        if before and s.traffic[0].rate > 0 and not any(f.kind == "traffic" for f in s.faults):
            choices += ["burst"]
        what = choices[int(self.rng.integers(len(choices)))]
        self.happened.append(what)
        if what == "relabelled":
            return at
        self.scenario = replace(s, faults=(self._event(what, at), *s.faults))
        return None

    def _event(self, what: str, at: float) -> FaultSpec:
        pool = self.scenario.pools[0]
        cold, surge = self._one(self.ranges.cold_start), float(self._one(self.ranges.surge))
        if what == "rollout":
            return FaultSpec("rollout", at, after=cold, seconds=120.0, surge=surge, early=self._yes(self.ranges.early))
        if what == "grow":
            return FaultSpec("grow", at, pods=(f"{pool.name}-0",), after=cold, early=self._yes(self.ranges.early))
        if what == "restart":
            return FaultSpec("restart", at, pods=(f"{pool.name}-{pool.pods - 1}",), after=cold)
        return FaultSpec("traffic", at, until=at + 60.0, rate=min(1.6, 0.8 / max(self.load, 0.1)))

    def _bystanders(self) -> list[Bystander]:
        bystanders: list[Bystander] = []
        for _ in range(int(self._one(self.ranges.bystanders))):
            served = {pool.model for pool in self.scenario.pools} | {one.model for one in bystanders}
            # A second deployment of the same model on other GPUs would be a slower or faster tier of it.
            machines = [machine for machine in MACHINES if machine[1] not in served]
            tier, model, gpus = machines[int(self.rng.integers(len(machines)))]
            what = ("nothing", "nothing", "rollout", "grow", "burst")[int(self.rng.integers(5))]
            at = round(float(self.rng.uniform(0.1, 0.9)) * self.scenario.duration, 3)
            load, router = (
                round(self._one(self.ranges.bystander_load), 3),
                self.scenario.exporters.router and self._yes(self.ranges.router),
            )
            pods = int(self.rng.integers(1, 4))
            bystanders.append(Bystander(tier, model, gpus, pods, load, router, cast(Any, what), at))
        return bystanders


def _load(scenario: Scenario) -> float:
    """Share of what the fleet sustains that its traffic takes at the beginning."""
    total = 0.0
    for stream in scenario.traffic:
        if stream.start > 0:
            continue
        if stream.clients:
            return 1.0
        total += stream.load or stream.rate / max(sustainable(scenario.pools, stream), 1e-9)
    return total


def delayed(scenario: Scenario, lead: float, more: float = 0.0) -> Scenario:
    """The scenario with so many seconds before all that happens, and more at its end. What was so from the start stays
    so."""

    def later(moment: float | None) -> float | None:
        return moment if moment is None or moment <= AT_ONCE else moment + lead

    faults = tuple(replace(f, at=later(f.at), until=later(f.until)) for f in scenario.faults)
    traffic = tuple(replace(t, start=later(t.start), stop=later(t.stop)) for t in scenario.traffic)
    expect = replace(scenario.expect, onset=later(scenario.expect.onset))
    return replace(scenario, faults=faults, traffic=traffic, expect=expect, duration=scenario.duration + lead + more)

"""An independent oracle: which floor the emitted text gives at each minute, computed from the components' own rules.

It shares no code with the emitters and uses no cron library (croniter and cronsim treat skipped and repeated local
times differently from KEDA, Kubernetes and systemd). It walks UTC minutes, converts them with zoneinfo and tests
field membership on the local wall time: local times that do not exist never match, repeated ones match twice. The
rules are those of KEDA's cron scaler (robfig/cron), Kubernetes' CronJob, Debian's cron(8) and systemd.time(7).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

PROBE = 15
NAMES = {name: str(i) for i, name in enumerate(("sun", "mon", "tue", "wed", "thu", "fri", "sat"))}
NEVER = np.iinfo(np.int64).max


@lru_cache(maxsize=64)
def _wall(begin: int, count: int, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Minute of the day and day of the week (0 = Sunday) on the wall clock, int64[count] each; begin: UTC minutes."""
    zone = ZoneInfo(name)
    probes = np.arange(begin - begin % PROBE, begin + count + PROBE, PROBE)
    offsets = []
    for probe in probes.tolist():
        delta = datetime.fromtimestamp(probe * 60, UTC).astimezone(zone).utcoffset()
        offsets.append(0 if delta is None else int(delta.total_seconds() // 60))
    minutes = np.arange(begin, begin + count)
    local = minutes + np.array(offsets)[(minutes - probes[0]) // PROBE]
    return local % 1440, (local // 1440 + 4) % 7


@dataclass(frozen=True)
class MinuteSpan:
    """A range of UTC minutes. begin: minutes since the epoch; count: how many."""

    begin: int
    count: int

    def wall(self, zone: str) -> tuple[np.ndarray, np.ndarray]:
        return _wall(self.begin, self.count, zone)

    @cached_property
    def minutes(self) -> np.ndarray:
        return np.arange(self.begin, self.begin + self.count)


def intent(span: MinuteSpan, pool: dict[str, Any]) -> np.ndarray:
    """int64[count]: the floor of the plan's JSON: the highest window that covers the minute on the wall clock."""
    clock, weekday = span.wall(pool["zone"])
    minute = (weekday - 1) % 7 * 1440 + clock
    week = np.full(10080, pool["base"], dtype=np.int64)
    order = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
    for window in pool["windows"]:
        hour, rest = map(int, window["start"].split(":"))
        for day in window["days"]:
            since = (np.arange(10080) - order.index(day) * 1440 - hour * 60 - rest) % 10080
            week = np.where(since < window["minutes"], np.maximum(week, window["replicas"]), week)
    return np.asarray(week[minute])


def cron_matches(span: MinuteSpan, expression: str, zone: str, sunday_is_7: bool = False) -> np.ndarray:
    """bool[count]: minutes at which a five-field cron expression fires on the zone's wall clock. Only `*` is supported
    for day of the month and month (no emitter writes others). sunday_is_7: whether 7 is accepted (cron yes, KEDA
    no)."""
    minute, hour, month_day, month, week_day = expression.split()
    if month_day != "*" or month != "*":
        raise ValueError(f"`{expression}`: a dated expression fires again next year")
    clock, weekday = span.wall(zone)
    days = np.zeros(7, dtype=bool)
    days[[day % 7 for day in _numbers(week_day, 0, 7 if sunday_is_7 else 6)]] = True
    times = np.zeros(1440, dtype=bool)
    for h in _numbers(hour, 0, 23):
        for m in _numbers(minute, 0, 59):
            times[h * 60 + m] = True
    return np.asarray(times[clock] & days[weekday])


def _numbers(field: str, low: int, high: int) -> set[int]:
    found: set[int] = set()
    for part in field.lower().split(","):
        match = re.fullmatch(r"(\*|\w+)(?:-(\w+))?(?:/(\d+))?", part)
        if match is None:
            raise ValueError(f"`{field}` is no cron field")
        first, last, step = match[1], match[2], int(match[3] or 1)
        begin = low if first == "*" else int(NAMES.get(first, first))
        end = high if first == "*" else int(NAMES.get(last, last)) if last else (high if match[3] else begin)
        if first == "*" and high == 7:
            end = 6
        if not low <= begin <= end <= high or step < 1:
            raise ValueError(f"`{field}` is outside {low}-{high}")
        found |= set(range(begin, end + 1, step))
    return found


def keda_floor(span: MinuteSpan, spec: dict[str, Any]) -> np.ndarray:
    """int64[count]: minReplicaCount, or the highest desiredReplicas of the active cron triggers. A trigger has no
    memory: it is active exactly when its next end comes no later than its next start."""
    floor = np.full(span.count, spec.get("minReplicaCount", 0), dtype=np.int64)
    for trigger in spec["triggers"]:
        if trigger["type"] != "cron":
            continue
        meta = trigger["metadata"]
        start, end = (_next(cron_matches(span, meta[key], meta["timezone"])) for key in ("start", "end"))
        floor = np.where(end <= start, np.maximum(floor, int(meta["desiredReplicas"])), floor)
    return floor


def _next(fires: np.ndarray) -> np.ndarray:
    """int64[n]: index of the next firing strictly after each minute; NEVER after the last."""
    at = np.where(fires, np.arange(len(fires)), NEVER)
    later = np.minimum.accumulate(at[::-1])[::-1]
    return np.append(later[1:], NEVER)


def last_event(span: MinuteSpan, events: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """int64[count]: the level of the newest event; -1 before the first. events: (bool[count] fires, int64[count] level
    it sets when it fires then). Two events of one minute that disagree give -2 from then on."""
    level = np.full(span.count, -1, dtype=np.int64)
    set_at = np.zeros(span.count, dtype=bool)
    for fires, value in events:
        clash = fires & set_at & (level != value)
        level = np.where(fires, np.where(clash, -2, value), level)
        set_at |= fires
    at = np.maximum.accumulate(np.where(set_at, np.arange(span.count), -1))
    return np.where(at >= 0, level[np.maximum(at, 0)], -1)


def cronjob_floor(span: MinuteSpan, objects: list[dict[str, Any]], kind: str) -> np.ndarray:
    """int64[count]: the floor that the CronJobs set on an object without changes by hand. The CronJob that ends the
    plan is checked separately. kind: short word of the object."""
    events = []
    for job in _weekly(objects):
        level = _hold_floor(job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0], kind)
        fires = cron_matches(span, job["spec"]["schedule"], job["spec"]["timeZone"], sunday_is_7=True)
        events.append((fires, np.full(span.count, level, dtype=np.int64)))
    return last_event(span, events)


def _hold_floor(container: dict[str, Any], kind: str) -> int:
    words: list[str] = container["command"]
    options = dict(word.removeprefix("--").split("=", 1) for word in words[3:] if "=" in word)
    if words[:3] != ["inferdoc", "prewarm", "hold"] or options["target"] != kind or "--yes" not in words:
        raise ValueError(f"`{' '.join(words[:4])}` does not hold the floor of {kind}")
    return int(options["floor"])


def _weekly(objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    jobs = [o for o in objects if o["kind"] == "CronJob"]
    return [job for job in jobs if "initContainers" not in job["spec"]["jobTemplate"]["spec"]["template"]["spec"]]


def ending_faults(objects: list[dict[str, Any]], kind: str, until: datetime, base: int) -> list[str]:
    """Faults of the CronJob that ends the plan; empty if it fires once in the year, in the minute in which the plan
    stops being valid, deletes every job, itself last, and gives the object back before that: by the record on it, or
    where only its scale is touched at `base`. kind: short word of the object."""
    jobs = [o for o in objects if o["kind"] == "CronJob"]
    weekly = {job["metadata"]["name"] for job in _weekly(objects)}
    ends = [job for job in jobs if job["metadata"]["name"] not in weekly]
    if len(ends) != 1:
        return [f"{len(ends)} CronJobs end the plan, expected 1"]
    spec, name = ends[0]["spec"], ends[0]["metadata"]["name"]
    at = datetime.fromtimestamp(-(-until.timestamp() // 60) * 60, UTC)
    found = []
    if (spec["schedule"], spec["timeZone"]) != (f"{at.minute} {at.hour} {at.day} {at.month} *", "Etc/UTC"):
        found.append(f"{name} fires at `{spec['schedule']}` {spec['timeZone']}, the plan ends {at:%Y-%m-%d %H:%M}Z")
    pod = spec["jobTemplate"]["spec"]["template"]["spec"]
    containers: list[dict[str, Any]] = pod["initContainers"] + pod["containers"]
    first, second, last = containers
    if not weekly <= set(first["command"]):
        found.append(f"{name} leaves {', '.join(sorted(weekly - set(first['command'])))}")
    back = second["command"]
    if back[2:3] == ["hold"]:
        if _hold_floor(second, kind) != base:
            found.append(f"{name} puts {_hold_floor(second, kind)} back, the base is {base}")
    elif not {"release", f"--target={kind}", "--yes"} <= set(back):
        found.append(f"{name} does not give the object back")
    if last["command"][-1] != name:
        found.append(f"{name} does not delete itself and would fire again next year")
    return found


def release_faults(objects: list[dict[str, Any]], word: str) -> list[str]:
    """Faults of the CronJob that restores an object with triggers when its plan has expired; empty if it reads that
    object at least once an hour, all year, goes itself then, and the rights beside it are those that it needs. word:
    the word of `--target` for the object, which comes first."""
    scaled, jobs = objects[0], [o for o in objects if o["kind"] == "CronJob"]
    if len(jobs) != 1:
        return [f"{len(jobs)} CronJobs give the {scaled['kind']} back, expected 1"]
    spec, meta, name = jobs[0]["spec"], scaled["metadata"], jobs[0]["metadata"]["name"]
    words = spec["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]["command"]
    place = [f"--name={meta['name']}", f"--namespace={meta.get('namespace', 'default')}"]
    expected = ["inferdoc", "prewarm", "release", f"--target={word}", "--expired", "--yes", f"--job={name}", *place]
    found = [f"the CronJob that gives the {scaled['kind']} back lacks {part}" for part in expected if part not in words]
    if not re.fullmatch(r"(\*|\*/\d+|\d+) \* \* \* \*", spec["schedule"]):
        found.append(f"the CronJob that gives the {scaled['kind']} back fires at `{spec['schedule']}`")
    rules = [rule for o in objects if o["kind"] == "Role" for rule in o["rules"]]
    verbs, allowed = ["get", "patch"], "get and patch"
    if scaled["kind"] == "ScaledObject":
        verbs, allowed = ["delete", *verbs], "get, patch and delete"
    if [(r["resourceNames"], sorted(r["verbs"])) for r in rules] != [([meta["name"]], verbs), ([name], ["delete"])]:
        found.append(f"the Role does not let it {allowed} {scaled['kind']} {meta['name']}, and delete itself")
    return found


def crontab_floor(span: MinuteSpan, text: str, host_zone: str, level: np.ndarray) -> np.ndarray:
    """int64[count]: the floor after each run of the level-based command. level: int64[count], what a run sets when it
    runs then. Debian's cron runs a fixed-time job once in a repeated hour and soon after a skipped one."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    fires = np.zeros(span.count, dtype=bool)
    for line in lines:
        fires |= cron_matches(span, " ".join(line.split()[:5]), host_zone, sunday_is_7=True)
    return last_event(span, [(_debian(span, fires, host_zone), level)])


def _debian(span: MinuteSpan, fires: np.ndarray, zone: str) -> np.ndarray:
    clock, weekday = span.wall(zone)
    line = weekday * 1440 + clock
    step = np.diff(line, prepend=line[:1] - 1) % 10080
    fires = fires.copy()
    for at in np.flatnonzero((step != 1) & (step > 5040)).tolist():
        back = 10080 - int(step[at]) + 1
        fires[at : at + back] = False
    return fires


def systemd_floor(span: MinuteSpan, text: str, level: np.ndarray) -> np.ndarray:
    """int64[count]: the floor after each elapse of the timer's OnCalendar lines."""
    fires = np.zeros(span.count, dtype=bool)
    for line in text.splitlines():
        if line.startswith("OnCalendar="):
            fires |= _calendar(span, line.removeprefix("OnCalendar="))
    return last_event(span, [(fires, level)])


def _calendar(span: MinuteSpan, text: str) -> np.ndarray:
    match = re.fullmatch(r"(?:([A-Za-z,]+) )?\*-\*-\* (\d\d):(\d\d):00 (\S+)", text)
    if match is None:
        raise ValueError(f"OnCalendar `{text}` is not of the form that is emitted")
    days = set(range(7)) if match[1] is None else {int(NAMES[word.lower()]) for word in match[1].split(",")}
    clock, weekday = span.wall(match[4])
    return np.asarray((clock == int(match[2]) * 60 + int(match[3])) & np.isin(weekday, sorted(days)))

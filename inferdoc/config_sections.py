"""The sections of the configuration file, each as it is written and with what of it makes no sense."""

from __future__ import annotations

import re
from datetime import date
from typing import Literal

import msgspec

from inferdoc.escaping import is_web
from inferdoc.origins import origin_of

LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
TENANT = re.compile(r"[A-Za-z0-9!\-_.*'()]{1,150}")
"""What Mimir takes for one: https://grafana.com/docs/mimir/latest/configure/about-tenant-ids/"""
SLO_ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


def _within(name: str, value: float | None, most: float) -> None:
    """Raises ValueError, which msgspec reports with its place, where a number makes no sense."""
    if value is not None and not 0 < value <= most:
        raise ValueError(f"{name}: {value:g} is not above 0 and at most {most:g}")


def _expression(name: str, pattern: str) -> None:
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"{name}: {pattern!r} is not a regular expression ({error})") from None


def _same_origin(url: str, other: str) -> bool:
    try:
        return origin_of(url) == origin_of(other)
    except ValueError:
        return False


class SourceSection(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """[source]: where metrics are read from. Secrets stand in files, never here."""

    prometheus: str | None = None
    store: str | None = None
    bearer_token_file: str | None = None
    username: str | None = None
    password_file: str | None = None
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    headers: dict[str, str] = {}
    timeout_seconds: float | None = None
    parallel: int = 6

    def at(self, url: str) -> tuple[SourceSection, bool]:
        """The section for a server that was named in place of `prometheus`. Credentials and headers stay with the
        origin that they are configured for. Whether some are left out."""
        if self.prometheus is None or _same_origin(url, self.prometheus):
            return msgspec.structs.replace(self, prometheus=url, store=None), False
        bare = SourceSection(url, ca_file=self.ca_file, timeout_seconds=self.timeout_seconds, parallel=self.parallel)
        return bare, msgspec.structs.replace(self, prometheus=url, store=None) != bare

    def __post_init__(self) -> None:
        if self.timeout_seconds is not None:
            _within("timeout_seconds", self.timeout_seconds, 86_400)
        _within("parallel", self.parallel, 256)


class TargetSection(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """[[collect.targets]]: a page to scrape and the labels its series get."""

    url: str
    labels: dict[str, str] = {}


class CollectSection(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """[collect]: pages to scrape, and file_sd files and http_sd endpoints that list more of them."""

    targets: tuple[TargetSection, ...] = ()
    file_sd: tuple[str, ...] = ()
    http_sd: tuple[str, ...] = ()
    http_sd_refresh_seconds: float = 60.0

    def __post_init__(self) -> None:
        _within("http_sd_refresh_seconds", self.http_sd_refresh_seconds, 86_400)


class PodSection(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """[[pods]]: pods whose whole name matches the regular expression serve in this role, on this hardware tier.
    tokens_per_second: generated tokens/s of one pod at the plateau of a benchmark; gpus: of one pod, where no GPU
    exporter shows; spot: they run on spot capacity, at the spot price of their tier."""

    pod: str
    role: Literal["prefill", "decode", "both"] | None = None
    tier: str | None = None
    tokens_per_second: float | None = None
    gpus: int | None = None
    spot: bool = False

    def __post_init__(self) -> None:
        _expression("pod", self.pod)
        _within("tokens_per_second", self.tokens_per_second, 1e9)
        _within("gpus", self.gpus, 1024)


class SloSection(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """[[slo]], and an entry of alerts/slo.yaml: what is promised to whom.

    signal, percentile, target: so many percent of its observations at most the target (its unit), within `window`; a
    share of bad events has no percentile. cluster, namespace, model, tier, role, tenant (label -> value): whom it is
    promised to, anybody where left out. limits: several at once, signal id -> target. id, title: how rules and reports
    call it; burn: false for one without burn-rate rules; promised: false for a starting point, which only alerts,
    boards and `slo` read.
    """

    limits: dict[str, float] = {}
    model: str | None = None
    tier: str | None = None
    role: Literal["prefill", "decode", "both"] | None = None
    tenant: dict[str, str] = {}
    signal: str | None = None
    percentile: float | None = None
    target: float | None = None
    window: str | None = None
    id: str | None = None
    title: str | None = None
    burn: bool = True
    promised: bool = True
    cluster: str | None = None
    namespace: str | None = None

    def __post_init__(self) -> None:
        for signal, limit in self.limits.items():
            _within(f"limits.{signal}", limit, 1e15)
        _within("target", self.target, 1e15)
        if self.percentile is not None and not 0 < self.percentile < 100:
            raise ValueError(f"percentile: {self.percentile:g} is not above 0 and below 100")
        if self.id is not None and not SLO_ID.fullmatch(self.id):
            raise ValueError(f"id: {self.id!r} is not in lower case such as ttft-chat")
        for label in self.tenant:
            if not LABEL.fullmatch(label):
                raise ValueError(f"tenant: {label!r} is not a label name such as priority")
        self._complete()

    def _complete(self) -> None:
        """Raises ValueError where it does not say what is promised."""
        if bool(self.limits) == (self.signal is not None):
            raise ValueError("exactly one of limits, signal is needed")
        if self.signal is not None and self.target is None:
            raise ValueError("target: missing; the most that is allowed, in the unit of the signal")
        if self.limits and any((self.id, self.title, self.percentile, self.target)):
            raise ValueError("limits: goes without id, title, percentile and target; use signal with them")

    def __hash__(self) -> int:
        return hash(msgspec.json.encode(self, order="sorted"))


class RecipesSection(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """[recipes]: causes that are not looked for, by id."""

    disabled: tuple[str, ...] = ()


class TierPrice(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """[prices.tiers.ID]: money per GPU-hour. reserved: of the first `committed_gpus` of the tier that are in use, the
    rest is on demand; spot: of pods that `[[pods]] spot = true` names."""

    on_demand: float
    reserved: float | None = None
    committed_gpus: int | None = None
    spot: float | None = None

    def __post_init__(self) -> None:
        for name in ("on_demand", "reserved", "spot"):
            _within(name, getattr(self, name), 1e9)
        _within("committed_gpus", self.committed_gpus, 1e6)
        if (self.reserved is None) != (self.committed_gpus is None):
            raise ValueError(
                "reserved and committed_gpus belong together: what a reserved GPU-hour costs, and of how many"
            )
        if self.reserved is not None and self.reserved > self.on_demand:
            raise ValueError(
                f"reserved: {self.reserved:g} is more than on_demand {self.on_demand:g}; nobody reserves so"
            )


class PricesSection(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """[prices]: what a GPU-hour costs, by hardware tier. overhead: a factor for what comes on top (disks, network);
    kwh: money per kWh at the meter, None where it is in the price of a GPU-hour; pue: kWh at the meter for one that the
    machines draw."""

    currency: str = "USD"
    overhead: float = 1.0
    kwh: float | None = None
    pue: float = 1.0
    tiers: dict[str, TierPrice] = {}

    def __post_init__(self) -> None:
        _within("overhead", self.overhead, 1e6)
        _within("kwh", self.kwh, 1e6)
        if not 1 <= self.pue <= 10:
            raise ValueError(f"pue: {self.pue:g} is not from 1 to 10; a site draws no less than its machines")
        if not self.currency.strip():
            raise ValueError('currency is empty; give its sign or code, such as "EUR"')

    def per_gpu_hour(self, tier: str) -> float | None:
        """Money per GPU-hour of a tier with the overhead on top, on demand; None without a price."""
        price = self.tiers.get(tier)
        return None if price is None else price.on_demand * self.overhead


class AcceptedSection(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """[[audit.accepted]]: a standing state that is meant to be so. until: a day (2027-03-31) after which it counts
    again; pod: a regular expression for the whole name of the pods it concerns."""

    state: str
    reason: str
    until: str | None = None
    pod: str = ".*"

    def __post_init__(self) -> None:
        _expression("pod", self.pod)
        if self.until is not None:
            try:
                date.fromisoformat(self.until)
            except ValueError:
                raise ValueError(f"until: {self.until!r} is not a day such as 2027-03-31") from None


class AuditSection(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """[audit]: what `inferdoc audit` leaves out."""

    accepted: tuple[AcceptedSection, ...] = ()


TRACE_ID = "{trace_id}"
"""Where the id of a trace goes in an address."""


FLEET_BOARD = "inferdoc-fleet"
"""The uid of the fleet dashboard."""


def fleet_board(base: str) -> str:
    """The address of the fleet dashboard below the address of Grafana; that of a dashboard as it is."""
    return base if "/d/" in base else f"{base.rstrip('/')}/d/{FLEET_BOARD}"


class LinksSection(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """[links]: URL prefixes of runbook pages and dashboards in reports and rules. runbook_base: default
    public_url/runbooks of [serve]; dashboard_base: of Grafana, or of a dashboard. trace_url: of a trace, with
    {trace_id}."""

    runbook_base: str | None = None
    dashboard_base: str | None = None
    trace_url: str | None = None

    def __post_init__(self) -> None:
        if self.trace_url is not None and not (is_web(self.trace_url) and TRACE_ID in self.trace_url):
            raise ValueError(f"trace_url: write an http(s) address with {TRACE_ID} where the id of a trace goes")


class BaselinesSection(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """[baselines]: where `inferdoc baseline save` keeps them; None: the user's data folder."""

    folder: str | None = None


class LabelsSection(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """[labels]: your own label for what a series is about, tried before those of collectors/identity.yaml. replica:
    that of the server which stored a series."""

    cluster: str | None = None
    namespace: str | None = None
    pod: str | None = None
    node: str | None = None
    instance: str | None = None
    replica: str | None = None

    def __post_init__(self) -> None:
        for field, label in self.chosen.items():
            if not LABEL.fullmatch(label):
                raise ValueError(f"{field}: {label!r} is not a label name such as exported_pod")

    @property
    def chosen(self) -> dict[str, str]:
        """Label by field."""
        return {name: getattr(self, name) for name in self.__struct_fields__ if getattr(self, name) is not None}


OutputKind = Literal["slack", "teams", "pagerduty", "webhook", "file", "grafana"]


class OutputSection(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """[[serve.outputs]]: a receiver of diagnoses. url, or url_file where the address is a secret; token_file: the
    bearer token, of pagerduty its routing key, of slack with a channel the bot token (scope chat:write); channel: of
    slack, for one thread per incident: url is then the API (default https://slack.com/api); template_file: of webhook,
    Jinja that gives the body; folder, format: of file."""

    kind: OutputKind
    name: str = ""
    url: str | None = None
    url_file: str | None = None
    token_file: str | None = None
    channel: str | None = None
    ca_file: str | None = None
    template_file: str | None = None
    folder: str | None = None
    format: Literal["markdown", "json", "html"] = "markdown"

    def __post_init__(self) -> None:
        if self.kind == "file":
            if self.folder is None:
                raise ValueError("folder: missing; where the reports are to lie")
            return
        if self.folder is not None:
            raise ValueError(f"folder: goes with kind file, not with {self.kind}")
        if self.template_file is not None and self.kind != "webhook":
            raise ValueError(f"template_file: goes with kind webhook, not with {self.kind}")
        if self.channel is not None and self.kind != "slack":
            raise ValueError(f"channel: goes with kind slack, not with {self.kind}")
        if self.kind == "pagerduty" or self.channel is not None:
            if self.token_file is None:
                raise ValueError("token_file: missing; the file with the routing key or the bot token")
            return
        if (self.url is None) == (self.url_file is None):
            raise ValueError("exactly one of url, url_file is needed")

    @property
    def label(self) -> str:
        """How the record and the log call it."""
        return self.name or self.kind


class ServeSection(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """[serve]: `inferdoc serve`. Times in seconds. record: the file of the incidents, None: in the user's data folder;
    record_days: how long they are kept; public_url: under which readers reach it, for links; bearer_token_file, or
    username with password_file: what callers must send; hosts: names under which it is called besides an address of
    its own; tenants: that a caller may name (X-Scope-OrgID); ignore: alerts that are no incident; concurrency: looks at
    once; queue: looks that may wait; deadline: of one look; grace: within which an alert that comes back reopens its
    incident; retry_hours: for which a message is tried that an output does not take; textfiles: files of metrics, by
    pattern, that our page shows too."""

    listen: str = "127.0.0.1:9109"
    record: str | None = None
    record_days: float = 400.0
    public_url: str | None = None
    bearer_token_file: str | None = None
    username: str | None = None
    password_file: str | None = None
    hosts: tuple[str, ...] = ()
    tenants: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ("InferdocWatchdog", "Watchdog", "InfoInhibitor")
    concurrency: int = 1
    queue: int = 64
    deadline: float = 120.0
    grace: float = 900.0
    retry_hours: float = 48.0
    textfiles: tuple[str, ...] = ()
    outputs: tuple[OutputSection, ...] = ()

    def __post_init__(self) -> None:
        _within("record_days", self.record_days, 36_500)
        _within("concurrency", self.concurrency, 64)
        _within("queue", self.queue, 100_000)
        _within("deadline", self.deadline, 3_600)
        _within("grace", self.grace, 86_400)
        _within("retry_hours", self.retry_hours, 8_760)
        if (self.username is None) != (self.password_file is None):
            raise ValueError("username and password_file go together")
        if self.public_url is not None and not re.match(r"https?://[^\s/]+", self.public_url):
            raise ValueError(f"public_url: {self.public_url!r} is not an address such as https://inferdoc.example.org")
        names = [output.label for output in self.outputs]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"outputs: two are called {twice!r}; give each a name of its own")
        for tenant in self.tenants:
            if not TENANT.fullmatch(tenant):
                raise ValueError(f"tenants: {tenant!r} is not a tenant id (letters, digits and !-_.*'())")

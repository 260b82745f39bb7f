"""What fires in no simulated incident fires here, in a real Prometheus with the real rules, on pages that show what an
alert is about: inferdoc itself and its plans, GPUs before they harm, what is scraped, requests that fail."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
import requests
import yaml

from inferdoc.generate.cause_rules import alert_name
from inferdoc.generate.pack import RULES
from tests import prometheus_server
from tests.conftest import ROOT
from tests.live import chain
from tests.live.test_outages import OURS
from tests.page_server import answering

pytestmark = [pytest.mark.live, pytest.mark.takes_long("windows of rates and what alerts wait for pass")]

TIMES = 60
"""An hour is a minute, a day 24 minutes."""
PATIENCE_SECONDS = 180
FAULT_SECONDS = 15
"""When what changes changes: after the windows of rates are full."""
PAST_SECONDS = 26 * 60
"""More than a day at that pace: what a model served at this hour yesterday."""
HISTOGRAMS = ("time_to_first_token_seconds", "request_time_per_output_token_seconds", "e2e_request_latency_seconds")
ENGINE, GPU = 'model_name="{}",engine="0"', '{{namespace="n",pod="{}",gpu="{}",modelName="H100"}}'
Page = Callable[[float], str | None]


def engine(model: str, rate: float, errors: float = 0.0, without: str = "", slow: str = "") -> Page:
    """The page of an engine: requests per second, the share that ends in an error, the family that it drops at the
    fault, and the one that shows every request beyond its objective."""

    def page(at: float) -> str:
        own, served = ENGINE.format(model), rate * at
        failed = errors * rate * max(0.0, at - FAULT_SECONDS)
        lines = [
            f"vllm:num_requests_running{{{own}}} 4",
            f'vllm:request_success_total{{{own},finished_reason="stop"}} {served - failed}',
            f'vllm:request_success_total{{{own},finished_reason="error"}} {failed}',
            f"vllm:kv_offload_allocation_failure_total{{{own}}} {failed}",
        ]
        for name in HISTOGRAMS:
            if name != without or at < FAULT_SECONDS:
                within = 0.0 if name == slow else served
                lines += [f'vllm:{name}_bucket{{{own},le="{le}"}} {within}' for le in ("0.2", "2.5")]
                lines += [f'vllm:{name}_bucket{{{own},le="+Inf"}} {served}']
                lines += [f"vllm:{name}_count{{{own}}} {served}", f"vllm:{name}_sum{{{own}}} {0.1 * served}"]
        return "\n".join(lines)

    return page


def on_and_off(page: Page) -> Page:
    """Two seconds there, two seconds not."""
    return lambda at: page(at) if at < FAULT_SECONDS or int(at) % 4 < 2 else None


def gpus(at: float) -> str:
    code = 79 if at > FAULT_SECONDS else 0
    return "\n".join(
        [
            f"DCGM_FI_DEV_GPU_UTIL{GPU.format('p0', 0)} 50",
            f"DCGM_FI_DEV_XID_ERRORS{GPU.format('p0', 0)} {code}",
            f"DCGM_FI_DEV_ROW_REMAP_FAILURE{GPU.format('p0', 1)} 1",
            f"DCGM_FI_DEV_GPU_TEMP{GPU.format('p0', 2)} 90",
        ]
    )


def itself(at: float) -> str | None:
    """A plan that expired, at its maximum, not applied and beyond its budget; a forecast that misses and is old."""
    told = {
        "floor_replicas": 9, "maximum_replicas": 9, "set_replicas": 4, "budget_hours": 100,
        "valid_until_timestamp_seconds": 1, "applied_timestamp_seconds": 1,
    }  # fmt: skip
    lines = [f'inferdoc_prewarm_{name}{{pool="a"}} {value}' for name, value in told.items()]
    return "\n".join(
        [
            *lines,
            'inferdoc_forecast_missed_ratio{pool="a"} 0.5',
            'inferdoc_forecast_generated_timestamp_seconds{pool="a"} 1',
            f'inferdoc_posts_total{{result="failed"}} {int(at)}',
            "inferdoc_build_info 1",
        ]
    )


PAGES: dict[tuple[str, str], Page] = {
    ("vllm", "p0"): engine("served", 20.0, errors=0.9),
    ("vllm", "p1"): engine("idle", 0.0),
    ("vllm", "p2"): on_and_off(engine("flaps", 20.0)),
    ("vllm", "p3"): engine("renamed", 20.0, without=HISTOGRAMS[2]),
    ("vllm", "p4"): engine("left", 0.0),
    ("vllm", "p5"): engine("slow", 20.0, slow=HISTOGRAMS[1]),
    ("nameless", "host-0"): engine("shared", 20.0),
    ("nameless", "host-1"): engine("shared", 20.0),
    ("dcgm", "node"): gpus,
    ("kube", "state"): lambda at: 'kube_pod_status_phase{namespace="n",pod="p9",phase="Pending"} 1',
    ("inferdoc", "service"): itself,
    ("inferdoc", "gone"): lambda at: "inferdoc_build_info 1" if at < FAULT_SECONDS else None,
}
"""By job and pod, which is the instance as well; what is `nameless` has no label for its pod."""
FIRES = {
    *("InferdocItselfDown", "InferdocItselfFails", "InferdocPrewarmPlanExpired", "InferdocPrewarmFloorAtMaximum"),
    *("InferdocPrewarmFloorNotApplied", "InferdocPrewarmOverBudget", "InferdocForecastMissedBand"),
    *("InferdocForecastStale", "InferdocGpuXid", "InferdocGpuMemoryErrors", "InferdocGpuHot", "InferdocPodsPending"),
    *("InferdocKvOffloadFailures", "InferdocEngineFlaps", "InferdocScrapeGaps", "InferdocMetricAbsent"),
    *("InferdocSloOutage", "InferdocSloBurnFast", "InferdocSloBurnSlow", "InferdocTrafficGone"),
    *("InferdocSloTrafficTooLow", "InferdocPodLabelShared"),
}
SIMULATED = {
    *("InferdocQueueEatsFirstTokens", "InferdocWatchdog", "InferdocSloOutage"),
    *("InferdocSloSlower", "InferdocSloPodSlower", "InferdocSloBurnFast", "InferdocSloBurnSlow"),
}
"""Alerts about no cause that fire in scenarios of fixtures/incidents (`benchmarks/rule_scenarios.py`)."""
ABOUT = {
    "InferdocItselfDown": {"instance": "gone"},
    "InferdocEngineFlaps": {"pod": "p2"},
    "InferdocScrapeGaps": {"pod": "p2"},
    "InferdocMetricAbsent": {"pod": "p3"},
    "InferdocTrafficGone": {"model_name": "left"},
    "InferdocPodLabelShared": {"job": "nameless"},
    "InferdocPodsPending": {"pod": "p9"},
    "InferdocGpuHot": {"gpu": "2"},
    "InferdocGpuMemoryErrors": {"gpu": "1"},
    "InferdocGpuXid": {"gpu": "0"},
}
"""Whom an alert is about, and nobody else."""


def test_every_alert_fires_somewhere():
    """Here, where outages are tried, or in the scenario of its cause. One that cannot is not shipped."""
    rules = yaml.load((ROOT / "alerts" / "generated" / RULES).read_text("utf-8"), yaml.CSafeLoader)
    shipped = {rule["alert"] for group in rules["groups"] for rule in group["rules"] if "alert" in rule}
    causes = {alert_name(path.stem) for path in (ROOT / "fixtures" / "incidents").glob("*.yaml")}
    assert shipped == shipped & (FIRES | SIMULATED | OURS | causes)
    assert shipped >= FIRES | SIMULATED | OURS


@dataclass
class Fired:
    """Every alert that ever fired, with its labels."""

    alerts: list[dict[str, str]]

    @property
    def names(self) -> set[str]:
        return {each["alertname"] for each in self.alerts}


def yesterday(folder) -> None:
    """What the model that nobody asks any more served, as the rules would have recorded it."""
    end = int(time.time()) - 5
    record = 'model:inferdoc_served:rate2m{namespace="n",model_name="left"}'
    lines = [f"{record} 5 {at}" for at in range(end - PAST_SECONDS, end)]
    text = folder / "past.om"
    text.write_text("\n".join(["# TYPE model:inferdoc_served:rate2m gauge", *lines, "# EOF\n"]), "utf-8")
    blocks = ["promtool", "tsdb", "create-blocks-from", "openmetrics", "--quiet", str(text), str(folder / "data")]
    subprocess.run(blocks, check=True, stdout=subprocess.DEVNULL)


def config(server: str, folder, address: str) -> str:
    """The file of a server with the rules, so many times faster, that scrapes every page once a second."""
    jobs = [
        {
            "job_name": f"{job}-{pod}",
            "metrics_path": f"/{job}/{pod}",
            "honor_labels": True,
            "static_configs": [
                {
                    "targets": [server.removeprefix("http://")],
                    "labels": {
                        "job": job,
                        "instance": pod,
                        **({"namespace": "n", "pod": pod} if job == "vllm" else {}),
                    },
                }
            ],
        }
        for job, pod in PAGES
    ]
    document = {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
        "rule_files": chain.rules_with_links(ROOT / "alerts" / "generated", address, folder, TIMES, alerts=FIRES),
        "scrape_configs": jobs,
    }
    path = folder / "prometheus.yml"
    path.write_text(yaml.dump(document, Dumper=yaml.CSafeDumper), "utf-8")
    return str(path)


@pytest.fixture(scope="module")
def fired(tmp_path_factory) -> Iterator[Fired]:
    if not prometheus_server.available():
        pytest.skip(prometheus_server.MISSING)
    folder = tmp_path_factory.mktemp("alerts")
    begun = time.monotonic()

    def page(path: str) -> str | None:
        job, _, pod = path.strip("/").partition("/")
        body = PAGES[job, pod](time.monotonic() - begun)
        return None if body is None else f"{body}\n"

    found: dict[tuple[tuple[str, str], ...], dict[str, str]] = {}
    yesterday(folder)
    with answering(page) as pages:
        address = f"127.0.0.1:{prometheus_server.free_port()}"
        command = [
            "prometheus", f"--config.file={config(pages, folder, pages)}", f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address={address}", "--log.level=error",
        ]  # fmt: skip
        with chain.serving(command, address, folder / "prometheus.log"):
            begun = time.monotonic()
            while time.monotonic() - begun < PATIENCE_SECONDS:
                told = requests.get(f"http://{address}/api/v1/alerts", timeout=10).json()["data"]["alerts"]
                firing = [alert["labels"] for alert in told if alert["state"] == "firing"]
                found |= {tuple(sorted(labels.items())): labels for labels in firing}
                if Fired([*found.values()]).names >= FIRES:
                    break
                time.sleep(0.5)
    yield Fired([*found.values()])


@pytest.mark.parametrize("name", sorted(FIRES))
def test_an_alert_fires_on_what_it_is_about(fired, name):
    about = [labels for labels in fired.alerts if labels["alertname"] == name]
    assert about, f"fired: {sorted(fired.names)}"
    for label, value in ABOUT.get(name, {}).items():
        assert {labels[label] for labels in about} == {value}

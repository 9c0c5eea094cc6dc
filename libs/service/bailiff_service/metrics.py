"""Prometheus metrics of the services. `METRICS` lists all of them; the table in the docs is generated from it."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

# no `_created` series for each counter
disable_created_metrics()  # type: ignore[no-untyped-call]

CYCLE_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True, slots=True)
class Metric:
    """Declaration of a metric. prometheus_client appends `_total` to a counter's name."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    labels: tuple[str, ...]
    help: str


LOG_HEAD = Metric("bailiff_log_head_seq", "gauge", ("pool",), "seq of the newest valid record read")
LOG_LAG = Metric("bailiff_log_lag", "gauge", ("pool",), "messages of the log not read yet by this service")
RECORDS_FOLDED = Metric("bailiff_records_folded", "counter", ("pool",), "records folded into the state")
ORPHANS = Metric("bailiff_orphans", "counter", ("pool",), "records skipped because they do not continue the chain")
SNAPSHOTS_UNWRITTEN = Metric(
    "bailiff_snapshots_unwritten", "counter", ("pool",), "snapshots that could not be written to this service's disk"
)
RECORDS_APPENDED = Metric("bailiff_records_appended", "counter", ("pool", "type"), "records committed, by type")
CYCLE_SECONDS = Metric(
    "bailiff_cycle_seconds", "histogram", ("pool",), "time from the first fact of a decision cycle to its commit"
)
INPUTS_REJECTED = Metric("bailiff_inputs_rejected", "counter", ("pool", "topic", "code"), "inputs rejected, by code")
INPUTS_WITHOUT_EFFECT = Metric(
    "bailiff_inputs_without_effect", "counter", ("pool", "topic", "type"), "valid inputs that changed nothing, as repeats"
)
COMMANDS_SENT = Metric("bailiff_commands_sent", "counter", ("pool", "type"), "commands sent to node agents")
COMMANDS_FENCED = Metric("bailiff_commands_fenced", "counter", ("pool", "type"), "outdated commands refused by a fence")
COMMANDS_REFUSED = Metric(
    "bailiff_commands_refused", "counter", ("pool", "code"), "commands refused: no certified key signed them"
)
OPEN_EVICTIONS = Metric("bailiff_open_evictions", "gauge", ("pool", "stage"), "evictions decided and not finished, by stage")
QUEUE_LENGTH = Metric("bailiff_queue_length", "gauge", ("pool", "priority_class"), "pending jobs")
PAUSED_JOBS = Metric("bailiff_paused_jobs", "gauge", ("pool",), "paused jobs")
NODES = Metric("bailiff_nodes", "gauge", ("pool", "state"), "nodes, by state")
DEVICES = Metric("bailiff_devices", "gauge", ("pool", "state"), "GPUs of nodes that are not lost, by state")
MIG_DEVICES = Metric(
    "bailiff_mig_devices", "gauge", ("pool", "profile", "state"), "MIG devices of nodes that are not lost, by profile and state"
)
LATE_STARTS = Metric(
    "bailiff_late_starts", "gauge", ("pool", "priority_class", "percent"), "jobs that started later than the start SLO"
)
LATE_STARTS_ALLOWED = Metric(
    "bailiff_late_starts_allowed", "gauge", ("pool", "priority_class", "percent"), "jobs that may start late within the start SLO"
)
ARCHIVED = Metric("bailiff_archived_records", "counter", ("pool",), "records written to the archive")
ARCHIVE_HEAD = Metric("bailiff_archive_head_seq", "gauge", ("pool",), "seq of the newest archived record")
ARCHIVE_LAG = Metric("bailiff_archive_lag", "gauge", ("pool",), "messages of the log not archived yet")
ARCHIVE_BROKEN = Metric("bailiff_archive_broken", "gauge", ("pool",), "1 while the log does not continue the archive, else 0")
SEALED = Metric("bailiff_sealed_records", "gauge", ("pool",), "records covered by the newest seal")
PROPOSALS_SEARCHED = Metric(
    "bailiff_proposals_searched",
    "counter",
    ("pool", "result"),
    "records of proposals that the auditor searched again, by result: reproduced, not-reproduced, not-searched",
)
REQUESTS_CHECKED = Metric(
    "bailiff_requests_checked",
    "counter",
    ("pool", "result"),
    "records of signed requests that the auditor checked, by result: verified, not-verified",
)
POSTGRES_OUTAGES = Metric("bailiff_postgres_outages", "counter", (), "number of times PostgreSQL became unreachable")
API_STREAMS = Metric("bailiff_api_streams", "gauge", (), "open streams of the query API")
API_RESPONSES = Metric("bailiff_api_responses", "counter", ("status",), "responses of the query API, by status")
EVICTIONS = Metric(
    "bailiff_evictions",
    "counter",
    ("pool", "action", "rule"),
    "evictions decided, by action and by rule or cause",
)
REPEAT_EVICTIONS = Metric(
    "bailiff_repeat_evictions",
    "counter",
    ("pool", "window"),
    "preempted jobs that were evicted before within the window",
)
EVICTIONS_CANCELLED = Metric("bailiff_evictions_cancelled", "counter", ("pool",), "evictions cancelled")
GPU_SECONDS_LOST = Metric(
    "bailiff_gpu_seconds_lost", "counter", ("pool", "cause"), "GPU-seconds of work lost, by cause of the attempt's end"
)
GPU_SECONDS_SAVED = Metric("bailiff_gpu_seconds_saved", "counter", ("pool",), "GPU-seconds of evicted jobs saved by checkpoints")
GPU_SECONDS_USED = Metric(
    "bailiff_gpu_seconds_used", "counter", ("pool", "project"), "GPU-seconds allocated, including subprojects; '': the pool"
)
GPU_SECONDS_IDLE = Metric(
    "bailiff_gpu_seconds_idle",
    "counter",
    ("pool", "project"),
    "GPU-seconds allocated while the GPUs were idle",
)
GPU_SECONDS_FAIR_SHARE = Metric(
    "bailiff_gpu_seconds_fair_share", "counter", ("pool", "project"), "GPU-seconds of the project's fair share"
)
GPU_SECONDS_AVAILABLE = Metric("bailiff_gpu_seconds_available", "counter", ("pool",), "GPU-seconds of usable GPUs")
GPU_SECONDS_MEASURED = Metric(
    "bailiff_gpu_seconds_measured", "counter", ("pool", "project"), "GPU-seconds allocated for which utilization was measured"
)
GPU_SECONDS_BUSY = Metric(
    "bailiff_gpu_seconds_busy", "counter", ("pool", "project"), "GPU-seconds measured, weighted by utilization"
)
GPU_MEMORY_MEASURED = Metric(
    "bailiff_gpu_memory_measured_byte_seconds", "counter", ("pool", "project"), "memory of allocated GPUs, byte-seconds"
)
GPU_MEMORY_USED = Metric(
    "bailiff_gpu_memory_used_byte_seconds", "counter", ("pool", "project"), "used memory of allocated GPUs, byte-seconds"
)
PROJECT_GPUS = Metric(
    "bailiff_project_gpus",
    "gauge",
    ("pool", "project", "kind"),
    "GPUs of a project ('': the pool), by kind: used, idle, requested, quota, limit, fair_share, available (pool only)",
)
JOBS_SUBMITTED = Metric("bailiff_jobs_submitted", "counter", ("pool", "priority_class"), "jobs submitted")
PENDING_SECONDS = Metric(
    "bailiff_pending_job_seconds", "counter", ("pool", "priority_class"), "seconds that jobs were pending, summed"
)
START_SECONDS = Metric("bailiff_start_seconds", "histogram", ("pool", "priority_class"), "time from submission to first start")
START_SLO = Metric(
    "bailiff_start_slo_seconds",
    "gauge",
    ("pool", "priority_class", "percent"),
    "start SLO: time within which this percentage of the class's jobs must start",
)
STARTS_LATE = Metric(
    "bailiff_starts_late", "counter", ("pool", "priority_class", "percent"), "first starts later than the start SLO"
)
ROLLUP_TIME = Metric("bailiff_rollup_time_seconds", "gauge", ("pool",), "log time of the newest record aggregated, Unix seconds")
ALARMS = Metric("bailiff_alarms", "counter", ("pool", "code"), "alarms raised")
KAFKA_OUTAGES = Metric("bailiff_kafka_outages", "counter", (), "number of times Kafka became unreachable")
READY = Metric("bailiff_ready", "gauge", (), "1 while /readyz answers 200, else 0")
ENGINE_INFO = Metric("bailiff_engine_info", "gauge", ("service", "engine"), "1, labelled with the engine in force")

BRIDGE_LEADER = Metric("bailiff_bridge_leader", "gauge", (), "1 while this replica of the Kubernetes bridge acts")
BRIDGE_ACTIONS = Metric(
    "bailiff_bridge_actions", "counter", ("pool", "action"), "requests sent and objects changed by the Kubernetes bridge"
)
BRIDGE_ACTIONS_FAILED = Metric(
    "bailiff_bridge_actions_failed", "counter", ("pool", "action"), "changes of the Kubernetes bridge that the API server refused"
)
BRIDGE_ACTIONS_DUE = Metric(
    "bailiff_bridge_actions_due",
    "gauge",
    ("pool",),
    "what the Kubernetes bridge found to do, requests on their way included",
)
BRIDGE_ROUND_SECONDS = Metric(
    "bailiff_bridge_round_seconds", "histogram", ("pool",), "time in which the Kubernetes bridge computes what is to be done"
)
BRIDGE_METRICS = (BRIDGE_LEADER, BRIDGE_ACTIONS, BRIDGE_ACTIONS_FAILED, BRIDGE_ACTIONS_DUE, BRIDGE_ROUND_SECONDS)
POOL_METRICS = (
    OPEN_EVICTIONS,
    QUEUE_LENGTH,
    PAUSED_JOBS,
    NODES,
    DEVICES,
    MIG_DEVICES,
    LATE_STARTS,
    LATE_STARTS_ALLOWED,
)  # see pool_metrics
ROLLUP_METRICS = (  # services/rollup: aggregated from the whole log
    EVICTIONS, REPEAT_EVICTIONS, EVICTIONS_CANCELLED, GPU_SECONDS_LOST, GPU_SECONDS_SAVED, GPU_SECONDS_USED, GPU_SECONDS_IDLE,
    GPU_SECONDS_FAIR_SHARE, GPU_SECONDS_AVAILABLE, GPU_SECONDS_MEASURED, GPU_SECONDS_BUSY, GPU_MEMORY_MEASURED, GPU_MEMORY_USED,
    PROJECT_GPUS, JOBS_SUBMITTED, PENDING_SECONDS, START_SECONDS, START_SLO,
    STARTS_LATE, ROLLUP_TIME,
)  # fmt: skip
METRICS = (
    LOG_HEAD, LOG_LAG, RECORDS_FOLDED, ORPHANS, SNAPSHOTS_UNWRITTEN, RECORDS_APPENDED, CYCLE_SECONDS, INPUTS_REJECTED,
    INPUTS_WITHOUT_EFFECT, COMMANDS_SENT, COMMANDS_FENCED, COMMANDS_REFUSED, *POOL_METRICS, ARCHIVED, ARCHIVE_HEAD, ARCHIVE_LAG,
    ARCHIVE_BROKEN, SEALED, PROPOSALS_SEARCHED, REQUESTS_CHECKED, POSTGRES_OUTAGES, API_STREAMS, API_RESPONSES, *ROLLUP_METRICS,
    *BRIDGE_METRICS, ALARMS,
    KAFKA_OUTAGES, READY, ENGINE_INFO,
)  # fmt: skip


Sample = tuple[Metric, tuple[str, ...], int]
"""A gauge, its labels after `pool`, and the value."""


class PoolMetricsCollector(Collector):
    """Gauges computed from the state of pools on each scrape.

    Only the replica that owns a pool exports it, so that no replica exports outdated values.
    """

    def __init__(self) -> None:
        self._exported: dict[str, Callable[[], Iterable[Sample]]] = {}

    @contextmanager
    def export(self, pool: str, samples: Callable[[], Iterable[Sample]]) -> Iterator[None]:
        """Export this pool inside the context."""
        self._exported[pool] = samples
        try:
            yield
        finally:
            if self._exported.get(pool) is samples:  # in a simulation all replicas share one collector
                del self._exported[pool]

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """Called by prometheus_client on each scrape."""
        families = {metric.name: GaugeMetricFamily(metric.name, metric.help, labels=metric.labels) for metric in POOL_METRICS}
        for pool, samples in self._exported.items():
            for metric, labels, value in samples():
                families[metric.name].add_metric([pool, *labels], value)
        return families.values()


class Metrics:
    """All shared metrics on one registry, so that several services in one process (simulation, tests) are separate."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.log_head = self._gauge(LOG_HEAD)
        self.log_lag = self._gauge(LOG_LAG)
        self.records_folded = self._counter(RECORDS_FOLDED)
        self.orphans = self._counter(ORPHANS)
        self._orphans_to: dict[str, int] = {}
        self.snapshots_unwritten = self._counter(SNAPSHOTS_UNWRITTEN)
        self.records_appended = self._counter(RECORDS_APPENDED)
        self.cycle_seconds = Histogram(
            CYCLE_SECONDS.name, CYCLE_SECONDS.help, CYCLE_SECONDS.labels, registry=self.registry, buckets=CYCLE_BUCKETS
        )
        self.inputs_rejected = self._counter(INPUTS_REJECTED)
        self.inputs_without_effect = self._counter(INPUTS_WITHOUT_EFFECT)
        self.commands_sent = self._counter(COMMANDS_SENT)
        self.commands_fenced = self._counter(COMMANDS_FENCED)
        self.commands_refused = self._counter(COMMANDS_REFUSED)
        self.pools = PoolMetricsCollector()
        self.registry.register(self.pools)
        self.archived = self._counter(ARCHIVED)
        self.archive_head = self._gauge(ARCHIVE_HEAD)
        self.archive_lag = self._gauge(ARCHIVE_LAG)
        self.archive_broken = self._gauge(ARCHIVE_BROKEN)
        self.sealed = self._gauge(SEALED)
        self.proposals_searched = self._counter(PROPOSALS_SEARCHED)
        self.requests_checked = self._counter(REQUESTS_CHECKED)
        self.postgres_outages = self._counter(POSTGRES_OUTAGES)
        self.api_streams = self._gauge(API_STREAMS)
        self.api_responses = self._counter(API_RESPONSES)
        self.alarms = self._counter(ALARMS)
        self.kafka_outages = self._counter(KAFKA_OUTAGES)
        self.ready = self._gauge(READY)
        self.engine_info = self._gauge(ENGINE_INFO)

    def forget_log(self, pool: str) -> None:
        """Export no position in this pool's log any more: it is not read here now."""
        for gauge in (self.log_head, self.log_lag):
            gauge.remove(pool)

    def count_folded(self, pool: str, records: int, head_seq: int) -> None:
        """Count folded records; `head_seq` is the newest one."""
        self.records_folded.labels(pool).inc(records)
        self.log_head.labels(pool).set(head_seq)
        self.snapshots_unwritten.labels(pool)  # 0, so that the first one is an increase

    def count_orphan(self, pool: str, offset: int) -> bool:
        """Count the orphan at this offset once per process, since a log may be folded repeatedly."""
        if offset <= self._orphans_to.get(pool, -1):
            return False
        self._orphans_to[pool] = offset
        self.orphans.labels(pool).inc()
        return True

    def count_unwritten_snapshot(self, pool: str) -> None:
        """Count a snapshot that could not be written."""
        self.snapshots_unwritten.labels(pool).inc()

    def text(self) -> bytes:
        """All metrics in Prometheus text format."""
        return generate_latest(self.registry)

    def _counter(self, metric: Metric) -> Counter:
        return Counter(metric.name, metric.help, metric.labels, registry=self.registry)

    def _gauge(self, metric: Metric) -> Gauge:
        return Gauge(metric.name, metric.help, metric.labels, registry=self.registry)


def metrics_table() -> str:
    """The metrics as a Markdown table."""
    rows = [
        f"| `{metric.name}{'_total' if metric.kind == 'counter' else ''}` | {metric.kind} "
        f"| {', '.join(f'`{label}`' for label in metric.labels) or '-'} | {metric.help} |"
        for metric in METRICS
    ]
    return "\n".join(["| metric | kind | labels | meaning |", "|---|---|---|---|", *rows]) + "\n"

"""Prometheus metrics of the services. `METRICS` lists all of them; the table in the docs is generated from it."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

# no `_created` series for each counter
disable_created_metrics()  # type: ignore[no-untyped-call]

Family = TypeVar("Family", CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily)
CYCLE_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True, slots=True)
class Metric:
    """Declaration of a metric. prometheus_client appends `_total` to a counter's name.

    of: who exports it: every service, the owner of a pool from its state (`pool_metrics`), the roll-up or the Kubernetes bridge.
    """

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    labels: tuple[str, ...]
    help: str
    of: Literal["services", "pools", "rollup", "bridge"] = "services"

    def counter(self, registry: CollectorRegistry | None) -> Counter:
        return Counter(self.name, self.help, self.labels, registry=registry)

    def gauge(self, registry: CollectorRegistry | None) -> Gauge:
        return Gauge(self.name, self.help, self.labels, registry=registry)

    def histogram(self, registry: CollectorRegistry | None, buckets: Sequence[float] = Histogram.DEFAULT_BUCKETS) -> Histogram:
        return Histogram(self.name, self.help, self.labels, registry=registry, buckets=buckets)

    def family(self, kind: type[Family]) -> Family:
        """The metric without samples, for a collector."""
        return kind(self.name, self.help, labels=self.labels)


_pools, _rollup, _bridge = (partial(Metric, of=of) for of in ("pools", "rollup", "bridge"))

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
LEFT_FOLDERS = Metric("bailiff_left_folders", "gauge", ("pool", "node"), "folders of ended tasks that the agent cannot remove")
ENDED_LOG_BYTES = Metric("bailiff_ended_log_bytes", "gauge", ("pool", "node"), "disk space of the logs of ended tasks, bytes")
OPEN_EVICTIONS = _pools("bailiff_open_evictions", "gauge", ("pool", "stage"), "evictions decided and not finished, by stage")
QUEUE_LENGTH = _pools("bailiff_queue_length", "gauge", ("pool", "priority_class"), "pending jobs")
JOBS_BELIEVED_LESS = _pools(
    "bailiff_jobs_believed_less", "gauge", ("pool",), "jobs that ignored a grace, or left unreadable checkpoints"
)
BUDGET_LEVEL = _pools("bailiff_budget_level", "gauge", ("pool", "budget"), "0: within, 1: at its warning, 2: exhausted")
BUDGET_HOURS = _pools(
    "bailiff_budget_gpu_hours",
    "gauge",
    ("pool", "budget", "kind"),
    "GPU-hours of this month, by kind: used until the newest record, hours with top-ups and transfers",
)
PAUSED_JOBS = _pools("bailiff_paused_jobs", "gauge", ("pool",), "paused jobs")
NODES = _pools("bailiff_nodes", "gauge", ("pool", "state"), "nodes, by state")
NODE_SILENCE = _pools(
    "bailiff_node_silence_seconds",
    "gauge",
    ("pool", "node"),
    "time since the last report of a node that has been silent for a minute",
)
REQUEST_RATE = _pools(
    "bailiff_request_rate_percent",
    "gauge",
    ("pool", "of"),
    "how much of their rates the pool, and the nearest user, unverified source and project use; at 100 more waits or is rejected",
)
DEVICES = _pools("bailiff_devices", "gauge", ("pool", "state"), "GPUs of nodes that are not lost, by state")
MIG_DEVICES = _pools(
    "bailiff_mig_devices", "gauge", ("pool", "profile", "state"), "MIG devices of nodes that are not lost, by profile and state"
)
SNAPSHOT_DRIVERS = _pools(
    "bailiff_snapshot_drivers",
    "gauge",
    ("pool", "driver", "state"),
    "nodes that are not lost, by driver of snapshots and whether it works there",
)
PARKED_JOBS = _pools("bailiff_parked_jobs", "gauge", ("pool",), "jobs that are parked in the memory of their nodes")
PARKING_MEMORY = _pools(
    "bailiff_parking_memory_bytes",
    "gauge",
    ("pool", "state"),
    "memory that nodes that are not lost keep for parked jobs, by whether it is in use",
)
LATE_STARTS = _pools(
    "bailiff_late_starts", "gauge", ("pool", "priority_class", "percent"), "jobs that started later than the start SLO"
)
LATE_STARTS_ALLOWED = _pools(
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
API_STREAMS = Metric("bailiff_api_streams", "gauge", (), "open streams of the HTTP API")
API_RESPONSES = Metric("bailiff_api_responses", "counter", ("status",), "responses of the HTTP API, by status")
EVICTIONS = _rollup(
    "bailiff_evictions", "counter", ("pool", "action", "rule"), "evictions decided, by action and by rule or cause"
)
PREEMPTIONS = _rollup(
    "bailiff_preemptions", "counter", ("pool", "action", "rule"), "preemptions decided, each of one or more victims"
)
EVICTION_STAGE_SECONDS = _rollup(
    "bailiff_eviction_stage_seconds",
    "histogram",
    ("pool", "stage", "priority_class"),
    "stages of evictions, each from the end of the one before: notice, acknowledge, save, exit, release of each task; start of "
    "the preemptor, total from decision to its start; return of the evicted job",
)
NODE_EVICTION_STAGE_SECONDS = _rollup(
    "bailiff_node_eviction_stage_seconds",
    "histogram",
    ("pool", "stage", "node"),
    "stages of evicted tasks, by node; '': nodes beyond the first thousand",
)
REPEAT_EVICTIONS = _rollup(
    "bailiff_repeat_evictions", "counter", ("pool", "window"), "preempted jobs that were evicted before within the window"
)
EVICTIONS_CANCELLED = _rollup("bailiff_evictions_cancelled", "counter", ("pool",), "evictions cancelled")
GPU_SECONDS_LOST = _rollup(
    "bailiff_gpu_seconds_lost", "counter", ("pool", "cause"), "GPU-seconds of work lost, by cause of the attempt's end"
)
GPU_SECONDS_RESTART = _rollup(
    "bailiff_gpu_seconds_restart", "counter", ("pool", "cause"), "GPU-seconds that restarts are assumed to cost"
)
GPU_SECONDS_SAVED = _rollup("bailiff_gpu_seconds_saved", "counter", ("pool",), "GPU-seconds of evicted jobs saved by checkpoints")
GPU_SECONDS_USED = _rollup(
    "bailiff_gpu_seconds_used", "counter", ("pool", "project"), "GPU-seconds allocated, including subprojects; '': the pool"
)
GPU_SECONDS_IDLE = _rollup(
    "bailiff_gpu_seconds_idle", "counter", ("pool", "project"), "GPU-seconds allocated while the GPUs were idle"
)
GPU_SECONDS_FAIR_SHARE = _rollup(
    "bailiff_gpu_seconds_fair_share", "counter", ("pool", "project"), "GPU-seconds of the project's fair share"
)
GPU_SECONDS_AVAILABLE = _rollup("bailiff_gpu_seconds_available", "counter", ("pool",), "GPU-seconds of usable GPUs")
GPU_SECONDS_MEASURED = _rollup(
    "bailiff_gpu_seconds_measured", "counter", ("pool", "project"), "GPU-seconds allocated for which utilization was measured"
)
GPU_SECONDS_BUSY = _rollup(
    "bailiff_gpu_seconds_busy", "counter", ("pool", "project"), "GPU-seconds measured, weighted by utilization"
)
GPU_MEMORY_MEASURED = _rollup(
    "bailiff_gpu_memory_measured_byte_seconds", "counter", ("pool", "project"), "memory of allocated GPUs, byte-seconds"
)
GPU_MEMORY_USED = _rollup(
    "bailiff_gpu_memory_used_byte_seconds", "counter", ("pool", "project"), "used memory of allocated GPUs, byte-seconds"
)
PROJECT_GPUS = _rollup(
    "bailiff_project_gpus",
    "gauge",
    ("pool", "project", "kind"),
    "GPUs of a project ('': the pool), by kind: used, idle, requested, quota, limit, fair_share, available (pool only)",
)
JOBS_SUBMITTED = _rollup("bailiff_jobs_submitted", "counter", ("pool", "priority_class"), "jobs submitted")
PENDING_SECONDS = _rollup(
    "bailiff_pending_job_seconds", "counter", ("pool", "priority_class"), "seconds that jobs were pending, summed"
)
START_SECONDS = _rollup("bailiff_start_seconds", "histogram", ("pool", "priority_class"), "time from submission to first start")
START_SLO = _rollup(
    "bailiff_start_slo_seconds",
    "gauge",
    ("pool", "priority_class", "percent"),
    "start SLO: time within which this percentage of the class's jobs must start",
)
STARTS_LATE = _rollup(
    "bailiff_starts_late", "counter", ("pool", "priority_class", "percent"), "first starts later than the start SLO"
)
ROLLUP_TIME = _rollup("bailiff_rollup_time_seconds", "gauge", ("pool",), "log time of the newest record aggregated, Unix seconds")
ALARMS = Metric("bailiff_alarms", "counter", ("pool", "code"), "alarms raised")
KAFKA_OUTAGES = Metric("bailiff_kafka_outages", "counter", (), "number of times Kafka became unreachable")
READY = Metric("bailiff_ready", "gauge", (), "1 while /readyz answers 200, else 0")
ENGINE_INFO = Metric("bailiff_engine_info", "gauge", ("service", "engine"), "1, labelled with the engine in force")

BRIDGE_LEADER = _bridge("bailiff_bridge_leader", "gauge", (), "1 while this replica of the Kubernetes bridge acts")
BRIDGE_ACTIONS = _bridge(
    "bailiff_bridge_actions", "counter", ("pool", "action"), "requests sent and objects changed by the Kubernetes bridge"
)
BRIDGE_ACTIONS_FAILED = _bridge(
    "bailiff_bridge_actions_failed", "counter", ("pool", "action"), "changes of the Kubernetes bridge that the API server refused"
)
BRIDGE_ACTIONS_DUE = _bridge(
    "bailiff_bridge_actions_due", "gauge", ("pool",), "what the Kubernetes bridge found to do, requests on their way included"
)
BRIDGE_ROUND_SECONDS = _bridge(
    "bailiff_bridge_round_seconds", "histogram", ("pool",), "time in which the Kubernetes bridge computes what is to be done"
)
METRICS = tuple(value for value in list(globals().values()) if isinstance(value, Metric))
"""Everything declared above, in this order."""
POOL_METRICS, ROLLUP_METRICS, BRIDGE_METRICS = (
    tuple(metric for metric in METRICS if metric.of == of) for of in ("pools", "rollup", "bridge")
)

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
        families = {metric.name: metric.family(GaugeMetricFamily) for metric in POOL_METRICS}
        for pool, samples in self._exported.items():
            for metric, labels, value in samples():
                families[metric.name].add_metric([pool, *labels], value)
        return families.values()


class Metrics:
    """All shared metrics on one registry, so that several services in one process (simulation, tests) are separate."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.log_head = LOG_HEAD.gauge(registry)
        self.log_lag = LOG_LAG.gauge(registry)
        self.records_folded = RECORDS_FOLDED.counter(registry)
        self.orphans = ORPHANS.counter(registry)
        self._orphans_to: dict[str, int] = {}
        self.snapshots_unwritten = SNAPSHOTS_UNWRITTEN.counter(registry)
        self.records_appended = RECORDS_APPENDED.counter(registry)
        self.cycle_seconds = CYCLE_SECONDS.histogram(registry, CYCLE_BUCKETS)
        self.inputs_rejected = INPUTS_REJECTED.counter(registry)
        self.inputs_without_effect = INPUTS_WITHOUT_EFFECT.counter(registry)
        self.commands_sent = COMMANDS_SENT.counter(registry)
        self.commands_fenced = COMMANDS_FENCED.counter(registry)
        self.commands_refused = COMMANDS_REFUSED.counter(registry)
        self.left_folders = LEFT_FOLDERS.gauge(registry)
        self.ended_log_bytes = ENDED_LOG_BYTES.gauge(registry)
        self.pools = PoolMetricsCollector()
        self.registry.register(self.pools)
        self.archived = ARCHIVED.counter(registry)
        self.archive_head = ARCHIVE_HEAD.gauge(registry)
        self.archive_lag = ARCHIVE_LAG.gauge(registry)
        self.archive_broken = ARCHIVE_BROKEN.gauge(registry)
        self.sealed = SEALED.gauge(registry)
        self.proposals_searched = PROPOSALS_SEARCHED.counter(registry)
        self.requests_checked = REQUESTS_CHECKED.counter(registry)
        self.postgres_outages = POSTGRES_OUTAGES.counter(registry)
        self.api_streams = API_STREAMS.gauge(registry)
        self.api_responses = API_RESPONSES.counter(registry)
        self.alarms = ALARMS.counter(registry)
        self.kafka_outages = KAFKA_OUTAGES.counter(registry)
        self.ready = READY.gauge(registry)
        self.engine_info = ENGINE_INFO.gauge(registry)

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


def metrics_table() -> str:
    """The metrics as a Markdown table."""
    rows = [
        f"| `{metric.name}{'_total' if metric.kind == 'counter' else ''}` | {metric.kind} "
        f"| {', '.join(f'`{label}`' for label in metric.labels) or '-'} | {metric.help} |"
        for metric in METRICS
    ]
    return "\n".join(["| metric | kind | labels | meaning |", "|---|---|---|---|", *rows]) + "\n"

"""The Prometheus metrics that the services share. `METRICS` is the one list of them; the docs' table comes from it."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

# When a counter was made would be a second series for each of them, which nobody asks for.
disable_created_metrics()  # type: ignore[no-untyped-call]

TURN_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric as declared. A counter's name gets `_total`."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    labels: tuple[str, ...]
    help: str


LOG_HEAD = Metric("bailiff_log_head_seq", "gauge", ("domain",), "seq of the newest valid record that was read")
LOG_LAG = Metric("bailiff_log_lag", "gauge", ("domain",), "messages of the log that this service has yet to read")
RECORDS_FOLDED = Metric("bailiff_records_folded", "counter", ("domain",), "records folded into the state")
ORPHANS = Metric("bailiff_orphans", "counter", ("domain",), "records that did not continue the chain and were skipped")
RECORDS_APPENDED = Metric(
    "bailiff_records_appended", "counter", ("domain", "type"), "records appended and known as committed, by what they say"
)
TURN_SECONDS = Metric("bailiff_turn_seconds", "histogram", ("domain",), "time from a turn's first fact to its commit")
INPUTS_REJECTED = Metric(
    "bailiff_inputs_rejected", "counter", ("domain", "topic", "code"), "inputs without effect, by what was wrong"
)
COMMANDS_SENT = Metric("bailiff_commands_sent", "counter", ("domain", "type"), "commands sent to node agents")
FENCES_REFUSED = Metric("bailiff_fences_refused", "counter", ("domain", "type"), "commands of the past that were refused")
OPEN_EVICTIONS = Metric(
    "bailiff_open_evictions", "gauge", ("domain", "stage"), "evictions decided and not ended, by how far they have come"
)
QUEUE_LENGTH = Metric("bailiff_queue_length", "gauge", ("domain", "priority_class"), "jobs that wait")
PAUSED_JOBS = Metric("bailiff_paused_jobs", "gauge", ("domain",), "jobs that somebody set aside")
NODES = Metric("bailiff_nodes", "gauge", ("domain", "state"), "nodes that have joined, by state")
DEVICES = Metric("bailiff_devices", "gauge", ("domain", "state"), "GPUs of nodes that are not lost")
LATE_STARTS = Metric(
    "bailiff_late_starts", "gauge", ("domain", "priority_class", "percent"), "jobs that started later than their class says"
)
LATE_STARTS_ALLOWED = Metric(
    "bailiff_late_starts_allowed", "gauge", ("domain", "priority_class", "percent"), "how many of them may be late"
)
ARCHIVED = Metric("bailiff_archived_records", "counter", ("domain",), "records written to the archive")
ARCHIVE_HEAD = Metric("bailiff_archive_head_seq", "gauge", ("domain",), "seq of the newest archived record")
ARCHIVE_LAG = Metric("bailiff_archive_lag", "gauge", ("domain",), "messages of the log that are not archived yet")
ARCHIVE_BROKEN = Metric(
    "bailiff_archive_broken", "gauge", ("domain",), "1 while the log does not go on from what is archived, else 0"
)
SEALED = Metric("bailiff_sealed_records", "gauge", ("domain",), "records under the newest seal")
POSTGRES_OUTAGES = Metric("bailiff_postgres_outages", "counter", (), "times that the auditor found PostgreSQL unreachable")
API_STREAMS = Metric("bailiff_api_streams", "gauge", (), "live streams that the query interface keeps open")
API_ANSWERS = Metric("bailiff_api_answers", "counter", ("status",), "answers of the query interface, by status")
EVICTIONS = Metric(
    "bailiff_evictions", "counter", ("domain", "verb", "rule"), "evictions decided, by verb and by what right or for what cause"
)
EVICTIONS_AGAIN = Metric(
    "bailiff_evictions_again",
    "counter",
    ("domain", "window"),
    "victims of others' need that had come back from an eviction less than so long before",
)
EVICTIONS_WITHDRAWN = Metric("bailiff_evictions_withdrawn", "counter", ("domain",), "evictions taken back")
GPU_SECONDS_LOST = Metric(
    "bailiff_gpu_seconds_lost", "counter", ("domain", "cause"), "GPU-seconds of work lost, by what ended the attempt"
)
GPU_SECONDS_SAVED = Metric(
    "bailiff_gpu_seconds_saved", "counter", ("domain",), "GPU-seconds that evicted jobs would have lost without checkpoints"
)
GPU_SECONDS_USED = Metric(
    "bailiff_gpu_seconds_used", "counter", ("domain", "project"), "GPU-seconds held, by project with all below it; '': the pool"
)
GPU_SECONDS_IDLE = Metric(
    "bailiff_gpu_seconds_idle",
    "counter",
    ("domain", "project"),
    "GPU-seconds held while agents saw the GPUs do nothing",
)
GPU_SECONDS_ENTITLED = Metric(
    "bailiff_gpu_seconds_entitled", "counter", ("domain", "project"), "GPU-seconds that were the project's fair share"
)
GPU_SECONDS_AVAILABLE = Metric("bailiff_gpu_seconds_available", "counter", ("domain",), "GPU-seconds of GPUs that could be used")
GPU_SECONDS_MEASURED = Metric(
    "bailiff_gpu_seconds_measured", "counter", ("domain", "project"), "GPU-seconds held by tasks of which agents know how busy"
)
GPU_SECONDS_BUSY = Metric(
    "bailiff_gpu_seconds_busy", "counter", ("domain", "project"), "of the GPU-seconds measured, those in which the GPU worked"
)
GPU_MEMORY_MEASURED = Metric(
    "bailiff_gpu_memory_measured_byte_seconds", "counter", ("domain", "project"), "memory of GPUs held by tasks, times seconds"
)
GPU_MEMORY_USED = Metric(
    "bailiff_gpu_memory_used_byte_seconds", "counter", ("domain", "project"), "of that memory, what was in use, times seconds"
)
PROJECT_GPUS = Metric(
    "bailiff_project_gpus",
    "gauge",
    ("domain", "project", "kind"),
    "GPUs of a project, '' the pool: used, of those idle, wanted, quota, limit, fair_share; available in the pool",
)
JOBS_SUBMITTED = Metric("bailiff_jobs_submitted", "counter", ("domain", "priority_class"), "jobs submitted")
WAITING_SECONDS = Metric(
    "bailiff_waiting_job_seconds", "counter", ("domain", "priority_class"), "seconds that jobs waited, all added up"
)
START_SECONDS = Metric(
    "bailiff_start_seconds", "histogram", ("domain", "priority_class"), "time from a job's request to its first start"
)
START_WITHIN = Metric(
    "bailiff_start_within_seconds",
    "gauge",
    ("domain", "priority_class", "percent"),
    "how soon after its request so many percent of the class's jobs are to start",
)
STARTS_LATE = Metric(
    "bailiff_starts_late", "counter", ("domain", "priority_class", "percent"), "first starts later than the class promises"
)
ROLLUP_TIME = Metric(
    "bailiff_rollup_time_seconds", "gauge", ("domain",), "log time of the newest record that was counted, Unix seconds"
)
ALARMS = Metric("bailiff_alarms", "counter", ("domain", "code"), "alarms raised")
KAFKA_OUTAGES = Metric("bailiff_kafka_outages", "counter", (), "times that the service found Kafka unreachable")
READY = Metric("bailiff_ready", "gauge", (), "1 while /readyz answers 200, else 0")
ENGINE_INFO = Metric("bailiff_engine_info", "gauge", ("service", "engine"), "1, labelled with the engine in force")

POOL_METRICS = (OPEN_EVICTIONS, QUEUE_LENGTH, PAUSED_JOBS, NODES, DEVICES, LATE_STARTS, LATE_STARTS_ALLOWED)  # gauges.py
ROLLUP_METRICS = (  # services/rollup: of a whole log, whichever replica counts it
    EVICTIONS, EVICTIONS_AGAIN, EVICTIONS_WITHDRAWN, GPU_SECONDS_LOST, GPU_SECONDS_SAVED, GPU_SECONDS_USED, GPU_SECONDS_IDLE,
    GPU_SECONDS_ENTITLED, GPU_SECONDS_AVAILABLE, GPU_SECONDS_MEASURED, GPU_SECONDS_BUSY, GPU_MEMORY_MEASURED, GPU_MEMORY_USED,
    PROJECT_GPUS, JOBS_SUBMITTED, WAITING_SECONDS, START_SECONDS, START_WITHIN,
    STARTS_LATE, ROLLUP_TIME,
)  # fmt: skip
METRICS = (
    LOG_HEAD, LOG_LAG, RECORDS_FOLDED, ORPHANS, RECORDS_APPENDED, TURN_SECONDS, INPUTS_REJECTED, COMMANDS_SENT,
    FENCES_REFUSED, *POOL_METRICS, ARCHIVED, ARCHIVE_HEAD, ARCHIVE_LAG, ARCHIVE_BROKEN, SEALED,
    POSTGRES_OUTAGES, API_STREAMS, API_ANSWERS, *ROLLUP_METRICS, ALARMS, KAFKA_OUTAGES, READY, ENGINE_INFO,
)  # fmt: skip


Sample = tuple[Metric, tuple[str, ...], int]
"""A gauge of a pool, its labels after `domain`, and the value."""


class PoolGauges(Collector):
    """Gauges that are read from the state of a pool when somebody asks.

    Only the replica that works on a domain shows it, so that none goes on telling what it once knew.
    """

    def __init__(self) -> None:
        self._shown: dict[str, Callable[[], Iterable[Sample]]] = {}

    @contextmanager
    def showing(self, domain: str, samples: Callable[[], Iterable[Sample]]) -> Iterator[None]:
        """While this lasts, the domain is shown."""
        self._shown[domain] = samples
        try:
            yield
        finally:
            if self._shown.get(domain) is samples:  # in a simulation all replicas share these
                del self._shown[domain]

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """What Prometheus is told."""
        families = {metric.name: GaugeMetricFamily(metric.name, metric.help, labels=metric.labels) for metric in POOL_METRICS}
        for domain, samples in self._shown.items():
            for metric, labels, value in samples():
                families[metric.name].add_metric([domain, *labels], value)
        return families.values()


class Metrics:
    """All shared metrics on one registry, so that two services in one process (simulation, tests) stay apart."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.log_head = self._gauge(LOG_HEAD)
        self.log_lag = self._gauge(LOG_LAG)
        self.records_folded = self._counter(RECORDS_FOLDED)
        self.orphans = self._counter(ORPHANS)
        self._orphans_to: dict[str, int] = {}
        self.records_appended = self._counter(RECORDS_APPENDED)
        self.turn_seconds = Histogram(
            TURN_SECONDS.name, TURN_SECONDS.help, TURN_SECONDS.labels, registry=self.registry, buckets=TURN_BUCKETS
        )
        self.inputs_rejected = self._counter(INPUTS_REJECTED)
        self.commands_sent = self._counter(COMMANDS_SENT)
        self.fences_refused = self._counter(FENCES_REFUSED)
        self.pools = PoolGauges()
        self.registry.register(self.pools)
        self.archived = self._counter(ARCHIVED)
        self.archive_head = self._gauge(ARCHIVE_HEAD)
        self.archive_lag = self._gauge(ARCHIVE_LAG)
        self.archive_broken = self._gauge(ARCHIVE_BROKEN)
        self.sealed = self._gauge(SEALED)
        self.postgres_outages = self._counter(POSTGRES_OUTAGES)
        self.api_streams = self._gauge(API_STREAMS)
        self.api_answers = self._counter(API_ANSWERS)
        self.alarms = self._counter(ALARMS)
        self.kafka_outages = self._counter(KAFKA_OUTAGES)
        self.ready = self._gauge(READY)
        self.engine_info = self._gauge(ENGINE_INFO)

    def count_orphan(self, domain: str, offset: int) -> bool:
        """Count the orphan at this offset, once in the life of the process: a log may be folded again and again."""
        if offset <= self._orphans_to.get(domain, -1):
            return False
        self._orphans_to[domain] = offset
        self.orphans.labels(domain).inc()
        return True

    def text(self) -> bytes:
        """All of them in Prometheus' text form."""
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
    return "\n".join(["| metric | kind | labels | what it says |", "|---|---|---|---|", *rows]) + "\n"

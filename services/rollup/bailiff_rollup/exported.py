"""The figures of the domains that this replica counts, as Prometheus reads them.

Counters go on where they were after a crash, and where another replica takes over: they are those of the whole log. What can
come is told as 0 before it does: of a series that begins with its first event, `increase()` does not see that event.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import get_args

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from bailiff_bus import metrics
from bailiff_core.model.pool import EvictionCause, Pool
from bailiff_core.protections import start_within
from bailiff_core.records import decisions
from bailiff_core.records.payload import Decision

from .counting import RIGHTS, START_LIMITS, entitlements
from .figures import Entitled, Figures
from .sums import LENGTHS, Key, Sums, of

MICROSECONDS = 1_000_000
GPU_MICROSECONDS = 1_000 * MICROSECONDS  # sums of GPUs are in thousandths of them
UNITS: tuple[tuple[metrics.Metric, str, int], ...] = (
    (metrics.EVICTIONS, "evictions", 1),
    (metrics.EVICTIONS_AGAIN, "again", 1),
    (metrics.EVICTIONS_WITHDRAWN, "withdrawn", 1),
    (metrics.GPU_SECONDS_LOST, "lost", 1_000),
    (metrics.GPU_SECONDS_SAVED, "saved", 1_000),
    (metrics.GPU_SECONDS_USED, "used", GPU_MICROSECONDS),
    (metrics.GPU_SECONDS_IDLE, "idle", GPU_MICROSECONDS),
    (metrics.GPU_SECONDS_ENTITLED, "entitled", GPU_MICROSECONDS),
    (metrics.GPU_SECONDS_AVAILABLE, "available", GPU_MICROSECONDS),
    (metrics.JOBS_SUBMITTED, "submitted", 1),
    (metrics.WAITING_SECONDS, "waiting", MICROSECONDS),
    (metrics.STARTS_LATE, "late", 1),
)
MEASURED: tuple[tuple[metrics.Metric, str, int], ...] = (
    (metrics.GPU_SECONDS_MEASURED, "gpu", 100 * MICROSECONDS),
    (metrics.GPU_SECONDS_BUSY, "busy", 100 * MICROSECONDS),
    (metrics.GPU_MEMORY_MEASURED, "memory", MICROSECONDS),
    (metrics.GPU_MEMORY_USED, "memory-used", MICROSECONDS),
)


Found = Mapping[str, tuple[Figures, Pool]]


class Exported(Collector):
    """Reads them when somebody asks. found: figures of each domain that is counted here, and the pool as of their last record."""

    def __init__(self, found: Callable[[], Found]) -> None:
        self._found = found
        self._entitled: dict[str, tuple[int, dict[str, Entitled]]] = {}

    def collect(self) -> Iterable[Metric]:
        """What Prometheus is told."""
        found = self._found()
        sums = {domain: {**_before_the_first(pool), **figures.totals} for domain, (figures, pool) in found.items()}
        yield from self._counters(UNITS, sums)
        yield from self._counters(MEASURED, {domain: figures.measured.totals for domain, (figures, _) in found.items()})
        yield self._starts(sums)
        yield self._promises(found)
        yield from self._gauges(found)

    def _counters(self, units: Sequence[tuple[metrics.Metric, str, int]], found: Mapping[str, Sums]) -> Iterator[Metric]:
        for metric, name, unit in units:
            family = CounterMetricFamily(metric.name, metric.help, labels=metric.labels)
            for domain, sums in found.items():
                for labels, value in of(sums, name).items():
                    family.add_metric([domain, *labels], value / unit)
            yield family

    def _starts(self, found: Mapping[str, Sums]) -> Metric:
        metric = metrics.START_SECONDS
        family = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
        for domain, sums in found.items():
            within = of(sums, "started-within")
            for name in sorted({labels[0] for labels in within}):
                so_far, buckets = 0, []
                for limit in (*map(str, START_LIMITS), "+Inf"):
                    so_far += within.get((name, limit), 0)
                    buckets.append((limit, so_far))
                waited = sums.get(("start-ms", name), 0) / 1_000
                family.add_metric([domain, name], buckets=buckets, sum_value=waited)
        return family

    def _promises(self, found: Found) -> Metric:
        metric = metrics.START_WITHIN
        family = GaugeMetricFamily(metric.name, metric.help, labels=metric.labels)
        for domain, (_, pool) in found.items():
            for entry in pool.rules.priority_classes if pool.policy is not None else ():
                for percent, time in start_within.promises(entry):
                    family.add_metric([domain, entry.name, str(percent)], time / MICROSECONDS)
        return family

    def _gauges(self, found: Found) -> Iterator[Metric]:
        gpus = GaugeMetricFamily(metrics.PROJECT_GPUS.name, metrics.PROJECT_GPUS.help, labels=metrics.PROJECT_GPUS.labels)
        time = GaugeMetricFamily(metrics.ROLLUP_TIME.name, metrics.ROLLUP_TIME.help, labels=metrics.ROLLUP_TIME.labels)
        for domain, (figures, pool) in found.items():
            time.add_metric([domain], figures.since / MICROSECONDS)
            levels = figures.levels
            gpus.add_metric([domain, "", "available"], levels.get(("available",), 0) / 1_000)
            for project, entitled in self._entitlements(domain, figures, pool).items():
                kinds = {
                    "used": levels.get(("used", project), 0), "idle": levels.get(("idle", project), 0),
                    "wanted": entitled.wanted, "quota": entitled.quota, "limit": entitled.limit, "fair_share": entitled.share,
                }  # fmt: skip
                for kind, milli in kinds.items():
                    if milli is not None:
                        gpus.add_metric([domain, project, kind], milli / 1_000)
        yield gpus
        yield time

    def _entitlements(self, domain: str, figures: Figures, pool: Pool) -> Mapping[str, Entitled]:
        """As of the last record: the figures' own sample stands for a minute, and where the log is quiet for much longer."""
        seq, entitled = self._entitled.get(domain, (-1, figures.sample))
        if seq != pool.seq and pool.policy is not None and not pool.turn_open:
            seq, entitled = self._entitled[domain] = pool.seq, entitlements(pool)
        return entitled


def _before_the_first(pool: Pool) -> dict[Key, int]:
    """The sums that can come whatever was counted yet, as 0. Those that grow all the time need it not."""
    keys: list[Key] = [("withdrawn",), ("saved",)]
    keys += [("evictions", verb, right) for verb, right in RIGHTS.items()]
    keys += [("evictions", "evict", cause) for cause in _causes_of(decisions.EvictionDecided)]
    keys += [("evictions", "migrate", cause) for cause in _causes_of(decisions.MigrationDecided)]
    keys += [("lost", cause) for cause in (*get_args(EvictionCause), "failed", "lost")]
    keys += [("again", window) for window in LENGTHS]
    for entry in pool.rules.priority_classes if pool.policy is not None else ():
        keys += [("submitted", entry.name), ("waiting", entry.name), ("started-within", entry.name, "+Inf")]
        keys += [("late", entry.name, str(percent)) for percent, _ in start_within.promises(entry)]
    return dict.fromkeys(keys, 0)


def _causes_of(decision: type[Decision]) -> tuple[str, ...]:
    return get_args(decision.model_fields["cause"].annotation)

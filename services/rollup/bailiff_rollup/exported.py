"""The figures of the domains that this replica counts, as Prometheus reads them.

Counters go on where they were after a crash, and where another replica takes over: they are those of the whole log.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from bailiff_bus import metrics

from .counting import START_LIMITS
from .figures import Figures
from .sums import Sums, of

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


class Exported(Collector):
    """Reads them when somebody asks. figures: by domain, of those counted here."""

    def __init__(self, figures: Callable[[], Mapping[str, Figures]]) -> None:
        self._figures = figures

    def collect(self) -> Iterable[Metric]:
        """What Prometheus is told."""
        found = self._figures()
        yield from self._counters(UNITS, {domain: figures.totals for domain, figures in found.items()})
        yield from self._counters(MEASURED, {domain: figures.measured.totals for domain, figures in found.items()})
        yield self._starts(found)
        yield from self._gauges(found)

    def _counters(self, units: Sequence[tuple[metrics.Metric, str, int]], found: Mapping[str, Sums]) -> Iterator[Metric]:
        for metric, name, unit in units:
            family = CounterMetricFamily(metric.name, metric.help, labels=metric.labels)
            for domain, sums in found.items():
                for labels, value in of(sums, name).items():
                    family.add_metric([domain, *labels], value / unit)
            yield family

    def _starts(self, found: Mapping[str, Figures]) -> Metric:
        metric = metrics.START_SECONDS
        family = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
        for domain, figures in found.items():
            within = of(figures.totals, "started-within")
            for name in sorted({labels[0] for labels in within}):
                so_far, buckets = 0, []
                for limit in (*map(str, START_LIMITS), "+Inf"):
                    so_far += within.get((name, limit), 0)
                    buckets.append((limit, so_far))
                waited = figures.totals.get(("start-ms", name), 0) / 1_000
                family.add_metric([domain, name], buckets=buckets, sum_value=waited)
        return family

    def _gauges(self, found: Mapping[str, Figures]) -> Iterator[Metric]:
        gpus = GaugeMetricFamily(metrics.PROJECT_GPUS.name, metrics.PROJECT_GPUS.help, labels=metrics.PROJECT_GPUS.labels)
        time = GaugeMetricFamily(metrics.ROLLUP_TIME.name, metrics.ROLLUP_TIME.help, labels=metrics.ROLLUP_TIME.labels)
        for domain, figures in found.items():
            time.add_metric([domain], figures.since / MICROSECONDS)
            for project, entitled in figures.sample.items():
                kinds = {
                    "used": figures.levels.get(("used", project), 0), "wanted": entitled.wanted, "quota": entitled.quota,
                    "limit": entitled.limit, "fair_share": entitled.share,
                }  # fmt: skip
                for kind, milli in kinds.items():
                    if milli is not None:
                        gpus.add_metric([domain, project, kind], milli / 1_000)
        yield gpus
        yield time

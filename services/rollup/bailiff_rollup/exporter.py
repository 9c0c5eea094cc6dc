"""Prometheus collector for the aggregates of this replica's pools.

Counters cover the whole log, so they continue after a crash or a failover. Possible series are exported as 0 before their
first event: `increase()` would miss the first event of a new series.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import get_args

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from bailiff_core.model.state import EvictionCause, PoolState
from bailiff_core.queue import start_slo
from bailiff_core.records import decisions
from bailiff_core.records.payload import Decision
from bailiff_service import metrics

from .aggregates import Aggregates, Entitlement
from .aggregators import EVICTION_RULES, NODE_LIMITS, STAGE_LIMITS, START_LIMITS, entitlements
from .eviction_times import JobStage, TaskStage
from .windowed_counters import LENGTHS, Counters, Key, of

MICROSECONDS = 1_000_000
GPU_MICROSECONDS = 1_000 * MICROSECONDS  # counters of GPUs are in thousandths
UNITS: tuple[tuple[metrics.Metric, str, int], ...] = (
    (metrics.EVICTIONS, "evictions", 1),
    (metrics.PREEMPTIONS, "preemptions", 1),
    (metrics.REPEAT_EVICTIONS, "repeat-evictions", 1),
    (metrics.EVICTIONS_CANCELLED, "cancelled-evictions", 1),
    (metrics.GPU_SECONDS_LOST, "lost", 1_000),
    (metrics.GPU_SECONDS_RESTART, "restart", 1_000),
    (metrics.GPU_SECONDS_SAVED, "saved", 1_000),
    (metrics.GPU_SECONDS_USED, "used", GPU_MICROSECONDS),
    (metrics.GPU_SECONDS_IDLE, "idle", GPU_MICROSECONDS),
    (metrics.GPU_SECONDS_FAIR_SHARE, "entitled", GPU_MICROSECONDS),
    (metrics.GPU_SECONDS_AVAILABLE, "available", GPU_MICROSECONDS),
    (metrics.JOBS_SUBMITTED, "submitted", 1),
    (metrics.PENDING_SECONDS, "pending", MICROSECONDS),
    (metrics.STARTS_LATE, "late", 1),
)
TELEMETRY_UNITS: tuple[tuple[metrics.Metric, str, int], ...] = (
    (metrics.GPU_SECONDS_MEASURED, "gpu", 100 * MICROSECONDS),
    (metrics.GPU_SECONDS_BUSY, "busy", 100 * MICROSECONDS),
    (metrics.GPU_MEMORY_MEASURED, "memory", MICROSECONDS),
    (metrics.GPU_MEMORY_USED, "memory-used", MICROSECONDS),
)
HISTOGRAMS: tuple[tuple[metrics.Metric, str, Sequence[float]], ...] = (
    (metrics.START_SECONDS, "start", START_LIMITS),
    (metrics.EVICTION_STAGE_SECONDS, "stage", STAGE_LIMITS),
    (metrics.NODE_EVICTION_STAGE_SECONDS, "node-stage", NODE_LIMITS),
)


Rollups = Mapping[str, tuple[Aggregates, PoolState]]


class RollupCollector(Collector):
    """rollups: returns the aggregates and the state of each pool of this replica."""

    def __init__(self, rollups: Callable[[], Rollups]) -> None:
        self._rollups = rollups
        self._entitled: dict[str, tuple[int, dict[str, Entitlement]]] = {}

    def collect(self) -> Iterable[Metric]:
        """All metrics of the roll-up."""
        rollups = self._rollups()
        sums = {pool: {**_zero_counters(state), **aggregates.totals} for pool, (aggregates, state) in rollups.items()}
        yield from self._counters(UNITS, sums)
        yield from self._counters(
            TELEMETRY_UNITS, {pool: aggregates.telemetry.totals for pool, (aggregates, _) in rollups.items()}
        )
        for metric, name, limits in HISTOGRAMS:
            yield self._histogram(metric, name, limits, sums)
        yield self._start_slos(rollups)
        yield from self._gauges(rollups)

    def _counters(self, units: Sequence[tuple[metrics.Metric, str, int]], counters: Mapping[str, Counters]) -> Iterator[Metric]:
        for metric, name, unit in units:
            family = metric.family(CounterMetricFamily)
            for pool, sums in counters.items():
                for labels, value in of(sums, name).items():
                    family.add_metric([pool, *labels], value / unit)
            yield family

    def _histogram(self, metric: metrics.Metric, name: str, limits: Sequence[float], counters: Mapping[str, Counters]) -> Metric:
        family = metric.family(HistogramMetricFamily)
        for pool, sums in counters.items():
            within = of(sums, name)
            for labels in sorted({key[:-1] for key in within}):
                cumulative, buckets = 0, []
                for limit in (*map(str, limits), "+Inf"):
                    cumulative += within.get((*labels, limit), 0)
                    buckets.append((limit, cumulative))
                family.add_metric([pool, *labels], buckets=buckets, sum_value=sums.get((f"{name}-ms", *labels), 0) / 1_000)
        return family

    def _start_slos(self, rollups: Rollups) -> Metric:
        family = metrics.START_SLO.family(GaugeMetricFamily)
        for pool, (_, state) in rollups.items():
            for entry in state.rules.priority_classes if state.policy is not None else ():
                for percent, time in start_slo.slo_targets(entry):
                    family.add_metric([pool, entry.name, str(percent)], time / MICROSECONDS)
        return family

    def _gauges(self, rollups: Rollups) -> Iterator[Metric]:
        gpus = metrics.PROJECT_GPUS.family(GaugeMetricFamily)
        time = metrics.ROLLUP_TIME.family(GaugeMetricFamily)
        for pool, (aggregates, state) in rollups.items():
            time.add_metric([pool], aggregates.integrated_to / MICROSECONDS)
            levels = aggregates.levels
            gpus.add_metric([pool, "", "available"], levels.get(("available",), 0) / 1_000)
            for project, entitlement in self._entitlements(pool, aggregates, state).items():
                kinds = {
                    "used": levels.get(("used", project), 0),
                    "idle": levels.get(("idle", project), 0),
                    "requested": entitlement.requested,
                    "quota": entitlement.quota,
                    "limit": entitlement.limit,
                    "fair_share": entitlement.share,
                }
                for kind, milli in kinds.items():
                    if milli is not None:
                        gpus.add_metric([pool, project, kind], milli / 1_000)
        yield gpus
        yield time

    def _entitlements(self, pool: str, aggregates: Aggregates, state: PoolState) -> Mapping[str, Entitlement]:
        """Entitlements by project after the last record. The stored sample may be older if the log is idle."""
        seq, entitlement = self._entitled.get(pool, (-1, aggregates.sample))
        if seq != state.seq and state.policy is not None and not state.cycle_open:
            seq, entitlement = self._entitled[pool] = state.seq, entitlements(state)
        return entitlement


def _zero_counters(state: PoolState) -> dict[Key, int]:
    """Counters of all possible events, as 0. Integrated levels do not need it."""
    keys: list[Key] = [("cancelled-evictions",), ("saved",)]
    keys += [(name, action, rule) for name in ("evictions", "preemptions") for action, rule in EVICTION_RULES.items()]
    keys += [("evictions", "evict", cause) for cause in _causes_of(decisions.EvictionDecided)]
    keys += [("evictions", "migrate", cause) for cause in _causes_of(decisions.MigrationDecided)]
    causes = (*get_args(EvictionCause), "failed", "lost", "yielded")
    keys += [(name, cause) for name in ("lost", "restart") for cause in causes]
    keys += [("repeat-evictions", window) for window in LENGTHS]
    for entry in state.rules.priority_classes if state.policy is not None else ():
        keys += [("submitted", entry.name), ("pending", entry.name), ("start", entry.name, "+Inf")]
        keys += [("stage", stage, entry.name, "+Inf") for stage in (*get_args(TaskStage), *get_args(JobStage))]
        keys += [("late", entry.name, str(percent)) for percent, _ in start_slo.slo_targets(entry)]
    return dict.fromkeys(keys, 0)


def _causes_of(decision: type[Decision]) -> tuple[str, ...]:
    return get_args(decision.model_fields["cause"].annotation)

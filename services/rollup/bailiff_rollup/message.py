"""Builds the published message of a window."""

from bailiff_bus.messages import ClassWindow, EvictionCount, LateStarts, ProjectWindow, RollupWindow, WorkLost

from .aggregates import WindowSnapshot
from .histogram import percentile
from .windowed_counters import Counters, Key, of

PREEMPTING = ("preempt", "reclaim", "consolidate")
GPU_MS = 1_000_000  # thousandths of a GPU times µs
MS = 1_000


def message(snapshot: WindowSnapshot, next_seq: int) -> RollupWindow:
    """The message of this window. next_seq: of the first record not included."""
    sums = snapshot.window.sums
    evictions = of(sums, "evictions")
    displaced = sum(count for (action, _), count in evictions.items() if action in PREEMPTING)
    repeated = _one(sums, "again")
    used, idle, entitled = of(sums, "used"), of(sums, "idle"), of(sums, "entitled")
    return RollupWindow.model_validate({
        "window": snapshot.name, "begin": snapshot.window.begin, "end": snapshot.end, "complete": snapshot.over,
        "first_seq": snapshot.window.first_seq, "next_seq": next_seq,
        "evictions": tuple(
            EvictionCount.model_validate({"action": action, "rule": rule, "count": count})
            for (action, rule), count in sorted(evictions.items())
        ),
        "repeat_evictions": repeated, "thrash_permille": 1000 * repeated // displaced if displaced else 0,
        "cancelled_evictions": _one(sums, "withdrawn"),
        "work_lost": tuple(WorkLost(cause=cause, gpu_ms=amount) for (cause,), amount in sorted(of(sums, "lost").items())),
        "saved_gpu_ms": _one(sums, "saved"),
        "used_gpu_ms": used.get(("",), 0) // GPU_MS, "available_gpu_ms": _one(sums, "available") // GPU_MS,
        "classes": tuple(_class(sums, name) for name in _classes(sums)),
        "projects": tuple(
            ProjectWindow(
                name=name, used_gpu_ms=used.get((name,), 0) // GPU_MS, idle_gpu_ms=idle.get((name,), 0) // GPU_MS,
                entitled_gpu_ms=entitled.get((name,), 0) // GPU_MS
            )
            for (name,) in sorted({*used, *entitled})
        ),
    })  # fmt: skip


def _classes(sums: Counters) -> list[str]:
    return sorted({key[1] for key in sums if key[0] in ("submitted", "started", "waiting")})


def _class(sums: Counters, name: str) -> ClassWindow:
    waits = [(int(bucket), count) for (held, bucket), count in of(sums, "started").items() if held == name]
    p50, p95, p99 = (percentile(waits, percent) for percent in (50, 95, 99))
    return ClassWindow(
        name=name, submitted=sums.get(("submitted", name), 0), started=sum(count for _, count in waits),
        waited_ms=sums.get(("waiting", name), 0) // MS, p50_ms=p50, p95_ms=p95, p99_ms=p99,
        late_starts=tuple(
            LateStarts(percent=int(percent), jobs=jobs)
            for (held, percent), jobs in sorted(of(sums, "late").items()) if held == name
        ),
    )  # fmt: skip


def _one(sums: Counters, name: str) -> int:
    key: Key = (name,)
    return sums.get(key, 0)

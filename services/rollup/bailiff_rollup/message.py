"""Builds the `RollupWindow` message of one window from its counters."""

from bailiff_bus.messages.rollups import ClassWindow, EvictionCount, LateStarts, ProjectWindow, RollupWindow, WorkLost
from bailiff_core.model.document import MAX_INTEGER

from .aggregates import WindowSnapshot
from .histogram import percentile
from .windowed_counters import Counters, Key, of

PREEMPTING = ("preempt", "reclaim", "consolidate")
GPU_MS = 1_000_000  # thousandths of a GPU times µs
MS = 1_000
UNITS = {"used": GPU_MS, "idle": GPU_MS, "entitled": GPU_MS, "available": GPU_MS, "pending": MS}
"""Of sums that are published in a larger unit."""


def message(snapshot: WindowSnapshot, next_seq: int) -> RollupWindow:
    """The message of this window; no amount is larger than a message can hold. next_seq: of the first record not included."""
    sums = {key: min(amount, MAX_INTEGER * UNITS.get(key[0], 1)) for key, amount in snapshot.window.sums.items()}
    evictions = of(sums, "evictions")
    preempted = sum(count for (action, _), count in evictions.items() if action in PREEMPTING)
    repeated = _unlabelled(sums, "repeat-evictions")
    used, idle, entitled = of(sums, "used"), of(sums, "idle"), of(sums, "entitled")
    lost, restart = of(sums, "lost"), of(sums, "restart")
    return RollupWindow.model_validate(
        {
            "window": snapshot.name,
            "begin": snapshot.window.begin,
            "end": snapshot.end,
            "complete": snapshot.complete,
            "first_seq": snapshot.window.first_seq,
            "next_seq": next_seq,
            "evictions": tuple(
                EvictionCount.model_validate({"action": action, "rule": rule, "count": count})
                for (action, rule), count in sorted(evictions.items())
            ),
            "repeat_evictions": repeated,
            "thrash_permille": 1000 * repeated // preempted if preempted else 0,
            "cancelled_evictions": _unlabelled(sums, "cancelled-evictions"),
            "work_lost": tuple(
                WorkLost(cause=key[0], gpu_ms=lost.get(key, 0), restart_gpu_ms=restart.get(key, 0))
                for key in sorted({**lost, **restart})
            ),
            "saved_gpu_ms": _unlabelled(sums, "saved"),
            "used_gpu_ms": used.get(("",), 0) // GPU_MS,
            "available_gpu_ms": _unlabelled(sums, "available") // GPU_MS,
            "classes": tuple(_class(sums, name) for name in _classes(sums)),
            "projects": tuple(
                ProjectWindow(
                    name=name,
                    used_gpu_ms=used.get((name,), 0) // GPU_MS,
                    idle_gpu_ms=idle.get((name,), 0) // GPU_MS,
                    entitled_gpu_ms=entitled.get((name,), 0) // GPU_MS,
                )
                for (name,) in sorted({*used, *entitled})
            ),
        }
    )


def _classes(sums: Counters) -> list[str]:
    return sorted({key[1] for key in sums if key[0] in ("submitted", "started", "pending")})


def _class(sums: Counters, name: str) -> ClassWindow:
    waits = [(int(bucket), count) for (label, bucket), count in of(sums, "started").items() if label == name]
    p50, p95, p99 = (percentile(waits, percent) for percent in (50, 95, 99))
    return ClassWindow(
        name=name,
        submitted=sums.get(("submitted", name), 0),
        started=sum(count for _, count in waits),
        waited_ms=sums.get(("pending", name), 0) // MS,
        p50_ms=p50,
        p95_ms=p95,
        p99_ms=p99,
        late_starts=tuple(
            LateStarts(percent=int(percent), jobs=jobs)
            for (label, percent), jobs in sorted(of(sums, "late").items())
            if label == name
        ),
    )


def _unlabelled(sums: Counters, name: str) -> int:
    key: Key = (name,)
    return sums.get(key, 0)

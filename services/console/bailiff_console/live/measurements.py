"""`/api/pools/{pool}/…`: GPU measurements over time, and what needs a person."""

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from bailiff.client.rejections import Rejection, pool_alarms
from bailiff.render.plain_text import harmless_output
from bailiff.render.serializers.times import moment
from bailiff_bus.port import BusUnavailable
from bailiff_core.model.state import ENDED, PoolState
from bailiff_core.queue.start_slo import slo_targets, start_delay
from bailiff_service.json_response import JsonResponse
from bailiff_service.problems import not_found, unavailable

from .follower import PoolFollower
from .pools import Pools

router = APIRouter()
ALARMS_KEPT_US = 7 * 24 * 3_600_000_000
MOST_ROWS = 100
MOST_TEXT = 2000
Since = Annotated[int, Query(description="Seconds UTC.", ge=0, le=1 << 40)]


@router.get("/api/pools/{pool}/nodes/{node}/telemetry")
async def node_telemetry(request: Request, pool: str, node: str, since: Since | None = None) -> JsonResponse:
    """A node's GPUs over the last hour, or since a time, at most a day ago: then in longer steps."""
    followed = _followed(request, pool)
    if node not in followed.state.node_numbers:
        raise not_found(f"no node {node!r} in {pool}")
    return JsonResponse(followed.telemetry_history.of_node(node, since))


@router.get("/api/pools/{pool}/utilisation")
async def utilisation(request: Request, pool: str, since: Since = 0) -> JsonResponse:
    """The pool's mean utilisation, per minute."""
    return JsonResponse(_followed(request, pool).telemetry_history.of_pool(since))


@router.get("/api/pools/{pool}/attention")
async def attention(request: Request, pool: str) -> JsonResponse:
    """What needs a person and is not in the live stream: alarms of the last week (null: may not be read) and late starts."""
    followed = _followed(request, pool)
    try:
        alarms = await pool_alarms(followed.bus, followed.state)
    except BusUnavailable as error:
        raise unavailable(str(error)) from None
    recent = None if alarms is None else [each for each in alarms if (each.last or 0) >= followed.state.now - ALARMS_KEPT_US]
    return JsonResponse(
        {
            "alarms": None if recent is None else [_alarm(each) for each in recent[:MOST_ROWS]],
            "late": late_starts(followed.state)[:MOST_ROWS],
        }
    )


def late_starts(state: PoolState) -> list[dict[str, Any]]:
    """Jobs that have not started within their class's target, longest wait first."""
    targets = {
        entry.name: max(time for _, time in slo_targets(entry)) for entry in state.rules.priority_classes if slo_targets(entry)
    }
    found = []
    for job in state.jobs.values() if targets else ():
        target, waited = targets.get(job.class_name), start_delay(state, job)
        if job.phase in ENDED or job.first_wait is not None or target is None or waited is None or waited <= target:
            continue
        found.append(
            {"job": job.id, "priority_class": job.class_name, "since": moment(job.submitted_at), "within_s": target // 1_000_000}
        )
    return sorted(found, key=lambda each: (each["since"] or "", each["job"]))


def _alarm(row: Rejection) -> dict[str, Any]:
    """The alarm, harmless for a page: source and text are those of whoever sent it."""
    texts = {name: harmless_output(getattr(row, name), colours=False)[:MOST_TEXT] for name in ("source", "text")}
    return asdict(row) | texts | {"last": moment(row.last)}


def _followed(request: Request, pool: str) -> PoolFollower:
    pools: Pools = request.app.state.pools
    return pools.get(pool)

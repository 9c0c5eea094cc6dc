"""`/api/pools/{pool}/…`: GPU measurements over time, and what needs a person."""

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from typing_extensions import TypedDict

from bailiff.client.client import Client
from bailiff.client.rejections import Rejection
from bailiff.doctor.liveness import leftovers
from bailiff.render.plain_text import harmless_output
from bailiff.render.serializers.nodes import Leftovers
from bailiff.render.serializers.times import moment
from bailiff_bus.port import BusUnavailable
from bailiff_core.model.state import ENDED, PoolState
from bailiff_core.queue.start_slo import slo_targets, start_delay
from bailiff_core.views import Moment
from bailiff_service.json_response import JsonResponse
from bailiff_service.problems import not_found, unavailable

from .follower import PoolFollower
from .pools import Pools
from .telemetry_history import NodeTelemetryHistory, Utilisation

router = APIRouter()
ALARMS_KEPT_US = 7 * 24 * 3_600_000_000
MOST_ROWS = 100
MOST_TEXT = 2000
Since = Annotated[int, Query(description="Seconds UTC.", ge=0, le=1 << 40)]


class RejectionRow(TypedDict):
    """What was rejected or refused: one code of one source.

    kind: rejected: an input of admission; alarm: what others have refused; orphan: in the log's partition.
    last: when the newest was recorded; seq: of its record; text: of the newest.
    """

    kind: Literal["rejected", "alarm", "orphan"]
    code: str
    source: str
    count: int
    last: Moment | None
    seq: int | None
    text: str


class LateStart(TypedDict):
    """A job that has not started within its class's target."""

    job: str
    priority_class: str
    since: Moment | None
    within_s: int


class Attention(TypedDict):
    """What needs a person. alarms: of the last week; null: this console may not read them. late: the longest wait first."""

    alarms: list[RejectionRow] | None
    late: list[LateStart]


@router.get("/api/pools/{pool}/nodes/{node}/telemetry", response_model=NodeTelemetryHistory, tags=["live"])
async def node_telemetry(request: Request, pool: str, node: str, since: Since | None = None) -> JsonResponse:
    """A node's GPUs over the last hour, or since a time, at most a day ago: then in longer steps."""
    followed = _followed(request, pool)
    if node not in followed.state.node_numbers:
        raise not_found(f"no node {node!r} in {pool}")
    return JsonResponse(followed.telemetry_history.of_node(node, since))


@router.get("/api/pools/{pool}/nodes/{node}/leftovers", response_model=Leftovers, tags=["live"])
async def node_leftovers(request: Request, pool: str, node: str) -> JsonResponse:
    """What ended tasks have left on the node and its agent could not remove, by its newest heartbeat."""
    followed = _followed(request, pool)
    if node not in followed.state.node_numbers:
        raise not_found(f"no node {node!r} in {pool}")
    try:
        found = await leftovers(Client(followed.bus, source="console"), followed.state, node)
    except BusUnavailable as error:
        raise unavailable(str(error)) from None
    return JsonResponse({**found, "left_example": harmless_output(found["left_example"], colours=False)})


@router.get("/api/pools/{pool}/utilisation", response_model=Utilisation, tags=["live"])
async def utilisation(request: Request, pool: str, since: Since = 0) -> JsonResponse:
    """The pool's mean utilisation, per minute."""
    return JsonResponse(_followed(request, pool).telemetry_history.of_pool(since))


@router.get("/api/pools/{pool}/attention", response_model=Attention, tags=["live"])
async def attention(request: Request, pool: str) -> JsonResponse:
    """What needs a person and is not in the live stream: alarms of the last week (null: may not be read) and late starts."""
    followed = _followed(request, pool)
    try:
        alarms = await followed.alarms.read(followed.state)
    except BusUnavailable as error:
        raise unavailable(str(error)) from None
    recent = None if alarms is None else [each for each in alarms if (each.last or 0) >= followed.state.now - ALARMS_KEPT_US]
    return JsonResponse(
        {
            "alarms": None if recent is None else [rejection_row(each) for each in recent[:MOST_ROWS]],
            "late": late_starts(followed.state)[:MOST_ROWS],
        }
    )


def late_starts(state: PoolState) -> list[LateStart]:
    """Jobs that have not started within their class's target, longest wait first."""
    targets = {
        entry.name: max(time for _, time in slo_targets(entry)) for entry in state.rules.priority_classes if slo_targets(entry)
    }
    found: list[LateStart] = []
    for job in state.jobs.values() if targets else ():
        target, waited = targets.get(job.class_name), start_delay(state, job)
        if job.phase in ENDED or job.first_wait is not None or target is None or waited is None or waited <= target:
            continue
        found.append(
            {"job": job.id, "priority_class": job.class_name, "since": moment(job.submitted_at), "within_s": target // 1_000_000}
        )
    return sorted(found, key=lambda each: (each["since"] or "", each["job"]))


def rejection_row(row: Rejection) -> RejectionRow:
    """The row, harmless for a page: source and text are those of whoever sent the message."""
    return {
        "kind": row.kind,
        "code": row.code,
        "source": harmless_output(row.source, colours=False)[:MOST_TEXT],
        "count": row.count,
        "last": moment(row.last),
        "seq": row.seq,
        "text": harmless_output(row.text, colours=False)[:MOST_TEXT],
    }


def _followed(request: Request, pool: str) -> PoolFollower:
    pools: Pools = request.app.state.pools
    return pools.get(pool)

"""`/api/pools/{pool}/rejections`: what was rejected and refused, by code and source."""

from fastapi import APIRouter, Request
from typing_extensions import TypedDict

from bailiff.client.rejections import all_rejections
from bailiff_bus.port import BusUnavailable
from bailiff_console.live.measurements import RejectionRow, rejection_row
from bailiff_console.live.pools import Pools
from bailiff_service.json_response import JsonResponse
from bailiff_service.problems import unavailable

router = APIRouter()


class Rejections(TypedDict):
    """rows: alarms, orphans, rejected inputs, each newest first. alarms: whether `bailiff.alarms` could be read."""

    rows: list[RejectionRow]
    alarms: bool


@router.get("/api/pools/{pool}/rejections", response_model=Rejections, tags=["live"])
async def rejections(request: Request, pool: str) -> JsonResponse:
    """What was rejected and refused, by code and source."""
    pools: Pools = request.app.state.pools
    followed = pools.get(pool)
    try:
        rows, alarms_read = await all_rejections(followed.alarms, followed.state, followed.log_projection.reader)
    except BusUnavailable as error:
        raise unavailable(str(error)) from None
    return JsonResponse({"rows": [rejection_row(row) for row in rows], "alarms": alarms_read})

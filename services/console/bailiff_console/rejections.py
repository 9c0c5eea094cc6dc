"""`/api/pools/{pool}/rejections`: what was rejected and refused, by code and source."""

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Request

from bailiff.client.rejections import all_rejections
from bailiff.render.plain_text import harmless_output
from bailiff.render.serializers.times import moment
from bailiff_bus.port import BusUnavailable
from bailiff_console.live.pools import Pools
from bailiff_service.json_response import JsonResponse
from bailiff_service.problems import unavailable

router = APIRouter()


@router.get("/api/pools/{pool}/rejections")
async def rejections(request: Request, pool: str) -> JsonResponse:
    """`rows`: alarms, orphans, rejected inputs, each newest first; `alarms`: whether `bailiff.alarms` could be read."""
    pools: Pools = request.app.state.pools
    followed = pools.get(pool)
    try:
        rows, alarms_read = await all_rejections(followed.bus, followed.state, followed.log_projection.reader)
    except BusUnavailable as error:
        raise unavailable(str(error)) from None
    return JsonResponse({"rows": [_shown(asdict(row)) for row in rows], "alarms": alarms_read})


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    """The row, harmless for a page: sources and texts are those of whoever sent the message."""
    texts = {name: harmless_output(row[name], colours=False) for name in ("source", "text")}
    return row | texts | {"last": moment(row["last"])}

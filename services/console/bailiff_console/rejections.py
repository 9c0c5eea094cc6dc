"""`/api/pools/{pool}/rejections`: what was rejected and refused, by code and source."""

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Request

from bailiff.client.rejections import orphans, refusal_alarms, rejected_inputs
from bailiff.render.plain_text import harmless_output
from bailiff.render.serializers.times import moment
from bailiff_bus.port import BusUnavailable
from bailiff_console.live.pools import Pools
from bailiff_service.json_response import JsonResponse
from bailiff_service.problems import unavailable

router = APIRouter()


@router.get("/api/pools/{pool}/rejections")
async def rejections(request: Request, pool: str) -> JsonResponse:
    """`rows`: newest first within each kind; `alarms`: whether `bailiff.alarms` could be read."""
    pools: Pools = request.app.state.pools
    followed = pools.get(pool)
    try:
        alarms = await refusal_alarms(followed.bus, followed.state)
    except BusUnavailable as error:
        raise unavailable(str(error)) from None
    rows = [*rejected_inputs(followed.state), *orphans(followed.log_projection.reader), *(alarms or ())]
    return JsonResponse({"rows": [_shown(asdict(row)) for row in rows], "alarms": alarms is not None})


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    """The row, harmless for a page: sources and texts are those of whoever sent the message."""
    texts = {name: harmless_output(row[name], colours=False) for name in ("source", "text")}
    return row | texts | {"last": moment(row["last"])}

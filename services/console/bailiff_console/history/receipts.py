"""`/receipt`: the receipt of a preemption, as `bailiff audit receipt` writes it."""

import asyncio
from typing import Annotated

from fastapi import APIRouter, Query, Request
from typing_extensions import TypedDict

from bailiff.audit.log_sources import from_kafka
from bailiff.audit.receipt.collect import collect_from
from bailiff.audit.receipt.page import page_of
from bailiff.client.client import Client
from bailiff.client.errors import ClientError, ExitCode
from bailiff_console.live.pools import Pools
from bailiff_service.json_response import JsonResponse
from bailiff_service.problems import ApiError, ErrorDetail, invalid, not_found, unavailable

from .explain import WHOLE_LOG

router = APIRouter()


class ReceiptFile(TypedDict):
    """A receipt as a page of HTML, to be saved. file: a name for it."""

    file: str
    page: str


@router.get("/api/pools/{pool}/receipt", response_model=ReceiptFile, tags=["history"])
async def receipt(
    request: Request,
    pool: str,
    job: Annotated[str, Query(description="A victim; empty: all victims of the decision.", max_length=63)] = "",
    decision: Annotated[int | None, Query(description="The record; omitted: the job's latest preemption.", ge=0)] = None,
) -> JsonResponse:
    """The receipt of a preemption. The whole log is read for it, one receipt at a time."""
    pools: Pools = request.app.state.pools
    followed = pools.get(pool)
    if not job and decision is None:
        raise invalid(ErrorDetail(location="job", detail="give a job, a decision, or both"))
    if followed.state.seq > WHOLE_LOG:
        about = f"{job} --decision {decision}" if job and decision is not None else job or f"{decision}"
        text = f"the log has {followed.state.seq + 1:,} records, too many for this request; run: bailiff audit receipt {about}"
        raise ApiError(409, text)
    named: frozenset[str] = request.app.state.witness_keys
    one_at_a_time: asyncio.Lock = request.app.state.making_receipt
    if one_at_a_time.locked():
        raise unavailable("another receipt is being written: try again in a few seconds")
    async with one_at_a_time:
        try:
            found, _ = await collect_from(
                lambda: from_kafka(Client(followed.bus, source="console"), pool, named),
                job,
                decision,
                breathe=lambda: asyncio.sleep(0),
                named=named,
            )
        except ClientError as no:
            text = f"{no.text}{f' ({no.advice})' if no.advice else ''}"
            raise not_found(text) if no.exit_code is ExitCode.NOT_FOUND else ApiError(409, text) from None
    page = {"file": f"receipt-{pool}-{found.decision}.html", "page": page_of(found.to_text())}
    return JsonResponse(page, headers={"cache-control": "no-store"})

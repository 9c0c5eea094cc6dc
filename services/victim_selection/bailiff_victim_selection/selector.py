"""Computes and sends proposals for one pool's selections, one after the other."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import NoReturn

from bailiff_bus import topics
from bailiff_bus.messages.proposals import ProposalBatch
from bailiff_core.engine import LOGIC
from bailiff_core.model.state import PoolState
from bailiff_core.victims.batch import compute_proposals
from bailiff_log.credentials import Credentials
from bailiff_log.message_signatures import wrap_signed
from bailiff_log.projection import Projection
from bailiff_service import tracing
from bailiff_service.clock_and_ids import ClockAndIds
from bailiff_service.logs import logger
from bailiff_service.pool_ownership import IDLE_WAIT_S, prepare_state
from bailiff_service.signing import require_certificate

RESEND_AFTER = 2_000_000
MAX_WAIT = 0.5

Search = Callable[[PoolState], Awaitable[ProposalBatch]]


def proposal_batch(state: PoolState) -> ProposalBatch:
    """Proposals for the open requests in queue order, each based on the ones before."""
    assert state.selection is not None
    return ProposalBatch(selection=state.selection.number, computed_at=state.seq, logic=LOGIC, proposals=compute_proposals(state))


def _is_open(state: PoolState) -> bool:
    """Whether a selection waits for its proposal."""
    return state.selection is not None and state.proposals is None


async def compute_in_thread(state: PoolState) -> ProposalBatch:
    """Search in a thread, so that the event loop keeps serving health checks; the state does not change meanwhile."""
    return await asyncio.to_thread(proposal_batch, state)


async def run_selector(
    projection: Projection, clock_and_ids: ClockAndIds, search: Search, credentials: Credentials | None = None
) -> NoReturn:
    """Send a proposal for every selection, and again while the log shows no effect. credentials: as in `wrap_signed`."""
    producer = await projection.bus.producer()
    proposal, sent_at = ProposalBatch(selection=0, computed_at=0, logic=LOGIC, proposals=()), 0
    prepare_state(projection.state)
    try:
        while True:
            await projection.advance(MAX_WAIT if _is_open(projection.state) else IDLE_WAIT_S)
            require_certificate(projection.state, credentials, "victim-selection", clock_and_ids.wall())
            selection = projection.state.selection
            if selection is None or not _is_open(projection.state) or projection.state.cycle_open:
                continue
            if proposal.selection != selection.number or proposal.computed_at < selection.opened_seq:
                proposal, sent_at = await search(projection.state), 0
                logger(pool=projection.pool).info(
                    "proposals computed",
                    selection=proposal.selection,
                    proposals=len(proposal.proposals),
                    seq=proposal.computed_at,
                )
            if sent_at == 0 or clock_and_ids.boot() - sent_at >= RESEND_AFTER:
                headers, value = wrap_signed(
                    credentials,
                    proposal,
                    source=f"/bailiff/{projection.pool}/victim-selection",
                    id=f"{proposal.selection}@{proposal.computed_at}",
                    pool=projection.pool,
                    time_us=clock_and_ids.wall(),
                    traceparent=tracing.header(projection.pool, selection.requests[0].job, "select", selection.requests[0].seq),
                )
                await (await producer.send(topics.PROPOSALS.name, value, key=projection.pool.encode(), headers=headers))
                sent_at = clock_and_ids.boot()
    finally:
        await producer.close(1.0)

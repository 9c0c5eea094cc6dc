"""One domain's selections, answered one after the other."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import NoReturn

from bailiff_bus import topics, tracing
from bailiff_bus.ambient import Ambient
from bailiff_bus.envelope import wrap
from bailiff_bus.logs import logger
from bailiff_bus.messages import Proposal
from bailiff_bus.view import DomainView
from bailiff_core.engine import LOGIC
from bailiff_core.model.pool import Pool
from bailiff_core.victims.batch import select_batch

AGAIN_AFTER = 2_000_000
LONGEST_WAIT = 0.5

Search = Callable[[Pool], Awaitable[Proposal]]


def answer_selection(pool: Pool) -> Proposal:
    """Answers to the open requests in queue order, each on the result of the ones before."""
    assert pool.selection is not None
    answers = select_batch(pool, pool.selection.requests, pool.rules.preemption.search_steps)
    return Proposal(number=pool.selection.number, computed_at=pool.seq, logic=LOGIC, answers=tuple(answers))


async def answer_in_thread(pool: Pool) -> Proposal:
    """Search beside the event loop: messages are still read and health is answered, while the state stays as it is."""
    return await asyncio.to_thread(answer_selection, pool)


async def select_for_ever(view: DomainView, ambient: Ambient, search: Search) -> NoReturn:
    """Answer every selection once, and again while the log shows no reaction."""
    producer = await view.bus.producer()
    proposal, sent_at = Proposal(number=0, computed_at=0, logic=LOGIC, answers=()), 0
    view.ready_to_decide()
    try:
        while True:
            await view.advance(LONGEST_WAIT)
            selection = view.pool.selection
            if selection is None or view.pool.answers is not None or view.pool.turn_open:
                continue
            if proposal.number != selection.number or proposal.computed_at < selection.opened_seq:
                proposal, sent_at = await search(view.pool), 0
                logger(domain=view.domain).info(
                    "selection answered",
                    number=proposal.number,
                    answers=len(proposal.answers),
                    seq=proposal.computed_at,
                )
            if sent_at == 0 or ambient.boot() - sent_at >= AGAIN_AFTER:
                headers, value = wrap(
                    proposal,
                    source=f"/bailiff/{view.domain}/victim-selection",
                    id=f"{proposal.number}@{proposal.computed_at}",
                    domain=view.domain,
                    time_us=ambient.wall(),
                    traceparent=tracing.header(view.domain, selection.requests[0].job, "select", selection.requests[0].seq),
                )
                await (await producer.send(topics.PROPOSALS.name, value, key=view.domain.encode(), headers=headers))
                sent_at = ambient.boot()
    finally:
        await producer.close(1.0)

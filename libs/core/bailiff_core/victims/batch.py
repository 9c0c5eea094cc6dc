"""Answers all requests of a selection, each on the result of the ones before."""

from collections.abc import Sequence

from bailiff_core.model.answer import Answer
from bailiff_core.model.pool import OpenRequest, Pool
from bailiff_core.model.units import whole
from bailiff_core.placement.gang import GangPlace
from bailiff_core.placement.rooms import Rooms
from bailiff_core.placement.shares import from_shares

from .fit import asking
from .select import select_victims


def select_batch(pool: Pool, requests: Sequence[OpenRequest], steps: int) -> list[Answer]:
    """One answer per request, in the order given (the queue's). Each has `steps` of its own. `pool` is only read."""
    rooms = Rooms.of(pool)
    leaving: dict[str, None] = {}
    answers = []
    for request in requests:
        asker = pool.jobs.get(request.job)
        if asker is None or asker.phase != "pending":
            gone = "the job does not wait for room any more"
            answers.append(Answer(request=request.seq, job=request.job, refused="impossible", would_need=gone))
            continue
        answer = select_victims(pool, asker, rooms, steps, request=request.seq, leaving=leaving)
        answers.append(answer)
        if answer.refused is not None:
            continue
        for victim in answer.victims:
            rooms.evict(whole(pool.jobs[victim.job]))
            leaving[victim.job] = None
        rooms.place(asking(asker), GangPlace(tuple(from_shares(asker, answer.placement)), later=True))
    return answers

"""The selection that is out: its requests are closed one by one, and with the last one it ends."""

from bailiff_core.model.pool import Pool


def close_request(pool: Pool, request: int) -> None:
    """The request of that seq has its answer, or needs none any more."""
    selection = pool.selection
    if selection is None:
        return
    selection.requests = [open_ for open_ in selection.requests if open_.seq != request]
    if pool.answers is not None:
        pool.answers.pop(request, None)
    if not selection.requests:
        pool.selection = pool.answers = None
        pool.room_grew = True


def close_requests_of(pool: Pool, job: str) -> None:
    """The job has ended: nobody asks, and the room held for it is free again."""
    for request in list(pool.selection.requests) if pool.selection is not None else []:
        if request.job == job:
            close_request(pool, request.seq)

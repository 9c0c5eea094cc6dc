"""The open selection: its requests are closed one by one; with the last one it ends."""

from bailiff_core.model.state import PoolState


def close_request(state: PoolState, request: int) -> None:
    """The request of that seq has its answer, or needs none any more."""
    selection = state.selection
    if selection is None:
        return
    selection.requests = [open_ for open_ in selection.requests if open_.seq != request]
    if state.proposals is not None:
        state.proposals.pop(request, None)
    if not selection.requests:
        state.selection = state.proposals = None
        state.indices.retry_unschedulable = True


def close_requests_of(state: PoolState, job: str) -> None:
    """The job has ended: nobody asks, and the room held for it is free again."""
    for request in list(state.selection.requests) if state.selection is not None else []:
        if request.job == job:
            close_request(state, request.seq)

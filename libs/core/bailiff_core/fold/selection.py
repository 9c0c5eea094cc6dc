"""Closes requests of the open selection; it ends with the last one."""

from bailiff_core.model.state import PoolState


def close_request(state: PoolState, request: int) -> None:
    """Closes the request of that seq; it is decided or obsolete."""
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
    """Closes the open requests of a job that has ended or is paused."""
    for request in list(state.selection.requests) if state.selection is not None else []:
        if request.job == job:
            close_request(state, request.seq)

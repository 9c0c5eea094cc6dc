"""The calendar: GPUs that are reserved for projects."""

from bailiff_core.calendar.windows import next_window
from bailiff_core.model.state import GpuReservation, PoolState
from bailiff_core.records import decisions, facts

from .log import remember
from .registry import folds


@folds(facts.GpusReserved)
def gpus_reserved(state: PoolState, fact: facts.GpusReserved) -> None:
    """They are promised from now on."""
    state.gpu_reservations[fact.reservation] = GpuReservation(
        fact.reservation,
        fact.project,
        fact.gpus,
        fact.begin,
        fact.duration,
        fact.repeat,
        fact.weekdays,
        fact.times,
        state.seq,
        state.indices.actor,
        state.indices.actor_verified,
        fact.reason,
    )
    _changed(state)
    remember(state, fact.request)


@folds(facts.ReservationCancelled)
def reservation_cancelled(state: PoolState, fact: facts.ReservationCancelled) -> None:
    """Nothing is promised any more."""
    state.gpu_reservations.pop(fact.reservation, None)
    _changed(state)
    remember(state, fact.request)


@folds(decisions.ReservationBegan)
def reservation_began(state: PoolState, decision: decisions.ReservationBegan) -> None:
    """Its jobs may start."""
    state.gpu_reservations[decision.reservation].began = decision.begin
    state.indices.retry_unschedulable = True


@folds(decisions.ReservationEnded)
def reservation_ended(state: PoolState, decision: decisions.ReservationEnded) -> None:
    """Others' jobs may start. After the last time nothing is left of it."""
    found = state.gpu_reservations[decision.reservation]
    found.began, found.done = None, decision.end
    if next_window(found) is None:
        del state.gpu_reservations[decision.reservation]
    _changed(state)


def _changed(state: PoolState) -> None:
    state.indices.calendar = state.indices.promises = None
    state.indices.retry_unschedulable = True

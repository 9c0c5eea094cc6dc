"""Admits what reserves GPUs, if all that is promised can be kept, and what cancels that."""

from itertools import pairwise

from bailiff_core.calendar.windows import Calendar, begins_of, times_left
from bailiff_core.humanize import duration_text, first_names, minute_text
from bailiff_core.model.project_tree import ROOT
from bailiff_core.model.state import GpuReservation, PoolState
from bailiff_core.permissions import reservation_denial
from bailiff_core.quota.promises import Promises
from bailiff_core.records.calendar_requests import CancelReservation, ReserveGpus
from bailiff_core.records.payload import Fact
from bailiff_core.scheduling_snapshot import current_snapshot

from .handlers import Context, admits
from .rejected import Rejected

MAX_RESERVATIONS = 200
MAX_TIMES_OF_POOL, MAX_TIMES_OF_PROJECT = 1000, 250
"""Times that are not over. A request looks at all of them, and so does a decision when one ends."""
LATE = 300_000_000
"""How long ago a time may have begun that is asked for, µs: it begins now."""


@admits(ReserveGpus)
def reserve(context: Context, body: ReserveGpus) -> Fact | Rejected:
    """Within the policy's bounds, if the pool can promise it and keep what it has promised."""
    state = context.state
    return _refused(context, body) or _malformed(state, body) or _beyond_policy(state, body) or context.record(body)


@admits(CancelReservation)
def cancel(context: Context, body: CancelReservation) -> Fact | Rejected:
    """By whoever may reserve for its project."""
    found = context.state.gpu_reservations.get(body.reservation)
    if found is None:
        known = list(context.state.gpu_reservations)
        has = f"there is {first_names(known)}" if known else "there is none"
        return Rejected("no-such-reservation", f"there is no reservation {body.reservation!r}: {has}")
    denial = reservation_denial(context.state.rules, context.requester, found.project)
    return Rejected.denied(denial) if denial is not None else context.record(body)


def _refused(context: Context, body: ReserveGpus) -> Rejected | None:
    state = context.state
    if body.project not in {each.name for each in state.rules.projects}:
        known = [each.name for each in state.rules.projects]
        has = f"it has {first_names(known)}" if known else "it has none"
        return Rejected("no-such-project", f"the policy has no project {body.project!r}: {has}")
    denial = reservation_denial(state.rules, context.requester, body.project)
    return None if denial is None else Rejected.denied(denial)


def _malformed(state: PoolState, body: ReserveGpus) -> Rejected | None:
    if body.reservation in state.gpu_reservations:
        return Rejected("name-taken", f"there is a reservation {body.reservation!r}: choose another name")
    if len(state.gpu_reservations) >= MAX_RESERVATIONS:
        return Rejected("too-many-reservations", f"a pool has at most {MAX_RESERVATIONS} reservations: cancel one")
    for whose, most, project in (("a pool", MAX_TIMES_OF_POOL, None), ("a project", MAX_TIMES_OF_PROJECT, body.project)):
        has = sum(times_left(each) for each in state.gpu_reservations.values() if project in (None, each.project))
        if has + body.times > most:
            text = f"{whose} has at most {most} times to come, this one has {has}"
            return Rejected("too-many-reservations", f"{text}: cancel a reservation, or ask for fewer times")
    if body.begin < state.now - LATE or body.begin + body.duration <= state.now:
        return Rejected("malformed", f"begin: {minute_text(body.begin)} UTC is in the past")
    if body.repeat == "never" and (body.times != 1 or body.weekdays):
        return Rejected("malformed", "times and weekdays are of what is repeated: daily or weekly")
    if body.repeat == "daily" and body.weekdays:
        return Rejected("malformed", "weekdays are of what is repeated weekly")
    if len(set(body.weekdays)) < len(body.weekdays):
        return Rejected("malformed", "weekdays: one is named twice")
    begins = list(begins_of(body))
    if any(later - begin < body.duration for begin, later in pairwise(begins)):
        return Rejected("malformed", f"duration: {duration_text(body.duration)} is longer than the time until it is repeated")
    return None


def _beyond_policy(state: PoolState, body: ReserveGpus) -> Rejected | None:
    rules, begins = state.rules.reservations, list(begins_of(body))
    if body.duration > rules.max_duration:
        most = duration_text(rules.max_duration)
        return Rejected("over-limit", f"duration: at most {most} (policy field reservations.max_duration)")
    if begins[-1] > state.now + rules.ahead:
        until = minute_text(state.now + rules.ahead)
        return Rejected(
            "over-limit", f"it would begin at {minute_text(begins[-1])}, after {until} UTC (policy field reservations.ahead)"
        )
    wanted = GpuReservation(
        body.reservation, body.project, body.gpus, body.begin, body.duration, body.repeat, body.weekdays, body.times, state.seq
    )
    calendar = Calendar([*state.gpu_reservations.values(), wanted])
    promises = Promises(state, current_snapshot(state).usage, calendar)
    spans = [(max(begin, state.now), begin + body.duration) for begin in begins]
    times = sorted({time for begin, end in spans for time in (begin, *(each for each in calendar.edges if begin <= each < end))})
    for moment in promises.at((time, calendar.promised(time)) for time in times):
        own, free = moment.promised[body.project], promises.free_at(moment)
        when = f"{minute_text(moment.time)} UTC"
        if rules.max_gpus is not None and own > rules.max_gpus:
            text = f"project {body.project} would have {own} GPUs reserved at {when}, of at most {rules.max_gpus}"
            return Rejected("over-limit", f"{text} (policy field reservations.max_gpus)")
        if free < 0:
            others, held = sum(moment.promised.values()) - body.gpus, moment.held.by(ROOT)
            text = f"at {when} the pool can promise {max(0, body.gpus + free)} of {body.gpus} GPUs"
            why = f"of {promises.gpus} that take jobs, {others} are promised, and jobs that cannot be gone by then have {held}"
            return Rejected("not-enough-gpus", f"{text}: {why}")
    return None

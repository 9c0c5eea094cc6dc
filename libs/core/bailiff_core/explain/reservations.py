"""Reservations of GPUs in explanations: until when a job that runs may stay, and when those of its project are."""

from collections.abc import Iterator

from bailiff_core.calendar.windows import calendar_of, next_window
from bailiff_core.humanize import count_text, minute_text
from bailiff_core.lifecycle.before_maintenance import due, tasks_there
from bailiff_core.lifecycle.calendar import leaving_jobs
from bailiff_core.model.project_tree import tree_of
from bailiff_core.model.state import Job, PoolState
from bailiff_core.quota.leaving import leaving_time
from bailiff_core.quota.maintenance import maintenance_text
from bailiff_core.quota.promises import reserved_text

from .sentences import Sentence, seqs_of


def stays_until(state: PoolState, job: Job) -> Iterator[Sentence]:
    """Until when a job may stay, that will have to leave for GPUs that are reserved, as things are now."""
    for leaving in leaving_jobs(state) if state.gpu_reservations and job.tasks else ():
        if leaving.job.id == job.id and leaving.at > state.now:
            window = calendar_of(state).at(leaving.by)[0]
            core = leaving.units[-1].core
            what = "It is" if core else f"{count_text(sum(len(unit.indices) for unit in leaving.units), 'task')} of it are"
            text = f"{what} evicted at {minute_text(leaving.at)} UTC if nothing else leaves: {reserved_text(window)}"
            yield Sentence(f"{text}.", seqs_of(window.reservation.seq))


def leaves_for_maintenance(state: PoolState, job: Job) -> Iterator[Sentence]:
    """Until when a job stays on nodes that have maintenance to come."""
    at = due(state, job)
    for number in dict.fromkeys(task.node for task in tasks_there(state, job)):
        each = state.maintenance[number]
        if at is not None and at > state.now and at == each.begin - leaving_time(state, job):
            what = maintenance_text(state.nodes[number].name, each)
            yield Sentence(f"It leaves at {minute_text(at)} UTC, before {what}.", seqs_of(each.seq))
            return


def reserved_for_it(state: PoolState, job: Job) -> Iterator[Sentence]:
    """The next GPUs that are reserved for the job's project, or one above it."""
    tree = tree_of(state)
    path = tree.branches[tree.leaf_of(job.project)].path if state.gpu_reservations else ()
    for reservation in state.gpu_reservations.values():
        window = next_window(reservation) if reservation.project in path else None
        if window is not None:
            yield Sentence(f"{reserved_text(window)}.", seqs_of(reservation.seq))

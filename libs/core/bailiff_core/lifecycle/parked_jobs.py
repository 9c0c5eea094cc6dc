"""Saves parked jobs to disk that have been parked for as long as the policy allows, or whose node is drained."""

from collections.abc import Iterator
from typing import Literal

from bailiff_core.model.parking import parked_on
from bailiff_core.model.state import Job, PoolState
from bailiff_core.records.decisions import ParkedJobSaveDue
from bailiff_core.records.payload import Decision

from . import park_limit


def parked_jobs(state: PoolState) -> Iterator[Decision]:
    """Before jobs are placed: what is saved to disk may start elsewhere once it is."""
    for job in [state.jobs[name] for name in state.parked]:
        due = park_limit.due(state, job)
        if due is not None and due <= state.now and job.snapshot is not None:
            yield ParkedJobSaveDue(job=job.id, attempt=job.snapshot.attempt, why=_why(state, job))


def _why(state: PoolState, job: Job) -> Literal["park-limit", "drain", "policy"]:
    node = parked_on(state, job)
    if node is not None and node.drain is not None:
        return "drain"
    return "policy" if state.rules.snapshots.park_limit is None else "park-limit"

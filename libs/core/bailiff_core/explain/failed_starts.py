"""Why attempts of a job did not start, in the words of their nodes, and where it is not placed again."""

from collections.abc import Iterable, Sequence

from bailiff_core.fold.failed_starts import spared
from bailiff_core.fold.open_jobs import UNVERIFIED
from bailiff_core.humanize import MAX_NAMED, count_text, first_names
from bailiff_core.model.state import Job, PoolState
from bailiff_core.protections import evicted_in_vain
from bailiff_core.records import Record, facts

from .sentences import Sentence, clock, seqs_of, without_stop


def failed_start_sentences(job: Job, history: Sequence[Record]) -> Iterable[Sentence]:
    """How many attempts in a row did not start, a node's newest reason, and the nodes that are excluded since.

    Args:
        history: The records about the job, in order.
    """
    if job.start_failures:
        newest = next((record for record in reversed(history) if _failed(record)), None)
        reason = ""
        if newest is not None and isinstance(newest.data, facts.TaskStartRefused | facts.TaskExited):
            reason = f": {newest.data.node} says: {without_stop(newest.data.reason)}" if newest.data.reason else ""
        last = "attempt" if job.start_failures == 1 else count_text(job.start_failures, "attempt")
        yield Sentence(f"Its last {last} did not start{reason}.", seqs_of(newest.seq if newest is not None else None))
    if job.refused_by:
        nodes = first_names(job.refused_by, MAX_NAMED)
        until = "until the agent there joins anew, or the job is paused and resumed"
        yield Sentence(f"It is not placed on {nodes} again {until}.", ())


def spared_sentences(state: PoolState, job: Job) -> Iterable[Sentence]:
    """Which jobs it may not preempt for now, as they were evicted in vain."""
    found = spared(state, job)
    for name, entry in found.items():
        how = "in vain" if entry.until > state.now else f"{count_text(entry.often, 'time')}, without a day in between,"
        why = f"it was evicted {how} for jobs of {job.user if job.user_verified else UNVERIFIED} (rule {evicted_in_vain.NAME})"
        yield Sentence(f"It spares {name} until {clock(max(entry.until, entry.often_until))}: {why}.", seqs_of(entry.seq))
    if found and not job.user_verified:
        yield Sentence("These users count as one, as anybody can invent names; jobs of signed requests count by their owner.", ())


def _failed(record: Record) -> bool:
    data = record.data
    refused = isinstance(data, facts.TaskStartRefused) and data.is_failed_start
    return refused or (isinstance(data, facts.TaskExited) and data.unobserved)

"""Explanation of one job: its state, why it is pending, what would unblock it, its evictions, and the jobs it preempted."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from bailiff_core.humanize import user_text
from bailiff_core.model.state import ENDED, Job, PoolState
from bailiff_core.records import Record

from .claims import claim_sentences
from .dependencies import dependency_sentences
from .evictions import (
    attempt_failed,
    earlier_evictions,
    eviction_course,
    eviction_reasons,
    evicts,
    evicts_surplus_only,
    return_sentences,
    word_of,
)
from .failed_starts import failed_start_sentences
from .job_state import preemptor_of, state_sentences
from .open_job_limits import limit_sentences
from .pending import newest_refusal, obstacle_sentences, pending_sentences, since_queued
from .sentences import Section, Sentence, seqs_of
from .unblockers import unblocking_sentences
from .victims import EVICTED, preemption_sentences
from .without_selection import WithoutSelection


def explain_job(state: PoolState, job: Job, history: Sequence[Record]) -> list[Section]:
    """Sections about the job.

    Args:
        state: After the last record.
        history: The records about the job, and the requests that decisions about it answer, in order.
    """
    sections = [Section("What is its state?", (*state_sentences(state, job, history), *_failed_before(job, history)))]
    sections.append(Section("What does it claim, and what is granted?", tuple(claim_sentences(state, job))))
    if job.phase == "waiting":
        sections.append(Section("What does it wait for?", tuple(dependency_sentences(state, job))))
    elif job.phase == "pending":
        without_selection = WithoutSelection(state)
        sections.append(Section("Why is it pending?", tuple(pending_sentences(state, job, history, without_selection))))
        refusal = newest_refusal(since_queued(history))
        sections.append(Section("What would unblock it?", tuple(unblocking_sentences(state, job, refusal, without_selection))))
        sections.append(Section("Which limits of open jobs are near?", tuple(limit_sentences(state, job))))
    elif job.phase == "paused":
        sections.append(Section("Why did it not start?", tuple(failed_start_sentences(job, history))))
    elif job.id in state.queue:
        sections.append(Section("Why are some of its tasks pending?", tuple(obstacle_sentences(state, job))))
    evicted = [record for record in history if evicts(record, job.id)]
    if evicted:
        subject = "were some of its tasks" if evicts_surplus_only(evicted[-1], job.id) else "was it"
        word = word_of(evicted[-1])
        course = "did the eviction proceed" if word == EVICTED else "did it stop"
        reasons = (*eviction_reasons(state, job, evicted[-1], history), *_preemptor_s_user(state, evicted[-1]))
        sections.append(Section(f"Why {subject} {word}?", reasons))
        if word != "cancelled":
            returns = tuple(return_sentences(state, job, evicted[-1], history))
            sections.append(Section("When does it resume, and what protects it then?", returns))
        sections.append(Section(f"How {course}?", tuple(eviction_course(job, evicted[-1], history))))
        sections += earlier_evictions(state, job, evicted, history)
    preemptions = [record for record in history if preemptor_of(record) == job.id]
    if preemptions:
        sections.append(Section("Which jobs did it preempt?", tuple(preemption_sentences(preemptions[-1]))))
    return [_cited(section, state) for section in sections if section.sentences]


def _cited(section: Section, state: PoolState) -> Section:
    """What follows from the state as a whole cites its last record."""
    return Section(section.question, tuple(replace(each, seqs=each.seqs or (state.seq,)) for each in section.sentences))


def _failed_before(job: Job, history: Sequence[Record]) -> Iterable[Sentence]:
    """How the attempt before failed, and where its output is. Evictions have a section of their own."""
    failed = attempt_failed(history)
    if failed is not None and job.phase not in ENDED:
        yield failed
    if job.phase == "failed" or (job.failures and job.phase not in ENDED):
        yield Sentence(f"Its output: bailiff logs {job.id}.", seqs_of(job.seq))


def _preemptor_s_user(state: PoolState, record: Record) -> Iterable[Sentence]:
    """Whose job the preemptor is."""
    preemptor = state.jobs.get(preemptor_of(record) or "")
    if preemptor is not None and preemptor.user:
        user = user_text(preemptor.user, preemptor.user_verified)
        yield Sentence(f"{preemptor.id} was submitted by {user}.", seqs_of(preemptor.seq))

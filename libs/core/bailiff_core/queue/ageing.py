"""`ageing`: a job that was evicted often, or is pending for long, gets a higher effective priority.

The boost for evictions is permanent. The boost for pending time lasts while the job then has an allocation or a reservation,
so that the job is not preempted by the next arrival; after an eviction it has to be earned again.
"""

from bailiff_core.humanize import count_text
from bailiff_core.model.policy import Ageing
from bailiff_core.model.state import ENDED, Job, PoolState

NAME = "ageing"


def effective(state: PoolState, job: Job) -> int:
    """The job's effective priority, as of now."""
    rules = state.rules.protections.ageing
    if rules is None:
        return job.base_priority
    if _evicted_often(rules, job):
        return _boosted(state, rules, job)
    if job.phase != "pending":
        return job.priority
    waited = rules.waiting is not None and state.now >= job.queued_since + rules.waiting
    return _boosted(state, rules, job) if waited else job.base_priority


def reason(state: PoolState, job: Job) -> str:
    """Reason for the effective priority."""
    rules = state.rules.protections.ageing
    if rules is None:
        return "the policy has no ageing any more"
    if _evicted_often(rules, job):
        return f"it was evicted {count_text(job.evictions, 'time')}"
    if effective(state, job) != job.base_priority:
        return f"pending for longer than {(rules.waiting or 0) // 1_000_000} s"
    return "its pending time restarted"


def due(state: PoolState, job: Job) -> int | None:
    """Time, µs, from which the job's priority differs from its effective one; `None`: time alone changes nothing."""
    if job.phase in ENDED or job.cancelled:
        return None
    if effective(state, job) != job.priority:
        return job.queued_since
    rules = state.rules.protections.ageing
    if rules is None or rules.waiting is None or job.phase != "pending" or job.priority == _boosted(state, rules, job):
        return None
    return job.queued_since + rules.waiting


def _evicted_often(rules: Ageing, job: Job) -> bool:
    return rules.evictions is not None and job.evictions >= rules.evictions


def _boosted(state: PoolState, rules: Ageing, job: Job) -> int:
    not_preemptible = [entry.value for entry in state.rules.priority_classes if not entry.preemptible]
    boosted = job.base_priority + rules.boost
    return max(job.base_priority, min([boosted, *(value - 1 for value in not_preemptible)]))

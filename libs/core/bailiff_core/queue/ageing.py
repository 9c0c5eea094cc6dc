"""`ageing`: a job that was evicted often, or is pending for long, gets a higher effective priority.

The boost for evictions is the job's for good. The one for waiting is kept while the job then holds or is promised room,
so that who got in by waiting is not out again with the next arrival; evicted, it has to be waited for once more.
"""

from bailiff_core.humanize import count_text
from bailiff_core.model.policy import Ageing
from bailiff_core.model.state import ENDED, Job, PoolState

from .pending_since import waiting_since

NAME = "ageing"


def effective(state: PoolState, job: Job) -> int:
    """The priority that the job should count with now."""
    rules = state.rules.protections.ageing
    if rules is None:
        return job.base_priority
    if _often_evicted(rules, job):
        return _aged(state, rules, job)
    if job.phase != "pending":
        return job.priority
    waited = rules.waiting is not None and state.now >= waiting_since(job) + rules.waiting
    return _aged(state, rules, job) if waited else job.base_priority


def reason(state: PoolState, job: Job) -> str:
    """Why the job counts with that."""
    rules = state.rules.protections.ageing
    if rules is None:
        return "the policy has no ageing any more"
    if _often_evicted(rules, job):
        return f"it was evicted {count_text(job.evictions, 'time')}"
    if effective(state, job) != job.base_priority:
        return f"it waits for longer than {(rules.waiting or 0) // 1_000_000} s"
    return "it waits anew"


def due(state: PoolState, job: Job) -> int | None:
    """From when on the job's priority is not what it should be; `None`: time alone changes nothing."""
    if job.phase in ENDED or job.cancelled:
        return None
    if effective(state, job) != job.priority:
        return waiting_since(job)
    rules = state.rules.protections.ageing
    if rules is None or rules.waiting is None or job.phase != "pending" or job.priority == _aged(state, rules, job):
        return None
    return waiting_since(job) + rules.waiting


def _often_evicted(rules: Ageing, job: Job) -> bool:
    return rules.evictions is not None and job.evictions >= rules.evictions


def _aged(state: PoolState, rules: Ageing, job: Job) -> int:
    safe = [entry.value for entry in state.rules.priority_classes if not entry.preemptible]
    boosted = job.base_priority + rules.boost
    return max(job.base_priority, min([boosted, *(value - 1 for value in safe)]))

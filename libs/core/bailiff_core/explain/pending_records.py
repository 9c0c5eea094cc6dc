"""Which records say why a job is pending, and how: asked by the archive, the bridge, the console and the command alike."""

from bailiff_core.records import decisions
from bailiff_core.records.payload import Payload

REFUSAL_REASONS = {
    "impossible": "no permitted set of victims is sufficient, which victim selection claims to have proven",
    "gave-up": "the search exhausted its step budget without a result, which is not a proof that there is none",
    "stale": "the proposal was out of date when it arrived",
    "not-needed": "no eviction was needed, as the job fits or is no longer pending",
}
CONCLUSIVE = ("impossible", "gave-up")
"""Refusals for a reason in the pool's state. The others say nothing about why the job is pending."""
DROP_REASONS = {
    "expired": "the reservation expired",
    "cancelled": "the job was cancelled",
    "growth-cost": "the restart to grow would have lost more work than the new tasks win",
    "gpus-reserved": "its GPUs are reserved for others before it could be gone",
    "resources-lost": "the reserved resources are no longer available",
    "abandoned": "its preemption was abandoned",
    "preempted": "preempted by a job of higher priority",
    "scaled": "the job no longer requests it",
    "policy": "the policy does not allow it",
    "paused": "the job was paused",
    "requested": "requested by a user",
    "drain": "the node is being drained",
}
PENDING_RECORDS: tuple[type[Payload], ...] = (
    decisions.JobPending,
    decisions.PreemptionRequested,
    decisions.PreemptionRefused,
    decisions.ReservationDropped,
)


def pending_reason_in(data: Payload | None) -> tuple[str, str] | None:
    """Returns the job that is pending, and why; `None` for a record that does not say so."""
    match data:
        case decisions.JobPending() | decisions.PreemptionRequested():
            return data.job, data.reason
        case decisions.PreemptionRefused() if data.reason in CONCLUSIVE:
            need = missing_text(data)
            return data.preemptor.job, REFUSAL_REASONS[data.reason] + (f": {need}" if need else "")
        case decisions.ReservationDropped():
            return data.job, DROP_REASONS[data.reason]
    return None


def missing_text(data: decisions.PreemptionRefused) -> str:
    """What the request lacked, per action that was tried, last first; actions are named if there are several."""
    tried = data.explanation.attempted_actions
    if not tried:
        return data.would_need
    all_actions = [(data.action, data.would_need), *((each.action, each.would_need) for each in reversed(tried))]
    return "; ".join(f"{action}: {need}" for action, need in all_actions if need)

"""What a job claims for itself, and what of it holds now (docs/reference/claims.md)."""

from collections.abc import Iterator
from typing import NamedTuple

from bailiff_core.humanize import count_text, duration_text, memory_text
from bailiff_core.lifecycle import park_limit, snapshot_retention, stale_grace
from bailiff_core.model.claims import believed, has_protective_labels
from bailiff_core.model.grace import grace_of, granted_grace
from bailiff_core.model.job_labels import has_labels
from bailiff_core.model.job_rules import KEPT_FOR
from bailiff_core.model.parking import parked_on, why_not_parked
from bailiff_core.model.snapshots import BY_NODE, checkpointing, over_quota
from bailiff_core.model.state import Job, PoolState
from bailiff_core.queue.preemption_delay import delay_of

from .sentences import Sentence, seqs_of


class Claim(NamedTuple):
    """A field that makes the job harder to evict, as people read it.

    Attributes:
        field: Of the job file.
        claimed: What the job said.
        granted: What holds.
    """

    field: str
    claimed: str
    granted: str


def belief_text(job: Job) -> str:
    """How far the job is believed less than others; empty: it is not."""
    return f"less, {count_text(job.unkept, 'time')} in a row" if job.unkept else ""


def claims_of(state: PoolState, job: Job) -> list[Claim]:
    """Returns what the job claims, and what of it is granted now."""
    demand, found = job.demand, []
    if demand.grace is not None:
        found.append(Claim("grace", duration_text(demand.grace), duration_text(grace_of(state, job))))
    if demand.preemptible is False:
        found.append(Claim("preemptible", "false", str(job.preemptible).lower()))
    if demand.stale_grace is not None:
        claimed = "never" if demand.stale_grace == "never" else duration_text(demand.stale_grace)
        granted = stale_grace.grace(state, job)
        found.append(Claim("stale_grace", claimed, "never" if granted is None else duration_text(granted)))
    if demand.preemption_delay is not None:
        found.append(Claim("preemption_delay", duration_text(demand.preemption_delay), duration_text(delay_of(state, job))))
    protections = state.rules.protections
    protective = (*protections.excluded, *(budget.labels for budget in protections.budgets if budget.labels))
    if any(has_labels(job, labels) for labels in protective):
        found.append(Claim("labels", "protected", "protected" if has_protective_labels(state, job) else "not protected"))
    return found


def _parking(state: PoolState, job: Job) -> Iterator[Sentence]:
    """Yields where it is parked, and until when; of a job that runs on a node that parks jobs, whether it would be."""
    at = parked_on(state, job)
    if at is not None and job.snapshot is not None:
        due = park_limit.due(state, job)
        held = memory_text(sum(each.bytes for each in job.snapshot.tasks))
        text = f"It is parked on {at.name}, where it holds {held} and goes on within seconds once it fits there"
        if due is not None:
            text += f"; in {duration_text(max(0, due - state.now))} it is saved to disk (snapshots.park_limit)"
        elif job.snapshot.save_failed:
            text += f"; it could not be saved to disk ({job.snapshot.save_failed}), so it may begin anew elsewhere"
        if job.snapshot.on_disk is not None:
            text += f"; without it the job continues from its snapshot of attempt {job.snapshot.on_disk.attempt}"
        yield Sentence(f"{text}.", seqs_of(job.snapshot.tasks[0].seq, state.policy_revision))
    elif job.phase == "running" and job.tasks and state.nodes[job.tasks[0].node].parking is not None:
        why_not = why_not_parked(state, job)
        text = f"An eviction does not park it: {why_not}" if why_not else "An eviction parks it: it loses no work"
        yield Sentence(f"{text}.", seqs_of(state.policy_revision))


def claim_sentences(state: PoolState, job: Job) -> Iterator[Sentence]:
    """Yields what the job claims and is granted, and why it is believed less than others."""
    seqs = seqs_of(job.seq, state.policy_revision)
    for claim in claims_of(state, job):
        granted = "which is granted" if claim.claimed == claim.granted else f"and is granted {claim.granted}"
        yield Sentence(f"It claims {claim.field} {claim.claimed}, {granted}.", seqs)
    yield from _parking(state, job)
    if checkpointing(state.rules, job) in BY_NODE and (why_not := over_quota(state, job)):
        yield Sentence(f"No node saves it when it is evicted: {why_not}.", seqs)
    until = snapshot_retention.due(state, job)
    if until is not None and job.snapshot is not None:
        left, field = duration_text(max(0, until - state.now)), KEPT_FOR.of(state, job).field
        text = f"Its snapshot of attempt {job.snapshot.attempt} is kept for another {left} while it does not run ({field})."
        yield Sentence(text, seqs_of(job.snapshot.tasks[0].seq, state.policy_revision))
    if job.unkept:
        most, grace = state.rules.preemption.max_counted_loss, grace_of(state, job)
        graces = f"{duration_text(grace)} instead of {duration_text(granted_grace(state, job))}"
        losses = f"{duration_text(believed(job, most))} counts as work lost instead of {duration_text(most)}"
        yield Sentence(
            f"It is believed {belief_text(job)}: it used up its whole grace and saved nothing, or a checkpoint that it had "
            "reported could not be read. "
            f"So its grace is {graces}, and of its running time at most {losses}.",
            seqs_of(job.unkept_seq),
        )

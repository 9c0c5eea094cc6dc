"""Who is attached to which task. An attachment decides nothing."""

from bailiff_core.model.state import Attachment, PoolState
from bailiff_core.records import facts

from .log import remember
from .registry import folds

UNANSWERED_AFTER = 60_000_000


def is_live(state: PoolState, attachment: Attachment) -> bool:
    """Whether it may still begin, or has begun: its task runs under the same agent, and the agent has answered in time."""
    job, number = state.jobs.get(attachment.job), state.node_numbers.get(attachment.node)
    task = job.task(attachment.task) if job is not None and job.attempt == attachment.attempt else None
    if task is None or task.state != "running" or number is None or state.nodes[number].incarnation != attachment.incarnation:
        return False
    return attachment.ready or state.now - attachment.granted_at < UNANSWERED_AFTER


def live_attachments(state: PoolState, job: str) -> list[Attachment]:
    """Those of the job."""
    return [each for each in state.attachments.values() if each.job == job and is_live(state, each)]


@folds(facts.AttachGranted)
def attach_granted(state: PoolState, fact: facts.AttachGranted) -> None:
    """Keeps the grant until it has ended, and drops those whose end no agent will report."""
    over = [seq for seq, each in state.attachments.items() if not is_live(state, each)]
    for seq in over:
        del state.attachments[seq]
    node = state.nodes[state.node_numbers[fact.node]]
    state.attachments[state.seq] = Attachment(
        fact.job,
        fact.attempt,
        fact.task,
        fact.node,
        node.incarnation,
        state.indices.actor,
        state.now,
        user_verified=state.indices.actor_verified,
    )
    remember(state, fact.request)


@folds(facts.AttachReady)
def attach_ready(state: PoolState, fact: facts.AttachReady) -> None:
    """The agent waits for the client."""
    if fact.grant in state.attachments:
        state.attachments[fact.grant].ready = True


@folds(facts.AttachStarted)
def attach_started(state: PoolState, fact: facts.AttachStarted) -> None:
    """The client is attached."""
    if fact.grant in state.attachments:
        state.attachments[fact.grant].started_at = state.now


@folds(facts.AttachEnded)
def attach_ended(state: PoolState, fact: facts.AttachEnded) -> None:
    """Nobody is attached by this grant any more."""
    state.attachments.pop(fact.grant, None)

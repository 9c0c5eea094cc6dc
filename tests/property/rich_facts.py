"""Facts that are rare in a pool: about its clock, log, keys, nodes' identities, and attachments."""

from collections.abc import Iterator
from typing import Any

from tests.kits.log_builder import Story, digest
from tests.property.rich_worlds import SECOND, Draw

from bailiff_core.records import facts
from bailiff_core.records.payload import Fact

KEYS = [letter * 43 for letter in "ABC"]
CODES = ("not-json", "no-such-job", "not-permitted")
ENDS = ("detached", "task-ended", "expired")


def rare_facts(draw: Draw, story: Story) -> Iterator[Fact]:
    """One of them, as admission would make it."""
    yield from draw.of(_clock, _rejected, _truncated, _failed, _identity, _silence, _attachment, _resumed)(draw, story)


def _clock(draw: Draw, story: Story) -> Iterator[Fact]:
    """What is due next has just come, is due at once, or is further away."""
    yield facts.ClockStepped(jump=draw.of(1, 5 * SECOND, 3600 * SECOND, -SECOND))


def _rejected(draw: Draw, story: Story) -> Iterator[Fact]:
    for _ in range(draw.of(1, 1, 3)):
        yield facts.InputRejected(
            topic="bailiff.requests",
            partition=0,
            offset=story.state.seq,
            digest=digest("x"),
            code=draw.of(*CODES),
            reason="no",
            source=draw.of(None, "laptop", "other"),
            id=draw.of(None, "r-1"),
            count=draw.of(1, 1, 2),
        )


def _truncated(draw: Draw, story: Story) -> Iterator[Fact]:
    if story.state.truncation_unreconciled:
        yield facts.TruncationReconciled()
    elif draw.chance(30):
        seq = story.state.seq + draw.of(0, 5)
        yield facts.LogTruncated(request=story.request(), epoch=story.state.epoch, seq=seq)
        if draw.chance(70):
            yield facts.TruncationReconciled()


def _failed(draw: Draw, story: Story) -> Iterator[Fact]:
    jobs = list(story.state.jobs.values())
    if jobs and draw.chance(30):
        yield facts.DecisionFailed(job=draw.of(*jobs).id, error="out of range")


def _identity(draw: Draw, story: Story) -> Iterator[Fact]:
    node = draw.of(*story.state.nodes.values()).name
    yield draw.of(
        facts.EnrolmentPermitted(request=story.request(), node=node, key=draw.of(None, *KEYS), expires=story.time + draw.time()),
        facts.NodeWaiting(node=node, key=draw.of(*KEYS)),
        facts.NodeEnrolled(node=node, key=draw.of(*KEYS), encryption_key=KEYS[0], by="operator", permitted_by=draw.of(None, 5)),
        facts.KeyRevoked(key=draw.of(*KEYS), request=story.request()),
        facts.NodeReplaced(request=story.request(), node=node, machine_id=f"machine-{node}"),
        facts.NodeRefused(node=node, machine_id="another", reason="it is another machine"),
    )


def _silence(draw: Draw, story: Story) -> Iterator[Fact]:
    names = [node.name for node in story.state.nodes.values() if node.state != "lost"]
    if names and draw.chance(50):
        yield facts.NodesSilent(nodes=tuple(names))
    yield facts.NodeReturned(request=story.request(), node=draw.of(None, *names))


def _running(draw: Draw, story: Story) -> dict[str, Any] | None:
    found = [(job.id, task.index) for job in story.state.active_jobs() for task in job.tasks if task.state == "running"]
    return story.at(*draw.of(*found)) if found else None


def _attachment(draw: Draw, story: Story) -> Iterator[Fact]:
    at = _running(draw, story)
    if at is None:
        return
    grant = story.state.seq + 1
    yield facts.AttachGranted(**at, request=story.request(), client_certificate="A" * 100)
    if draw.chance(70):
        yield facts.AttachReady(**at, grant=grant, address="10.0.0.1:4000", fingerprint=digest("agent"))
    if draw.chance(50):
        yield facts.AttachStarted(**at, grant=grant)
    if draw.chance(50):
        yield facts.AttachEnded(**at, grant=grant, reason=draw.of(*ENDS))


def _resumed(draw: Draw, story: Story) -> Iterator[Fact]:
    at = _running(draw, story)
    if at is not None:
        yield facts.TaskResumed(**at, step=draw.of(0, 5), from_attempt=draw.of(None, 1), steps_lost=draw.of(0, 2))

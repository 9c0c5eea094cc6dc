"""Snapshots that nobody needs: the nodes that have stored them are told to remove them, once a newer one is on record, when
their job ends, however it does, when it starts without them, and when it has not run for as long as the policy keeps them.

What was stored is known from the records since this writer began; of before, the state has the newest of each job.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from bailiff_bus.messages.commands import RemoveSnapshots, TaskSnapshot
from bailiff_core.model.evictions import evictions_of
from bailiff_core.model.snapshots import is_parked, on_disk
from bailiff_core.model.state import Job, Node, PoolState
from bailiff_core.records import Record
from bailiff_core.records.decisions import JobEnded, JobRequeued, SnapshotExpired
from bailiff_core.records.facts import (
    EvictionStageReached,
    NodeJoined,
    ParkedTaskStageReached,
    SnapshotStageReached,
    TaskRestoreFailed,
    TaskStarted,
)

MOST_AT_ONCE = 500


@dataclass(slots=True)
class EndedSnapshots:
    """By job, what nodes have stored; by node, what it is to remove once it is there."""

    _stored: dict[str, list[tuple[str, TaskSnapshot]]] = field(default_factory=dict)
    _due: dict[str, list[TaskSnapshot]] = field(default_factory=dict)

    def begin(self, state: PoolState) -> None:
        """Take over what the state has."""
        for job in state.jobs.values():
            if job.id not in self._stored and (found := [(state.nodes[at].name, kept) for at, kept in _needed(job)]):
                self._stored[job.id] = found

    def observe(self, state: PoolState, record: Record) -> Iterator[RemoveSnapshots]:
        """The commands that this record leads to."""
        match record.data:
            case (EvictionStageReached() | SnapshotStageReached() | ParkedTaskStageReached()) as stored if (
                stored.stage in ("stored", "parked") and stored.sha256 is not None
            ):
                job, sha256 = stored.job, stored.sha256
                kept = TaskSnapshot(job=job, attempt=stored.attempt, task=stored.task, sha256=sha256)
                self._stored.setdefault(job, []).append((stored.node, kept))
                yield from self._unneeded(state, job)
            case JobRequeued(job=job) | JobEnded(job=job) | SnapshotExpired(job=job):
                yield from self._unneeded(state, job)
            case SnapshotStageReached(job=job) | TaskStarted(job=job) | TaskRestoreFailed(job=job):
                yield from self._unneeded(state, job)
            case NodeJoined():
                for name in [*self._due]:
                    yield from self._commands(state, name)

    def _unneeded(self, state: PoolState, job: str) -> Iterator[RemoveSnapshots]:
        """Those from which the job does not continue, once none is being saved: also of a gang that was not saved whole."""
        found, stored = state.jobs.get(job), self._stored.get(job)
        if found is None or stored is None or found.saving_seq is not None or evictions_of(found):
            return
        needed = {part.sha256 for _, part in _needed(found)}
        self._stored[job] = [each for each in stored if each[1].sha256 in needed]
        if not self._stored[job]:
            del self._stored[job]
        unneeded = [each for each in stored if each[1].sha256 not in needed]
        for name, part in unneeded:
            self._due.setdefault(name, []).append(part)
        for name in dict.fromkeys(name for name, _ in unneeded):
            yield from self._commands(state, name)

    def _commands(self, state: PoolState, name: str) -> Iterator[RemoveSnapshots]:
        node = _one_that_sees(state, state.nodes[state.node_numbers[name]])
        if node is None:
            return
        due = self._due.pop(name, [])
        for first in range(0, len(due), MOST_AT_ONCE):
            yield RemoveSnapshots(
                node=node.name,
                incarnation=node.incarnation,
                sender="admission",
                sender_epoch=state.epoch,
                snapshots=tuple(due[first : first + MOST_AT_ONCE]),
            )


def _needed(job: Job) -> Iterator[tuple[int, TaskSnapshot]]:
    """The parts of its newest, and of the one on disk, each with the node that has stored it."""
    for kept in filter(None, (job.snapshot, on_disk(job) if is_parked(job) else None)):
        for part in kept.tasks:
            yield part.node, TaskSnapshot(job=job.id, attempt=kept.attempt, task=part.task, sha256=part.sha256)


def _one_that_sees(state: PoolState, node: Node) -> Node | None:
    """The node, or while that is lost another one with the same folder for checkpoints."""
    sharing = [each for each in state.nodes.values() if each.checkpoint_store and each.checkpoint_store == node.checkpoint_store]
    return next((each for each in (node, *sharing) if each.state != "lost"), None)

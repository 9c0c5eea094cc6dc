"""Snapshots that nobody needs: the nodes that have stored them are told to remove them, once a newer one is on record, when
their job ends, however it does, when it starts without them, and when it has not run for as long as the policy keeps them.

What was stored is known from the records since this writer began; of before, the state has the newest of each job.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from bailiff_bus.messages.commands import RemoveSnapshots, TaskSnapshot
from bailiff_core.model.evictions import evictions_of
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
        names = {node.machine_id: node.name for node in state.nodes.values()}
        for job in state.jobs.values():
            if job.id not in self._stored and (found := [(names[at], kept) for at, kept in _newest(job) if at in names]):
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
                yield from self._replaced(state, job)
            case SnapshotStageReached(job=job) | JobRequeued(job=job):
                yield from self._replaced(state, job)
            case TaskStarted(not_restored="") | ParkedTaskStageReached():
                pass
            case JobEnded(job=job) | SnapshotExpired(job=job) | TaskStarted(job=job) | TaskRestoreFailed(job=job):
                for name, kept in self._stored.pop(job, ()):
                    self._due.setdefault(name, []).append(kept)
                    yield from self._commands(state, name)
            case NodeJoined():
                for name in [*self._due]:
                    yield from self._commands(state, name)

    def _replaced(self, state: PoolState, job: str) -> Iterator[RemoveSnapshots]:
        """Those that the job's newest has replaced, or that were stored in vain because others of its gang were not."""
        found = state.jobs.get(job)
        if found is None or found.snapshot is None or found.saving_seq is not None or evictions_of(found):
            return
        newest = {part.sha256 for part in found.snapshot.tasks}
        replaced = [each for each in self._stored.get(job, ()) if each[1].sha256 not in newest]
        for each in replaced:
            self._stored[job].remove(each)
            self._due.setdefault(each[0], []).append(each[1])
        for name in dict.fromkeys(name for name, _ in replaced):
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


def _newest(job: Job) -> Iterator[tuple[str, TaskSnapshot]]:
    """The parts of its newest, each with the machine that has stored it."""
    if job.snapshot is not None:
        for part in job.snapshot.tasks:
            kept = TaskSnapshot(job=job.id, attempt=job.snapshot.attempt, task=part.task, sha256=part.sha256)
            yield part.machine_id, kept


def _one_that_sees(state: PoolState, node: Node) -> Node | None:
    """The node, or while that is lost another one with the same folder for checkpoints."""
    sharing = [each for each in state.nodes.values() if each.checkpoint_store and each.checkpoint_store == node.checkpoint_store]
    return next((each for each in (node, *sharing) if each.state != "lost"), None)

"""What the log says about a job while somebody is attached: answers to grants, notices, and the exits of its tasks."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from bailiff.render.record_text.lines import lines
from bailiff_core.records import decisions, facts
from bailiff_core.records.subjects import jobs_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from bailiff.client.client import Client
    from bailiff_core.model.state import PoolState
    from bailiff_log.reader import Entry

NOTICES = (
    facts.JobCancelled,
    facts.JobPaused,
    facts.JobEvictionRequested,
    facts.JobMigrationRequested,
    decisions.PreemptionDecided,
    decisions.EvictionDecided,
    decisions.MigrationDecided,
    decisions.JobRequeued,
    decisions.JobEnded,
)
Answer = facts.AttachReady | facts.AttachEnded


class JobEvents:
    """Follows the log from a record on.

    Args:
        notice: Called with each line that concerns who is attached.
    """

    def __init__(self, client: Client, pool: str, job: str, from_seq: int, notice: Callable[[str], None]) -> None:
        self._client, self._pool, self._job, self._from_seq, self._notice = client, pool, job, from_seq, notice
        self._answers: dict[int, Answer] = {}
        self._exits: dict[tuple[int, int], int | None] = {}
        self._changed = asyncio.Condition()
        self.outcome = ""

    async def follow(self) -> None:
        """Without end; to be run beside the other methods."""
        async for _ in self._client.observe(self._pool, self._from_seq, self._look):
            async with self._changed:
                self._changed.notify_all()

    async def answer(self, grant: int, timeout_s: float) -> Answer | None:
        """Where the agent waits, or why it does not; None without an answer in time."""
        async with self._changed:
            try:
                await asyncio.wait_for(self._changed.wait_for(lambda: grant in self._answers), timeout_s)
            except TimeoutError:
                return None
        return self._answers[grant]

    async def exited(self, attempt: int, task: int, timeout_s: float) -> bool:
        """Whether the task has exited, or will within this time."""
        async with self._changed:
            try:
                await asyncio.wait_for(self._changed.wait_for(lambda: (attempt, task) in self._exits), timeout_s)
            except TimeoutError:
                return False
        return True

    async def ended(self) -> str:
        """Wait for the job's end; its outcome."""
        async with self._changed:
            await self._changed.wait_for(lambda: self.outcome)
        return self.outcome

    def exit_code(self, attempt: int, task: int) -> int | None:
        """The exit code of a task that has exited; None if nobody knows."""
        return self._exits.get((attempt, task))

    def _look(self, entry: Entry, state: PoolState) -> Iterable[None]:
        data = entry.record.data
        if self._job not in jobs_of(entry.record):
            return
        match data:
            case facts.AttachReady() | facts.AttachEnded():
                self._answers.setdefault(data.grant, data)
            case facts.TaskExited():
                self._exits[data.attempt, data.task] = data.exit_code
            case facts.TaskVanished():
                self._exits[data.attempt, data.task] = None
            case decisions.JobRequeued() | decisions.JobEnded() if (job := state.jobs.get(self._job)) is not None:
                for task in job.tasks:
                    self._exits.setdefault((job.attempt, task.index), task.exit_code)
        if isinstance(data, decisions.JobEnded):
            self.outcome = data.outcome
        if isinstance(data, NOTICES) or (isinstance(data, facts.EvictionStageReached) and data.stage in ("noticed", "term_sent")):
            for line in lines(entry.record, state):
                if "→" not in line.statement.subject or line.statement.subject.startswith((f"{self._job} ", f"{self._job}/")):
                    self._notice(str(line))
        yield None

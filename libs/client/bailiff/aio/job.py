"""A job: its state, events and output; requests about it; the reasons for what happened to it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from datetime import timedelta
from typing import TYPE_CHECKING, Unpack

from bailiff import fields
from bailiff.client.errors import InvalidRequest, JobRejected, Timeout
from bailiff.client.job_failure import job_failure
from bailiff.fields import Times
from bailiff.results import Accepted, Event, Explanation, JobStatus, LogLine
from bailiff_core.records import job_requests

from . import convert
from .access import Access, translated

if TYPE_CHECKING:
    from bailiff_core.model.state import PoolState
    from bailiff_core.records.request import RequestBody
    from bailiff_log.reader import Entry


def _micros(grace: fields.Duration | None) -> int | None:
    seconds = fields.seconds_of(grace, "grace")
    return None if seconds is None else round(seconds * 1_000_000)


class Job:
    """A job of a pool.

    Attributes:
        seq: The record of its submission.
    """

    def __init__(self, access: Access, pool: str, name: str, seq: int) -> None:
        self._access, self.pool, self.name, self.seq = access, pool, name, seq

    def __repr__(self) -> str:
        return f"<Job {self.name} of {self.pool}>"

    async def status(self) -> JobStatus:
        """Its state now.

        Raises:
            JobNotFound: It ended some time ago.
        """
        state, _ = await self._access.job_in(self.pool, self.name)
        return status_of(state, self.name, self._access.client.now())

    async def wait(self, timeout: float | str | timedelta | None = None, *, check: bool = True) -> JobStatus:
        """Waits until it has ended, and returns how.

        Args:
            timeout: Seconds, or as in "2h"; None: no timeout.
            check: Raise `JobFailed` unless it succeeded; so a script that forgets to look does not end with 0.

        Raises:
            Timeout: It has not ended in time; the job continues.
            JobFailed: With `check`, it has not succeeded; with the reason and the last lines of its output.
        """
        limit = fields.seconds_of(timeout, "timeout")
        now = self._access.client.now

        def ended(state: PoolState) -> JobStatus | None:
            found = status_of(state, self.name, now()) if self.name in state.jobs else None
            return found if found is not None and found.ended else None

        await self._access.job_in(self.pool, self.name)
        status = await self._access.until(self.pool, ended, limit)
        if status is None:
            raise Timeout(f"{self.name} has not ended within {timeout}", f"it continues; why: bailiff explain {self.name}")
        if check and not status.succeeded:
            _, job = await self._access.job_in(self.pool, self.name)
            with translated():
                raise await job_failure(self._access.client, self.pool, job, status.state)
        return status

    async def watch(self) -> AsyncGenerator[Event, None]:
        """What happens to it, from its submission to its end."""
        from bailiff.render.events import EventRow, events_of
        from bailiff_core.records.decisions import JobEnded

        def look(entry: Entry, state: PoolState) -> list[tuple[EventRow | None, bool]]:
            rows = [row for row in events_of(entry.record, state) if row["job"] == self.name]
            data = entry.record.data
            over = isinstance(data, JobEnded) and data.job == self.name
            return [*((row, False) for row in rows), *([(None, True)] if over else [])]

        with translated():
            async with aclosing(self._access.client.observe(self.pool, self.seq, look)) as found:
                async for row, over in found:
                    if over:
                        return
                    if row is not None:
                        yield convert.event(row)

    async def logs(
        self,
        *,
        follow: bool = False,
        task: int | None = None,
        attempt: int | None = None,
        since: Times = None,
        grep: str | None = None,
    ) -> AsyncGenerator[LogLine, None]:
        """The retained lines that its tasks wrote (one day).

        Args:
            follow: Continue with new lines until it has ended.
            task: Only this task's.
            attempt: Only this attempt's.
            since: A time, or how long ago, as in "10m".
            grep: Only lines in which this regular expression matches.
        """
        from bailiff.client.job_output import OutputFilter, lines, pattern_of

        async def is_over() -> bool:
            if not follow:
                return True
            state = await self._access.state(self.pool)
            return self.name not in state.jobs or self.name in state.ended

        wanted = OutputFilter(self.pool, self.name, task, attempt, fields.micros_of(since, "since"), pattern_of(grep))
        with translated():
            async with aclosing(lines(self._access.client, wanted, is_over)) as found:
                async for line in found:
                    yield convert.log_line(line)

    async def explain(self, *, instead: str | None = None, next: bool = False, all: bool = False) -> Explanation:  # noqa: A002 - the command's
        """Why it is pending or was preempted, by which job, and why it was chosen.

        Args:
            instead: Explain why this job was not chosen.
            next: Include which jobs would be preempted next.
            all: Include all candidates, in `data`.
        """
        from bailiff.explain.question import answer, log_of

        await self._access.state(self.pool)
        with translated():
            log = await log_of(self._access.client, self.pool)
            return convert.explanation(await answer(log, self.name, all_=all, instead=instead, next_=next))

    async def cancel(self, reason: str = "", *, grace: fields.Duration | None = None) -> Accepted:
        """Ends it, pending or running, with its grace period.

        Args:
            grace: At most so long until KILL, also where it is being evicted already; None: its own.
        """
        return await self._request(job_requests.CancelJob(job=self.name, reason=reason, grace=_micros(grace)))

    async def pause(self, reason: str = "") -> Accepted:
        """Suspends it until it is resumed; if it runs, it saves a checkpoint first."""
        return await self._request(job_requests.PauseJob(job=self.name, reason=reason))

    async def checkpoint(self, reason: str = "") -> Accepted:
        """Has its nodes save it while it runs; it goes on. What came of it is in its history."""
        return await self._request(job_requests.CheckpointJob(job=self.name, reason=reason))

    async def resume(self, reason: str = "") -> Accepted:
        """Returns it to the queue; it continues from its last checkpoint."""
        return await self._request(job_requests.ResumeJob(job=self.name, reason=reason))

    async def evict(self, reason: str = "", *, grace: fields.Duration | None = None) -> Accepted:
        """Evicts it with its grace period; it returns to the queue at its old position.

        Args:
            grace: At most so long until KILL, also where it is being evicted already; None: its own.
        """
        return await self._request(job_requests.EvictJob(job=self.name, reason=reason, grace=_micros(grace)))

    async def migrate(self, to: str | None = None, reason: str = "") -> Accepted:
        """Moves it: resources are reserved on the node `to`, or on any; then it saves a checkpoint and restarts there."""
        return await self._request(job_requests.MigrateJob(job=self.name, node=to, reason=reason))

    async def scale(self, tasks: int, *, min_tasks: int | None = None, group: int = 0) -> Accepted:
        """Changes its number of tasks.

        Args:
            tasks: The new number.
            min_tasks: How many must run together; None: unchanged.
            group: The task group, counted from 0.
        """
        return await self._request(job_requests.ScaleJob(job=self.name, group=group, tasks=tasks, min_tasks=min_tasks))

    async def set_priority_class(self, priority_class: str) -> Accepted:
        """Changes its priority class while it is pending."""
        return await self._request(job_requests.SetPriorityClass(job=self.name, priority_class=priority_class))

    async def resubmit(self, command: str | Sequence[str] | None = None, **changes: Unpack[fields.JobFields]) -> Job:
        """Submits it again with these changes, under the name JOB-r2 unless another is given.

        Command, environment, secrets and working directory are read from Kafka where you may.

        Raises:
            InvalidRequest: The command cannot be read, and none is given.
        """
        from bailiff.client.job_again import changed, job_again

        state, found = await self._access.job_in(self.pool, self.name)
        with translated():
            again = await job_again(self._access.client, state, found)
        if again.missing and command is None:
            raise InvalidRequest([f"command: that of {self.name} cannot be submitted again: {again.missing}"])
        document = changed(again, fields.document_of(changes | ({"command": command} if command is not None else {})))
        request = fields.request_of(document, {})
        accepted = await self._access.request(self.pool, request, JobRejected)
        return Job(self._access, self.pool, request.demand.job, accepted.seq)

    async def _request(self, body: RequestBody) -> Accepted:
        await self._access.job_in(self.pool, self.name)
        return await self._access.request(self.pool, body)


def status_of(state: PoolState, name: str, now: int) -> JobStatus:
    """The status of this job.

    Args:
        now: µs UTC.
    """
    from bailiff.render.serializers.job_details import task_row
    from bailiff.render.serializers.jobs import job_row

    job = state.jobs[name]
    waits = [each for each in state.queue if each not in state.active] if job.phase == "pending" else []
    row = job_row(state, job, now, waits.index(name) if name in waits else None)
    return convert.job_status(row, state.pool, [task_row(state, task) for task in job.tasks])

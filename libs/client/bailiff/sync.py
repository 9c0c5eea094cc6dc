"""The synchronous Python client: the asynchronous one of `bailiff.aio`, run by an event loop in a thread of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self, Unpack

from bailiff import aio, fields
from bailiff.aio.policy import PolicySource
from bailiff.fields import JobFields, Names, Times
from bailiff.loop_thread import LoopThread
from bailiff.pool_results import Accounting, Node, Policy, Pool, Project, Verification, WhatIf
from bailiff.results import Accepted, Event, Explanation, JobStatus, LogLine, Plan


def connect(
    address: str | None = None,
    *,
    file: str | Path | None = None,
    settings: Mapping[str, Any] | None = None,
    pool: str | None = None,
    project: str | None = None,
    actor: str | None = None,
    key: str | Path | None = None,
    answer_within: float | str | timedelta = 10.0,
) -> Connection:
    """A connection. Kafka is first contacted by the first call that needs it.

    Settings are those of the command: from BAILIFF_* variables and the file that BAILIFF_SETTINGS names. What is given here goes
    before them. address: of a Kafka broker, host:port. file: a settings file (TOML or YAML). settings: by name, as in
    {"api": "http://127.0.0.1:8620"}. pool, project: the default ones. actor: your name in the log. key: file with the private key
    that signs requests. answer_within: how long to wait for admission's answer to a request.
    """
    made = aio.connect(
        address, file=file, settings=settings, pool=pool, project=project, actor=actor, key=key, answer_within=answer_within
    )
    return Connection(made)


class Connection:
    """A connection to Bailiff, to be used as a context manager. policy, audit: of its pools.

    Any thread may use it. pool, in every method: default: that of the settings, else the only pool.
    """

    def __init__(self, connection: aio.Connection) -> None:
        self._async, self._thread = connection, LoopThread()
        self.policy = PolicyOfPool(connection.policy, self._thread)
        self.audit = Audit(connection.audit, self._thread)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connection. Jobs are not affected."""
        if self._thread.is_open:
            self._thread.run(self._async.close())
            self._thread.close()

    # --- jobs

    def submit(self, job: fields.Job | None = None, *, pool: str | None = None, **values: Unpack[JobFields]) -> Job:
        """Submits a job: a command (one line for the shell, or a list), a `JobFile`, or a mapping with its fields.

        Raises `InvalidRequest` before anything is sent; `JobRejected` with admission's code and reason; `NotPermitted`.
        """
        return Job(self._thread.run(self._async.submit(job, pool=pool, **values)), self._thread)

    def job(self, name: str, *, pool: str | None = None) -> Job:
        """The job of that name. Raises `JobNotFound`."""
        return Job(self._thread.run(self._async.job(name, pool=pool)), self._thread)

    def jobs(
        self,
        name: Names = None,
        *,
        state: Names = None,
        user: Names = None,
        project: str | None = None,
        priority_class: Names = None,
        node: Names = None,
        labels: Mapping[str, str] | None = None,
        since: Times = None,
        until: Times = None,
        ended: bool = False,
        sort: Names = None,
        pool: str | None = None,
    ) -> list[JobStatus]:
        """Jobs: active ones, then pending ones in queue order, paused ones, and with `ended` those that have ended.

        Each filter is one value or several. name: with * and ?. project: with its subprojects. since, until: submitted from, and
        before, a time or how long ago, as in "2d". sort: as in ["user", "-submitted"].
        """
        return self._thread.run(
            self._async.jobs(
                name, state=state, user=user, project=project, priority_class=priority_class, node=node, labels=labels,
                since=since, until=until, ended=ended, sort=sort, pool=pool,
            )
        )  # fmt: skip

    def events(
        self, *, job: str | None = None, since_seq: int = 0, follow: bool = False, pool: str | None = None
    ) -> Iterator[Event]:
        """Events of jobs and nodes from the record `since_seq` on. follow: also new ones, for ever."""
        return self._thread.iterate(self._async.events(job=job, since_seq=since_seq, follow=follow, pool=pool))

    # --- the pool

    def pools(self) -> list[Pool]:
        """All pools."""
        return self._thread.run(self._async.pools())

    def nodes(self, *, pool: str | None = None) -> list[Node]:
        """The nodes, with their GPUs and the jobs on them."""
        return self._thread.run(self._async.nodes(pool=pool))

    def projects(self, *, pool: str | None = None) -> list[Project]:
        """The projects with quota, usage and fair share, each after its parent."""
        return self._thread.run(self._async.projects(pool=pool))

    def accounting(
        self,
        by: Names = None,
        *,
        since: Times = None,
        until: Times = None,
        user: Names = None,
        project: Names = None,
        priority_class: Names = None,
        job: Names = None,
        pool: str | None = None,
    ) -> Accounting:
        """GPU-hours used, borrowed, lost to preemption and waited for, from the archive (BAILIFF_API). Default: seven days.

        by: a row for each of "user", "project", "class", "job", and one of "minute", "hour", "day", "month" (UTC). since, until:
        a time or how long ago, as in "30d". The filters: one value or several.
        """
        return self._thread.run(
            self._async.accounting(
                by, since=since, until=until, user=user, project=project, priority_class=priority_class, job=job, pool=pool
            )
        )

    # --- what would happen

    def plan(self, job: fields.Job | None = None, *, pool: str | None = None, **values: Unpack[JobFields]) -> Plan:
        """What would happen to this job if it were submitted now, and which jobs it would preempt. Nothing is sent."""
        return self._thread.run(self._async.plan(job, pool=pool, **values))

    def what_if(
        self, policy: PolicySource, *, since: str | None = None, until: str | None = None, pool: str | None = None
    ) -> WhatIf:
        """The recorded past of a pool under another policy, by simulation. Nothing is sent.

        since, until: the window in which it is in force: a record's number, a time as in 2026-01-31T12:00:00Z, or as in -2d.
        """
        return self._thread.run(self._async.what_if(policy, since=since, until=until, pool=pool))


class Job:
    """A job of a pool. seq: the record of its submission."""

    def __init__(self, job: aio.Job, thread: LoopThread) -> None:
        self._async, self._thread = job, thread
        self.pool, self.name, self.seq = job.pool, job.name, job.seq

    def __repr__(self) -> str:
        return repr(self._async)

    def status(self) -> JobStatus:
        """Its state now. Raises `JobNotFound` some time after its end."""
        return self._thread.run(self._async.status())

    def wait(self, timeout: float | str | timedelta | None = None, *, check: bool = False) -> JobStatus:
        """Waits until it has ended, and returns how. timeout: seconds, or as in "2h"; None waits for ever.

        Raises `Timeout`, which does not affect the job. check: raises `JobFailed` unless it succeeded.
        """
        return self._thread.run(self._async.wait(timeout, check=check))

    def watch(self) -> Iterator[Event]:
        """What happens to it, from its submission to its end."""
        return self._thread.iterate(self._async.watch())

    def logs(
        self,
        *,
        follow: bool = False,
        task: int | None = None,
        attempt: int | None = None,
        since: Times = None,
        grep: str | None = None,
    ) -> Iterator[LogLine]:
        """The retained lines that its tasks wrote (one day). follow: also new ones until it has ended.

        since: a time, or how long ago, as in "10m". grep: a regular expression that a line contains.
        """
        return self._thread.iterate(self._async.logs(follow=follow, task=task, attempt=attempt, since=since, grep=grep))

    def explain(self, *, instead: str | None = None, next: bool = False, all: bool = False) -> Explanation:  # noqa: A002 - the command's
        """Why it is pending or was preempted, by which job, and why it was chosen.

        instead: also why this job was not chosen; next: also which jobs would be preempted next; all: all candidates, in `data`.
        """
        return self._thread.run(self._async.explain(instead=instead, next=next, all=all))

    def cancel(self, reason: str = "") -> Accepted:
        """Ends it, pending or running, with its grace period."""
        return self._thread.run(self._async.cancel(reason))

    def pause(self, reason: str = "") -> Accepted:
        """Suspends it until it is resumed; if it runs, it saves a checkpoint first."""
        return self._thread.run(self._async.pause(reason))

    def resume(self, reason: str = "") -> Accepted:
        """Returns it to the queue; it continues from its last checkpoint."""
        return self._thread.run(self._async.resume(reason))

    def evict(self, reason: str = "") -> Accepted:
        """Evicts it with its grace period; it returns to the queue at its old position."""
        return self._thread.run(self._async.evict(reason))

    def migrate(self, to: str | None = None, reason: str = "") -> Accepted:
        """Moves it: resources are reserved on the node `to`, or on any; then it saves a checkpoint and restarts there."""
        return self._thread.run(self._async.migrate(to, reason))

    def scale(self, tasks: int, *, min_tasks: int | None = None, group: int = 0) -> Accepted:
        """Changes its number of tasks, and with min_tasks how many must run together. group: the kind of task, from 0."""
        return self._thread.run(self._async.scale(tasks, min_tasks=min_tasks, group=group))

    def set_priority_class(self, priority_class: str) -> Accepted:
        """Changes its priority class while it is pending."""
        return self._thread.run(self._async.set_priority_class(priority_class))

    def resubmit(self, command: str | Sequence[str] | None = None, **changes: Unpack[fields.JobFields]) -> Job:
        """Submits it again with these changes, under the name JOB-r2 unless another is given.

        Command, environment, secrets and working directory are read from Kafka where you may. Raises `InvalidRequest` if the
        command cannot be read and none is given.
        """
        return Job(self._thread.run(self._async.resubmit(command, **changes)), self._thread)


class Audit:
    """Audit logs: their verification."""

    def __init__(self, audit: aio.Audit, thread: LoopThread) -> None:
        self._async, self._thread = audit, thread

    def verify(self, *, pool: str | None = None, file: str | Path | None = None, trust: Sequence[str] = ()) -> Verification:
        """Verifies hash chain, signatures and seals of a pool's log, or of an exported file or folder of segments.

        trust: the log's first sealing key, from a source that you trust; without it, the keys that the seals name are trusted.
        """
        return self._thread.run(self._async.verify(pool=pool, file=file, trust=trust))


class PolicyOfPool:
    """The policy of a pool."""

    def __init__(self, policy: aio.PolicyOfPool, thread: LoopThread) -> None:
        self._async, self._thread = policy, thread

    def get(self, *, pool: str | None = None) -> Policy:
        """The policy in force."""
        return self._thread.run(self._async.get(pool=pool))

    def diff(self, policy: PolicySource, *, pool: str | None = None) -> list[str]:
        """What this policy would change, one sentence per field. Raises `InvalidRequest` for an invalid one."""
        return self._thread.run(self._async.diff(policy, pool=pool))

    def apply(self, policy: PolicySource, *, pool: str | None = None, enforce: bool = False) -> Accepted:
        """Applies a policy. enforce: evicts jobs that it does not admit.

        A `Policy` from `get` is rejected if another one is in force by now, so that no change is overwritten.
        """
        return self._thread.run(self._async.apply(policy, pool=pool, enforce=enforce))

"""A connection to Bailiff: submit jobs, find them, look at nodes and projects, ask what would happen."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from bailiff import fields
from bailiff.client.errors import JobRejected
from bailiff.fields import JobFields, Names, Times
from bailiff.pool_results import Accounting, Node, Pool, Project, WhatIf
from bailiff.results import Event, JobStatus, Plan

from . import convert
from .access import Access, translated
from .audit import Audit
from .budgets import Budgets
from .job import Job
from .policy import PolicyOfPool, PolicySource, document_of

if TYPE_CHECKING:
    from bailiff.client.settings import ClientSettings
    from bailiff.render.events import EventRow
    from bailiff_bus.port import Bus
    from bailiff_core.model.state import PoolState
    from bailiff_log.reader import Entry


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
    before them.

    Args:
        address: Of a Kafka broker, as host:port.
        file: A settings file (TOML or YAML).
        settings: Settings by name, as in {"api": "http://127.0.0.1:8620"}.
        pool: The pool of methods that name none. Default: that of the settings, else the only pool.
        project: The project of jobs that name none.
        actor: Your name in the log.
        key: File with the private key that signs requests.
        answer_within: Timeout for admission's answer to a request: seconds, or as in "30s".
    """
    return Connection(_settings(address, file, settings, pool=pool, project=project, actor=actor, key=key), answer_within)


def _settings(address: str | None, file: str | Path | None, settings: Mapping[str, Any] | None, **given: Any) -> ClientSettings:
    from bailiff.client.settings import ClientSettings
    from bailiff_service.settings import load_settings, settings_file

    with translated():
        values = {**(settings_file(Path(file)) if file is not None else {}), **(settings or {})}
        values |= {name: value for name, value in given.items() if value is not None}
        if address is not None:
            values["kafka"] = {**values.get("kafka", {}), "bootstrap": address}
        return load_settings(ClientSettings, **values)


class Connection:
    """A connection to Bailiff, to be used as an async context manager.

    pool, in every method: default: that of the settings, else the only pool.

    Attributes:
        policy: The policies of its pools.
        budgets: The budgets of its pools.
        audit: The audit logs of its pools.
    """

    def __init__(self, settings: ClientSettings, answer_within: float | str | timedelta = 10.0, bus: Bus | None = None) -> None:
        from bailiff.client.client import Client

        within = fields.seconds_of(answer_within, "answer_within")
        self._settings = settings
        self._access = Access(Client.connect(settings, bus), settings, within if within is not None else 10.0)
        self.policy, self.budgets, self.audit = PolicyOfPool(self._access), Budgets(self._access), Audit(self._access)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connection. Jobs are not affected."""
        await self._access.client.__aexit__()

    # --- jobs

    async def submit(self, job: fields.Job | None = None, *, pool: str | None = None, **values: Unpack[JobFields]) -> Job:
        """Submits a job, and waits until admission has accepted it.

        Args:
            job: A command (one line for the shell, or a list), a `JobFile`, or a mapping with the job's fields.
            pool: The pool.
            **values: Fields of the job; they override those of `job`.

        Raises:
            InvalidRequest: A field is invalid; nothing was sent.
            JobRejected: Admission rejected it, with a code and a reason.
            NotPermitted: You may not submit it.
        """
        waiting = None if fields.leaves_open("after", job, values) else await self._access.requester(pool)
        request = fields.request_of(job, values, self._settings.project, waiting)
        name = await self._access.pool(pool)
        if request.spec.image is not None and fields.leaves_open("runtime", job, values):
            from bailiff.client.image_runtime import with_runtime

            [request] = with_runtime([request], await self._access.state(name))
        accepted = await self._access.request(name, request, JobRejected)
        return Job(self._access, name, request.demand.job, accepted.seq)

    async def job(self, name: str, *, pool: str | None = None) -> Job:
        """The job of that name.

        Raises:
            JobNotFound: There is none, or it ended long ago.
        """
        where = await self._access.pool(pool)
        _, found = await self._access.job_in(where, name)
        return Job(self._access, where, name, found.seq)

    async def jobs(
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
        limit: int | None = None,
        pool: str | None = None,
    ) -> list[JobStatus]:
        """Jobs: active ones, then pending ones in queue order, paused ones, and with `ended` those that have ended.

        Each filter is one value or several.

        Args:
            name: Names, which may contain `*` and `?`.
            project: The project, with its subprojects.
            since: Submitted from this time on; a time or how long ago, as in "2d".
            until: Submitted before this time.
            ended: Also jobs that have ended.
            sort: Columns, descending with a minus: ["user", "-submitted"].
            limit: How many at most. Default: all.
        """
        from bailiff.client.job_filter import JobFilter, page
        from bailiff.render.serializers.job_details import task_row

        wanted = JobFilter(
            states=fields.several(state),
            users=fields.several(user),
            project=project,
            classes=fields.several(priority_class),
            nodes=fields.several(node),
            labels=labels,
            names=fields.several(name),
            since=fields.micros_of(since, "since"),
            until=fields.micros_of(until, "until"),
            ended=ended,
        )
        found, now = await self._access.state(pool), self._access.client.now()
        rows = page(found, now, wanted, fields.several(sort), limit=limit).rows
        return [
            convert.job_status(row, found.pool, [task_row(found, task) for task in found.jobs[row["job"]].tasks]) for row in rows
        ]

    async def events(
        self, *, job: str | None = None, since_seq: int = 0, follow: bool = False, pool: str | None = None
    ) -> AsyncGenerator[Event, None]:
        """Events of jobs and nodes from the record `since_seq` on.

        Args:
            job: Only events of this job.
            since_seq: Number of the first record.
            follow: Continue with new events, for ever.
        """
        from bailiff.render.events import events_of

        def look(entry: Entry, state: PoolState) -> list[EventRow]:
            return [row for row in events_of(entry.record, state) if job is None or row["job"] == job]

        name = await self._access.pool(pool)
        with translated():
            async with aclosing(self._access.client.observe(name, since_seq, look, on=follow)) as rows:
                async for row in rows:
                    yield convert.event(row)

    # --- the pool

    async def pools(self) -> list[Pool]:
        """All pools."""
        from bailiff.render.serializers.pools import pool_row

        with translated():
            names = list(await self._access.client.pools())
        return [convert.pool(pool_row(await self._access.state(name), self._access.client.now())) for name in names]

    async def nodes(self, *, pool: str | None = None) -> list[Node]:
        """The nodes, with their GPUs and the jobs on them."""
        from bailiff.render.serializers.nodes import node_rows

        return [convert.node(row) for row in node_rows(await self._access.state(pool))]

    async def projects(self, *, pool: str | None = None) -> list[Project]:
        """The projects with quota, usage and fair share, each after its parent."""
        from bailiff.render.serializers.projects import rows

        return [convert.project(row) for row in rows(await self._access.state(pool))]

    async def accounting(
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

        Args:
            by: A row for each of "user", "project", "class", "job", "model", "preemptor", "preemptor-project", and one of
                "minute", "hour", "day", "month" (UTC).
            since: Start; a time or how long ago, as in "30d".
            until: End, likewise.
            user: Only these; as all filters, one value or several.
        """
        from bailiff.client.accounting import Wanted
        from bailiff.client.accounting import accounting as ask

        wanted = Wanted(
            fields.several(by),
            fields.micros_of(since, "since"),
            fields.micros_of(until, "until"),
            fields.several(user),
            fields.several(project),
            fields.several(priority_class),
            fields.several(job),
        )
        with translated():
            return convert.accounting(await ask(self._settings, pool, wanted))

    # --- what would happen

    async def plan(self, job: fields.Job | None = None, *, pool: str | None = None, **values: Unpack[JobFields]) -> Plan:
        """What would happen to this job if it were submitted now, and which jobs it would preempt. Nothing is sent."""
        from bailiff.client.live_plan import predict
        from bailiff.client.requester import requester_of

        state = await self._access.state(pool)
        sender = requester_of(self._access.client, state)
        waiting = None if fields.leaves_open("after", job, values) else (state, sender.actor)
        request = fields.request_of("true" if job is None else job, values, self._settings.project, waiting)
        data, sentences = predict(state, request.demand, self._access.client.now(), sender)
        return convert.plan(data, sentences)

    async def what_if(
        self, policy: PolicySource, *, since: str | None = None, until: str | None = None, pool: str | None = None
    ) -> WhatIf:
        """The recorded past of a pool under another policy, by simulation. Nothing is sent.

        Args:
            policy: The other policy.
            since: From when it is in force: a record's number, a time as in 2026-01-31T12:00:00Z, or how long ago, as in -2d.
            until: Until when, likewise.
        """
        from bailiff.audit.log_positions import wall_clock
        from bailiff.audit.log_sources import from_kafka
        from bailiff.simulation.what_if import other_past, whole_log

        rules, name = document_of(policy), await self._access.pool(pool)
        with translated():
            log = await whole_log(await from_kafka(self._access.client, name))
            _, found = await asyncio.to_thread(other_past, name, log, rules, since, until, _no_progress, wall_clock())
        return convert.what_if(name, found)


def _no_progress(label: str, done: int, of: int) -> None:
    """Progress is not reported."""

"""The synchronous Python client: the asynchronous one of `bailiff.aio`, run by an event loop in a thread of its own.

Each method is that of the asynchronous class, with its parameters, types and documentation, and without `await`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from bailiff import aio
from bailiff.loop_thread import LoopThread

P = ParamSpec("P")
T = TypeVar("T")
Async = Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]
Method = Callable[Concatenate[Any, P], T]


class _Synchronous:
    """An object of the asynchronous client, and the thread that runs it."""

    def __init__(self, wrapped: Any, thread: LoopThread) -> None:
        self._async, self._thread = wrapped, thread


def _blocking(method: Async[P, T]) -> Method[P, T]:
    @wraps(method)
    def call(self: _Synchronous, /, *args: P.args, **values: P.kwargs) -> T:
        return self._thread.run(method(self._async, *args, **values))

    return call


def _iterating(method: Method[P, AsyncGenerator[T, None]]) -> Method[P, Iterator[T]]:
    @wraps(method)
    def call(self: _Synchronous, /, *args: P.args, **values: P.kwargs) -> Iterator[T]:
        return self._thread.iterate(method(self._async, *args, **values))

    return call


def _returning_job(method: Async[P, aio.Job]) -> Method[P, Job]:
    @wraps(method)
    def call(self: _Synchronous, /, *args: P.args, **values: P.kwargs) -> Job:
        return Job(self._thread.run(method(self._async, *args, **values)), self._thread)

    return call


class Job(_Synchronous):
    """A job of a pool.

    Attributes:
        seq: The record of its submission.
    """

    def __init__(self, job: aio.Job, thread: LoopThread) -> None:
        super().__init__(job, thread)
        self.pool, self.name, self.seq = job.pool, job.name, job.seq

    def __repr__(self) -> str:
        return repr(self._async)

    status = _blocking(aio.Job.status)
    wait = _blocking(aio.Job.wait)
    watch = _iterating(aio.Job.watch)
    logs = _iterating(aio.Job.logs)
    explain = _blocking(aio.Job.explain)
    cancel = _blocking(aio.Job.cancel)
    pause = _blocking(aio.Job.pause)
    checkpoint = _blocking(aio.Job.checkpoint)
    resume = _blocking(aio.Job.resume)
    evict = _blocking(aio.Job.evict)
    migrate = _blocking(aio.Job.migrate)
    scale = _blocking(aio.Job.scale)
    set_priority_class = _blocking(aio.Job.set_priority_class)
    resubmit = _returning_job(aio.Job.resubmit)


class Audit(_Synchronous):
    """Audit logs: their verification."""

    verify = _blocking(aio.Audit.verify)


class Budgets(_Synchronous):
    """The budgets of a pool in this month."""

    list = _blocking(aio.Budgets.list)
    top_up = _blocking(aio.Budgets.top_up)
    transfer = _blocking(aio.Budgets.transfer)


class PolicyOfPool(_Synchronous):
    """The policy of a pool."""

    get = _blocking(aio.PolicyOfPool.get)
    diff = _blocking(aio.PolicyOfPool.diff)
    apply = _blocking(aio.PolicyOfPool.apply)
    revoke_key = _blocking(aio.PolicyOfPool.revoke_key)


class Connection(_Synchronous):
    """A connection to Bailiff, to be used as a context manager. Any thread may use it.

    pool, in every method: default: that of the settings, else the only pool.

    Attributes:
        policy: The policies of its pools.
        budgets: The budgets of its pools.
        audit: The audit logs of its pools.
    """

    def __init__(self, connection: aio.Connection) -> None:
        super().__init__(connection, LoopThread())
        self.policy = PolicyOfPool(connection.policy, self._thread)
        self.budgets = Budgets(connection.budgets, self._thread)
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

    submit = _returning_job(aio.Connection.submit)
    job = _returning_job(aio.Connection.job)
    jobs = _blocking(aio.Connection.jobs)
    events = _iterating(aio.Connection.events)
    pools = _blocking(aio.Connection.pools)
    nodes = _blocking(aio.Connection.nodes)
    projects = _blocking(aio.Connection.projects)
    accounting = _blocking(aio.Connection.accounting)
    plan = _blocking(aio.Connection.plan)
    what_if = _blocking(aio.Connection.what_if)


def _connecting(method: Callable[P, aio.Connection]) -> Callable[P, Connection]:
    @wraps(method)
    def call(*args: P.args, **values: P.kwargs) -> Connection:
        return Connection(method(*args, **values))

    return call


connect = _connecting(aio.connect)

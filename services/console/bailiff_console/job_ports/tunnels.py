"""Connections to ports of tasks, through their node agents: one grant for each person and port, requested when it is needed."""

import asyncio
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

from bailiff_console.actions.request_service import RequestService
from bailiff_console.attach_grants import NotThere, granted
from bailiff_core.model.state import PoolState
from bailiff_core.records.facts import AttachReady
from bailiff_core.records.job_requests import AttachJob
from bailiff_service.problems import ApiError
from bailiff_service.rate_limits import RateLimit
from bailiff_service.tunnel_tls import PortClosed, TunnelIdentity, connect_port

from .targets import Target
from .visitors import Visitor

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(frozen=True, slots=True)
class Tunnel:
    """A grant, and the agent that waits for the holder of its private key."""

    identity: TunnelIdentity
    ready: AttachReady


@dataclass(slots=True)
class Tunnels:
    """grants: rate limit by user."""

    request_service: RequestService
    grants: RateLimit
    _tunnels: dict[tuple[str, Target], Tunnel] = field(default_factory=dict)
    _locks: WeakValueDictionary[tuple[str, Target], asyncio.Lock] = field(default_factory=WeakValueDictionary)

    def check(self, visitor: Visitor) -> PoolState:
        """The pool's state. Raises `ApiError` if the visitor may not attach, `NotThere` if the task does not run."""
        target = visitor.target
        state = self.request_service.allow_job(target.pool, visitor.principal, "attach", target.job)
        job = state.jobs.get(target.job)
        if job is None or job.seq != target.seq:
            raise ApiError(404, f"The job {target.job} has ended.")
        task = job.task(target.task)
        if job.ended_at is not None:
            raise ApiError(410, f"The job {target.job} has ended.")
        if task is None or task.state != "running" or task.eviction is not None:
            phase = "being evicted" if job.eviction is not None else job.phase if job.phase != "running" else "not running"
            raise NotThere(f"{target.job} is {phase}. This page continues when it runs.")
        return state

    async def connect(self, visitor: Visitor) -> Streams:
        """A connection to the port. Raises `ApiError` or `NotThere`."""
        key = visitor.principal.name, visitor.target
        lock = self._locks.setdefault(key, asyncio.Lock())
        for _ in range(2):  # the agent may have been restarted, or have ended the grant, since it was last used
            state = self.check(visitor)
            async with lock:
                tunnel = self._tunnels.get(key)
                if tunnel is None or tunnel.ready.grant not in state.attachments:
                    tunnel = self._tunnels[key] = await self._granted(visitor)
            try:
                return await connect_port(tunnel.ready.address, tunnel.identity, tunnel.ready.fingerprint)
            except PortClosed:
                text = f"{visitor.target.job} does not listen on 127.0.0.1:{visitor.target.port} yet."
                raise NotThere(text) from None
            except (OSError, TimeoutError):
                self._forget(key, tunnel)
        raise NotThere(f"The node agent of {visitor.target.job} cannot be reached from the console.")

    def _forget(self, key: tuple[str, Target], tunnel: Tunnel) -> None:
        if self._tunnels.get(key) is tunnel:
            del self._tunnels[key]

    async def _granted(self, visitor: Visitor) -> Tunnel:
        target, identity = visitor.target, TunnelIdentity.new()
        self.grants.hit(visitor.principal.name)
        body = AttachJob(job=target.job, task=target.task, port=target.port, client_certificate=identity.certificate)
        answer = await granted(self.request_service, target.pool, visitor.principal, body)
        self._tidy(target.pool)
        return Tunnel(identity, answer)

    def _tidy(self, pool: str) -> None:
        """Drop the grants that have ended."""
        live = self.request_service.followed(pool).state.attachments
        for key, tunnel in [*self._tunnels.items()]:
            if key[1].pool == pool and tunnel.ready.grant not in live:
                del self._tunnels[key]

"""Connections to ports of tasks, through their node agents: one grant for each person and port, requested when it is needed."""

import asyncio
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

from bailiff.render.record_text.tasks import ATTACH_ENDS
from bailiff_bus.messages import AttachJob
from bailiff_console.actions.request_parser import ParsedRequest
from bailiff_console.actions.request_service import RequestService
from bailiff_core.model.state import PoolState
from bailiff_core.records.facts import AttachReady
from bailiff_service.problems import ApiError
from bailiff_service.rate_limits import RateLimit
from bailiff_service.tunnel_tls import PortClosed, TunnelIdentity, connect_port

from .targets import Target
from .visitors import Visitor

AGENT_ANSWERS_WITHIN_S = 10.0
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class NotThere(Exception):
    """The port cannot be reached now, but may be later."""


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
        outcome = await self.request_service.request(target.pool, visitor.principal, ParsedRequest("attach", body))
        if outcome["accepted"] is None:
            raise NotThere("Admission does not answer.")
        if not outcome["accepted"]:
            if outcome["code"] == "not-running":
                raise NotThere(f"{outcome['reason']}.")
            raise ApiError(403, outcome["reason"])
        answer = await self.request_service.grant_answers.answer(target.pool, outcome["seq"], AGENT_ANSWERS_WITHIN_S)
        if not isinstance(answer, AttachReady):
            why = ATTACH_ENDS[answer.reason] if answer is not None else "it does not answer"
            raise NotThere(f"The node agent of {target.job} does not open the port: {why}.")
        self._tidy(target.pool)
        return Tunnel(identity, answer)

    def _tidy(self, pool: str) -> None:
        """Drop the grants that have ended."""
        live = self.request_service.followed(pool).state.attachments
        for key, tunnel in [*self._tunnels.items()]:
            if key[1].pool == pool and tunnel.ready.grant not in live:
                del self._tunnels[key]

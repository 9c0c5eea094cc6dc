"""One attachment from its first request to its end: again and again where the agent is restarted meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bailiff.client.errors import ClientError, Rejected
from bailiff_service.tunnel_tls import connect_tunnel

from .grants import request_grant, unreachable
from .job_events import JobEvents

if TYPE_CHECKING:
    from bailiff.client.client import Client

    from .local_terminal import LocalTerminal

ENDED = ("not-running", "already-ended", "no-such-job")  # codes of rejections once the task has ended
EXIT_FOLLOWS_WITHIN_S, TRY_AGAIN_FOR_S, LAST_EXIT_WITHIN_S = 3.0, 300.0, 30.0


@dataclass(frozen=True, slots=True)
class Ended:
    """How an attachment ended.

    Attributes:
        exit_code: The task's; None if it still runs, or if its exit code is unknown.
        detached: Whether the person detached.
    """

    detached: bool
    exit_code: int | None = None


@dataclass(slots=True)
class AttachSession:
    """Connects one client with one task.

    Attributes:
        attempt: The job's attempt at the beginning.
        to_shell: To a shell beside the task, which ends with the connection.
    """

    client: Client
    pool: str
    job: str
    task: int
    attempt: int
    events: JobEvents
    terminal: LocalTerminal
    to_shell: bool = False

    async def run(self) -> Ended:
        """Until the person detaches, or the task has ended."""
        loop = asyncio.get_running_loop()
        reader, writer = await self._connect()
        while True:
            try:
                with self.terminal.raw():
                    detached = await self.terminal.run(reader, writer)
            finally:
                writer.close()
            if detached or self.to_shell:
                return Ended(detached=True)
            if await self.events.exited(self.attempt, self.task, EXIT_FOLLOWS_WITHIN_S):
                return self._exited()
            self.terminal.notice("the connection was lost; attaching again, Ctrl-C ends")
            again = await self._connect_again(loop.time() + TRY_AGAIN_FOR_S)
            if again is None:
                return self._exited()
            reader, writer = again

    async def _connect_again(self, until: float) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        """None: the task has exited meanwhile."""
        pause = 0.5
        while True:
            try:
                return await self._connect()
            except (ClientError, OSError) as error:
                ended = isinstance(error, Rejected) and error.code in ENDED
                if await self.events.exited(self.attempt, self.task, LAST_EXIT_WITHIN_S if ended else pause):
                    return None
                if ended or asyncio.get_running_loop().time() > until:
                    raise
                pause = min(2 * pause, 8.0)

    def _exited(self) -> Ended:
        return Ended(detached=False, exit_code=self.events.exit_code(self.attempt, self.task))

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Raises `ClientError` or `OSError`."""
        grant = await request_grant(self.client, self.events, self.pool, self.job, self.task, to_shell=self.to_shell)
        try:
            return await connect_tunnel(grant.address, grant.identity, grant.fingerprint)
        except (OSError, TimeoutError) as error:
            raise unreachable(grant, error) from None


async def attach_to(
    client: Client,
    pool: str,
    job: str,
    task: int,
    attempt: int,
    from_seq: int,
    terminal: LocalTerminal,
    *,
    to_shell: bool = False,
) -> Ended:
    """Attaches to this task of this attempt.

    Args:
        from_seq: The newest record that the caller has read.
    """
    events = JobEvents(client, pool, job, from_seq, terminal.notice)
    following = asyncio.create_task(events.follow())
    session = asyncio.create_task(AttachSession(client, pool, job, task, attempt, events, terminal, to_shell).run())
    try:
        done, _ = await asyncio.wait((following, session), return_when=asyncio.FIRST_COMPLETED)
        if session not in done:
            following.result()  # raises: the log cannot be read any more
        return await session
    finally:
        for each in (following, session):
            each.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(following, session, return_exceptions=True)

"""Executes one pool's evictions: sends pending messages, again until the log shows their effect."""

from typing import NoReturn

from bailiff_bus import topics
from bailiff_bus.messages.commands import CommandBody
from bailiff_bus.messages.progress import AbandonPreemption, StartEviction
from bailiff_bus.port import Producer
from bailiff_core.model.evictions import evictions_of
from bailiff_log.credentials import Credentials
from bailiff_log.message_signatures import wrap_signed
from bailiff_log.order_evidence import subject_of
from bailiff_log.projection import Projection
from bailiff_service import pool_metrics, tracing
from bailiff_service.clock_and_ids import ClockAndIds
from bailiff_service.logs import logger
from bailiff_service.metrics import Metrics
from bailiff_service.pool_ownership import IDLE_WAIT_S
from bailiff_service.signing import require_certificate

from .pending_messages import pending_checkpoint_steps, pending_commands, pending_progress, pending_saves, pending_snapshot_steps

RESEND_AFTER = 2_000_000
MAX_WAIT = 0.5


class Executor:
    """Keeps only the send times of pending messages, to limit repeats. credentials: as in `wrap_signed`."""

    def __init__(
        self, projection: Projection, clock_and_ids: ClockAndIds, metrics: Metrics, credentials: Credentials | None = None
    ) -> None:
        self._credentials = credentials
        self._projection, self._clock_and_ids, self._metrics = projection, clock_and_ids, metrics
        self._sent: dict[str, int] = {}
        self._log = logger(pool=projection.pool)

    async def run(self) -> NoReturn:
        """Follow the log and send pending messages."""
        producer = await self._projection.bus.producer()
        pool, projection, wait = self._projection.pool, self._projection, MAX_WAIT
        try:
            with self._metrics.pools.export(pool, lambda: pool_metrics.evictions(projection.state)):
                while True:
                    await projection.advance(wait)
                    require_certificate(projection.state, self._credentials, "eviction-executor", self._clock_and_ids.wall())
                    if not projection.state.cycle_open:
                        await self._send_pending(producer)
                        wait = MAX_WAIT if self._sent else IDLE_WAIT_S
        finally:
            await producer.close(1.0)

    async def _send_pending(self, producer: Producer) -> None:
        state, pool = self._projection.state, self._projection.pool
        pending: list[StartEviction | AbandonPreemption | CommandBody]
        pending = [*pending_progress(state), *pending_commands(state)]
        pending += [*pending_checkpoint_steps(state), *pending_snapshot_steps(state), *pending_saves(state)]
        boot, still, sent = self._clock_and_ids.boot(), {}, []
        for body in pending:
            key = body.model_dump_json()
            last = self._sent.get(key)
            if last is not None and boot - last < RESEND_AFTER:
                still[key] = last
                continue
            still[key] = boot
            if isinstance(body, CommandBody):
                topic, message_key = topics.NODE_COMMANDS.name, body.node
                self._metrics.commands_sent.labels(pool, type(body).__name__).inc()
            else:
                topic, message_key = topics.EVICTION_PROGRESS.name, pool
            headers, value = wrap_signed(
                self._credentials,
                body,
                source=f"/bailiff/{pool}/eviction-executor",
                id=self._clock_and_ids.random_bytes().hex(),
                pool=pool,
                time_us=self._clock_and_ids.wall(),
                subject=subject_of(body, pool) if isinstance(body, CommandBody) else "",
                traceparent=self._traceparent(getattr(body, "job", "")),
            )
            sent.append(await producer.send(topic, value, key=message_key.encode(), headers=headers))
            self._log.info("sent", type=type(body).__name__, again=last is not None, seq=state.seq)
        for acknowledgement in sent:
            await acknowledgement
        self._sent = still

    def _traceparent(self, victim: str) -> str:
        """`traceparent` of the victim's eviction, in the trace of its preemptor."""
        job = self._projection.state.jobs.get(victim)
        if tracing.endpoint() is None or job is None:
            return ""
        for leaving in evictions_of(job):
            return tracing.header(self._projection.pool, leaving.eviction.for_job, "evict", victim, leaving.eviction.decided_seq)
        return ""

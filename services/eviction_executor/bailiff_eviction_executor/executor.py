"""One domain's evictions: whatever is owed is sent, and sent again until the log shows its effect."""

from typing import NoReturn

from bailiff_bus import gauges, topics, tracing
from bailiff_bus.ambient import Ambient
from bailiff_bus.envelope import wrap
from bailiff_bus.logs import logger
from bailiff_bus.messages import BegunEviction, Evict, GivenUpPlan, SaveTogether, Spare
from bailiff_bus.metrics import Metrics
from bailiff_bus.port import Producer
from bailiff_bus.view import DomainView
from bailiff_core.lifecycle.evictions import evictions_of

from .owed import commands_owed, progress_owed, steps_owed

AGAIN_AFTER = 2_000_000
LONGEST_WAIT = 0.5


class Executor:
    """Remembers only what it sent when, so that it does not repeat itself at every record."""

    def __init__(self, view: DomainView, ambient: Ambient, metrics: Metrics) -> None:
        self._view, self._ambient, self._metrics = view, ambient, metrics
        self._sent: dict[str, int] = {}
        self._log = logger(domain=view.domain)

    async def run(self) -> NoReturn:
        """Follow the log and pay what is owed."""
        producer = await self._view.bus.producer()
        domain, view = self._view.domain, self._view
        try:
            with self._metrics.pools.showing(domain, lambda: gauges.evictions(view.pool)):
                while True:
                    await view.advance(LONGEST_WAIT)
                    if not view.pool.turn_open:
                        await self._pay(producer)
        finally:
            await producer.close(1.0)

    async def _pay(self, producer: Producer) -> None:
        pool, domain = self._view.pool, self._view.domain
        owed: list[BegunEviction | GivenUpPlan | Evict | SaveTogether | Spare]
        owed = [*progress_owed(pool), *commands_owed(pool), *steps_owed(pool)]
        boot, still, sent = self._ambient.boot(), {}, []
        for body in owed:
            key = body.model_dump_json()
            last = self._sent.get(key)
            if last is not None and boot - last < AGAIN_AFTER:
                still[key] = last
                continue
            still[key] = boot
            if isinstance(body, Evict | SaveTogether | Spare):
                topic, message_key = topics.NODE_COMMANDS.name, body.node
                self._metrics.commands_sent.labels(domain, type(body).__name__).inc()
            else:
                topic, message_key = topics.EVICTION_PROGRESS.name, domain
            headers, value = wrap(
                body,
                source=f"/bailiff/{domain}/eviction-executor",
                id=self._ambient.fresh().hex(),
                domain=domain,
                time_us=self._ambient.wall(),
                traceparent=self._traceparent(getattr(body, "job", "")),
            )
            sent.append(await producer.send(topic, value, key=message_key.encode(), headers=headers))
            self._log.info("sent", type=type(body).__name__, again=last is not None, seq=pool.seq)
        for acknowledgement in sent:
            await acknowledgement
        self._sent = still

    def _traceparent(self, victim: str) -> str:
        """Of the eviction that a message is about: it belongs to the trace of whoever the victim leaves for."""
        job = self._view.pool.jobs.get(victim)
        if tracing.endpoint() is None or job is None:
            return ""
        for leaving in evictions_of(job):
            return tracing.header(self._view.domain, leaving.eviction.for_job, "evict", victim, leaving.eviction.decided_seq)
        return ""

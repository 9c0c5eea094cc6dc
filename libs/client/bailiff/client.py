"""The client: publish requests, wait for the audit record that answers, fold a pool's log, follow it.

It knows pools from the log itself: each partition of `bailiff.audit` begins with the record that created its domain.
What a client believes comes from records that continue the chain, as everywhere.
"""

import asyncio
import time
import uuid
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from bailiff_bus import topics, tracing
from bailiff_bus.envelope import wrap
from bailiff_bus.identity import sign
from bailiff_bus.log import AuditReader, Entry
from bailiff_bus.messages import CancelJob, JobSpec, RequestBody, SubmitJob
from bailiff_bus.metrics import Metrics
from bailiff_bus.port import Bus, Headers, Message, OffsetGone, Reader, Span
from bailiff_bus.settings import load_settings, secret_of
from bailiff_bus.topics import message_size
from bailiff_bus.view import DomainView
from bailiff_core.fold import apply
from bailiff_core.fold.log import request_key
from bailiff_core.model.demand import JobDemand
from bailiff_core.model.pool import Pool
from bailiff_core.records import Break, ChainHead, Wire, continues, decode
from bailiff_core.records.facts import DomainCreated, InputRejected, RequestId
from bailiff_core.records.wire import UnreadableRecord

from .problem import ExitCode, Problem
from .settings import ClientSettings, read_key

WAIT = 0.5


def bus_of(settings: ClientSettings) -> Bus:
    """Kafka, or where it is set the query interface for the logs and Kafka for all else."""
    from bailiff_bus.kafka import KafkaBus  # here, so that what needs no Kafka loads no Kafka client

    kafka = KafkaBus(settings.kafka)
    if not settings.api:
        return kafka
    from .apibus import ApiBus

    return ApiBus(settings.api, secret_of(settings.api_token), kafka, settings.kafka.request_timeout)


@dataclass(frozen=True, slots=True)
class Domain:
    """A pool as its log declares it. identity: the hash of the log's first record."""

    name: str
    partition: int
    identity: str


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that Kafka has acknowledged: under (source, id) it is remembered."""

    domain: str
    source: str
    id: str
    job: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What admission answered: the record `seq`; where it was rejected, a code for programs and a reason for people."""

    accepted: bool
    seq: int
    code: str = ""
    reason: str = ""


class Client:
    """One connection. Use it as an async context manager. `now` gives µs UTC, for the time of requests."""

    def __init__(
        self,
        bus: Bus,
        *,
        source: str,
        actor: str = "",
        private_key: bytes | None = None,
        cache: Path | None = None,
        now: Callable[[], int] = lambda: time.time_ns() // 1000,
    ) -> None:
        self.bus, self.source, self.actor, self.now = bus, source, actor, now
        self._private_key, self._cache = private_key, cache
        self._domains: dict[str, Domain] | None = None
        self._views: dict[str, DomainView] = {}
        self._answers: dict[tuple[str, str], Outcome] = {}

    @classmethod
    def connect(cls, settings: ClientSettings | None = None, bus: Bus | None = None) -> Self:
        """A client of the Kafka that the settings name. It connects on first use."""
        told = settings or load_settings(ClientSettings)
        tracing.configure(told.otlp_endpoint)
        return cls(
            bus or bus_of(told),
            source=told.source,
            actor=told.actor,
            private_key=read_key(told.key) if told.key is not None else None,
            cache=told.cache,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for view in self._views.values():
            await view.close()
        await self.bus.close()

    # --- pools

    async def domains(self) -> Mapping[str, Domain]:
        """Every pool that has a log, by name."""
        if not self._domains:
            found: dict[str, Domain] = {}
            for partition, span in (await self.audit_spans()).items():
                domain = await self._first_record(partition, span)
                if domain is not None:
                    found.setdefault(domain.name, domain)
            self._domains = dict(sorted(found.items()))
        return self._domains

    async def domain(self, name: str | None = None) -> Domain:
        """The pool of that name, or the only one. Raises `Problem` where that leaves a choice or nothing."""
        known = await self.domains()
        names = ", ".join(known)
        if not known:
            advice = "is admission running? `bailiff doctor` says what is missing"
            raise Problem(ExitCode.NOT_FOUND, f"no pool has a log in {topics.AUDIT.name} yet", advice)
        if name is not None and name not in known:
            raise Problem(ExitCode.NOT_FOUND, f"there is no pool {name!r}", f"pools with a log: {names}")
        if name is None and len(known) > 1:
            raise Problem(ExitCode.USAGE, f"there are {len(known)} pools: {names}", "name one with --domain (-d)")
        return known[name] if name is not None else next(iter(known.values()))

    async def audit_spans(self) -> Mapping[int, Span]:
        """The partitions of the audit topic. Raises `Problem` where there is no such topic."""
        return await self.spans(topics.AUDIT.name)

    async def spans(self, topic: str) -> Mapping[int, Span]:
        """The partitions of a topic. Raises `Problem` where there is none of that name."""
        try:
            return await self.bus.spans(topic)
        except KeyError:
            advice = "an operator creates the topics with: bailiff topics create"
            raise Problem(ExitCode.NOT_FOUND, f"Kafka has no topic {topic}", advice) from None

    async def _first_record(self, partition: int, span: Span) -> Domain | None:
        async for message in self.messages(topics.AUDIT.name, {partition: span}):
            wire = Wire(message.headers, message.value)
            name = dict(wire.headers).get("ce_domain", b"").decode(errors="replace")
            head = continues(ChainHead(name), wire)
            if isinstance(head, Break):
                continue
            try:
                created = decode(wire).data
            except UnreadableRecord:
                continue
            if isinstance(created, DomainCreated) and created.partition == partition:
                return Domain(name, partition, head.hash)
        return None

    async def messages(self, topic: str, spans: Mapping[int, Span], *, on: bool = False) -> AsyncGenerator[Message, None]:
        """Every message in these spans, in order within each partition; with `on` also what is appended later."""
        wanted = {partition: span for partition, span in spans.items() if on or span.end > span.begin}
        reader: Reader | None = None
        try:
            if wanted:
                reader = await self.bus.reader([(topic, partition, span.begin) for partition, span in wanted.items()])
            while reader is not None:
                for message in await reader.read(wait=WAIT):
                    if on or message.offset < wanted[message.partition].end:
                        yield message
                if not on and all(reader.position(topic, partition) >= span.end for partition, span in wanted.items()):
                    return
        finally:
            if reader is not None:
                await reader.close()

    # --- asking

    async def request(
        self, domain: str, body: RequestBody, *, id: str | None = None, actor: str | None = None  # noqa: A002 - CloudEvents' name
    ) -> Asked:  # fmt: skip
        """Publish a request; returns when Kafka has it. A repeat under the same `id` has no second effect.

        actor: in whose name, where that is not the client's own.
        """
        (asked,) = await self.requests(domain, [body], ids=[id] if id is not None else None, actor=actor)
        return asked

    async def requests(
        self, domain: str, bodies: Sequence[RequestBody], *, ids: Sequence[str] | None = None, actor: str | None = None
    ) -> list[Asked]:
        """Publish several requests, in this order; returns when Kafka has all of them."""
        names, began = ids or [uuid.uuid4().hex for _ in bodies], self.now()
        by = self.actor if actor is None else actor
        wires = [self._wrapped(domain, body, name, by) for body, name in zip(bodies, names, strict=True)]
        await self.spans(topics.REQUESTS.name)
        producer = await self.bus.producer()
        try:
            sent = [
                await producer.send(topics.REQUESTS.name, value, key=domain.encode(), headers=headers) for headers, value in wires
            ]
            for receipt in sent:
                await receipt
        finally:
            await producer.close()
        await self._trace(domain, bodies, began)
        return [Asked(domain, self.source, name, _job_of(body)) for name, body in zip(names, bodies, strict=True)]

    async def _trace(self, domain: str, bodies: Sequence[RequestBody], began: int) -> None:
        """The first span of each job that was asked for: the request itself."""
        jobs = [body.demand.job for body in bodies if isinstance(body, SubmitJob)] if tracing.endpoint() is not None else []
        traces = {job: tracing.trace_of(domain, job) for job in jobs}
        spans = [
            tracing.Span(
                "bailiff-client", f"request {job}", trace, tracing.span_of(trace, "request"), "", began, self.now(),
                {"bailiff.pool": domain, "bailiff.job": job},
            )
            for job, trace in traces.items()
        ]  # fmt: skip
        if spans:
            await asyncio.to_thread(tracing.export, spans)

    def _wrapped(self, domain: str, body: RequestBody, name: str, actor: str) -> tuple[Headers, bytes]:
        at = self.now()
        proof: dict[str, Any] = {}
        if self._private_key is not None:
            said: dict[str, Any] = {"source": self.source, "id": name, "domain": domain, "time_us": at}
            keyid, signature = sign(self._private_key, body, actor=actor, **said)
            proof = {"auth": "signed", "keyid": keyid, "sig": signature}
        context = tracing.header(domain, _job_of(body), "request") if isinstance(body, SubmitJob) else ""
        headers, value = wrap(
            body, source=self.source, id=name, domain=domain, time_us=at, actor=actor, traceparent=context, **proof
        )  # fmt: skip
        size = message_size(domain.encode(), headers, value)
        if size > topics.REQUESTS.max_message_bytes:
            text = f"the request has {size} bytes, and {topics.REQUESTS.name} takes up to {topics.REQUESTS.max_message_bytes}"
            raise Problem(ExitCode.USAGE, text, "pass large data by reference: a path, a URL, a secret's name")
        return headers, value

    async def submit(self, demand: JobDemand, spec: JobSpec, *, domain: str | None = None) -> Asked:
        """Ask for a job to be run."""
        where = await self.domain(domain)
        return await self.request(where.name, SubmitJob(demand=demand, spec=spec))

    async def cancel(self, job: str, *, reason: str = "", domain: str | None = None) -> Asked:
        """Ask for a job to be ended."""
        where = await self.domain(domain)
        return await self.request(where.name, CancelJob(job=job, reason=reason))

    async def outcome_of(self, asked: Asked, timeout: float = 10.0) -> Outcome | None:
        """Admission's answer, or None if it did not come within so many seconds after the log was read to its end."""
        view = await self.view(asked.domain)
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout
        while (found := self._answer_in(view, asked)) is None:
            left = until - loop.time()
            if left <= 0:
                return None
            await view.advance(min(WAIT, left))
        return found

    def _answer_in(self, view: DomainView, asked: Asked) -> Outcome | None:
        seen = self._answers.get((asked.source, asked.id))
        if seen is not None:
            return seen
        memo = view.pool.requests.get(request_key(asked.source, asked.id))
        return None if memo is None else Outcome(True, memo.seq)

    def _note_answer(self, entry: Entry) -> None:
        """Rejections are not part of the state; they are noted as they go by."""
        data = entry.record.data
        if isinstance(data, InputRejected) and data.source and data.id:
            self._answers[data.source, data.id] = Outcome(False, entry.record.seq, data.code, data.reason)

    # --- reading

    async def view(self, domain: str | None = None) -> DomainView:
        """The pool's state as of now: its log folded to the end. The same view is advanced at each call."""
        where = await self.domain(domain)
        if where.name in self._views:
            await self._views[where.name].catch_up()
        else:
            self._views[where.name] = await self._new_view(where)
        return self._views[where.name]

    async def _new_view(self, where: Domain) -> DomainView:
        """Folded to the end: from what was kept of it if the log confirms that, else from the start."""
        kept_in = self._cache / where.identity[:16] if self._cache is not None else None
        view = DomainView(self.bus, where.name, where.partition, Metrics(), snapshots=kept_in, observe=self._note_answer)
        await view.open()
        kept = view.pool.seq
        with suppress(OffsetGone):  # the log is shorter than what was kept of it
            await view.catch_up()
            if kept < 0 or view.pool.seq > kept:  # the record behind what was kept confirms it
                return view
        await view.close()
        view = DomainView(self.bus, where.name, where.partition, Metrics(), observe=self._note_answer)
        await view.catch_up()
        return view

    async def follow(
        self, domain: str | None = None, from_seq: int = 0, *, pool: Pool | None = None, on: bool = True
    ) -> AsyncGenerator[Entry, None]:
        """The pool's records from `from_seq` on, and with `on` those to come, else to where the log ends now.

        pool: an empty one is kept at the state just after the entry that is given out.
        """
        where = await self.domain(domain)
        reader = AuditReader(self.bus, where.name, where.partition)
        try:
            end = await reader.end()
            while on or reader.offset < end:
                for entry in await reader.read(WAIT):
                    if pool is not None:
                        apply(pool, entry.record)
                    if entry.record.seq >= from_seq:
                        yield entry
        finally:
            await reader.close()


def request_of(entry: Entry) -> RequestId | None:
    """The request that led to this record, if one did."""
    found = getattr(entry.record.data, "request", None)
    return found if isinstance(found, RequestId) else None


def _job_of(body: RequestBody) -> str:
    job = body.demand.job if isinstance(body, SubmitJob) else getattr(body, "job", "")
    return job if isinstance(job, str) else ""

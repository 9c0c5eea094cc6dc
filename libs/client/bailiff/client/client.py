"""The Python client: publishes requests, waits for their outcome in the audit log, folds and follows a pool's log.

Pools are discovered in the log: each partition of `bailiff.audit` begins with the PoolCreated record. Records that do not
continue the chain are ignored.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, TypeVar

from bailiff_bus import topics
from bailiff_bus.port import READ_LIMIT, OffsetOutOfRange, TopicMissing
from bailiff_bus.topics import message_size
from bailiff_core.fold import apply
from bailiff_core.fold.log import request_key
from bailiff_core.model.placement_ranges import runs_of
from bailiff_core.records import Break, ChainHead, Wire, continues, decode
from bailiff_core.records.facts import InputRejected, InputsAdvanced, PoolCreated, RequestId
from bailiff_core.records.wire import UnreadableRecord
from bailiff_log.job_index import JobIndex
from bailiff_log.projection import Projection
from bailiff_log.reader import AuditReader, Entry
from bailiff_service import tracing

from .errors import ClientError, ExitCode, NotFound, PoolNotFound, UnreadableLog, UsageError
from .pool_ref import PoolRef

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from bailiff_bus.port import Bus, Headers, Message, Reader, Span
    from bailiff_core.model.demand import JobDemand
    from bailiff_core.model.job_spec import JobSpec
    from bailiff_core.model.message import MessageBody
    from bailiff_core.model.state import PoolState
    from bailiff_core.records.request import RequestBody

    from .http_connection import HttpConnection
    from .settings import ClientSettings

WAIT = 0.5
FIRST = 2  # messages that are read to find the first record of a log
DOWNLOAD_FROM = 5_000
"""Messages of a log: fewer are folded in the time that a download takes."""
SHED_KEPT = 100  # records about requests that were rejected unread
T = TypeVar("T")


def bus_of(settings: ClientSettings) -> Bus:
    """The Kafka bus; with `api` set, logs are read from the HTTP API and all else from Kafka."""

    def kafka() -> Bus:
        from bailiff_bus.kafka import KafkaBus  # imported here: commands without Kafka do not load its client

        return KafkaBus(settings.kafka)

    if not settings.api:
        return kafka()
    from bailiff.client.http_log import HttpLogSource

    return HttpLogSource(settings.api, settings.token_of_api(), kafka, settings.kafka.request_timeout)


def offers_of(settings: ClientSettings) -> Callable[[], HttpConnection] | None:
    """Connects to the HTTP API that has snapshots, if the settings name one."""
    address = settings.snapshots or settings.api
    if not address:
        return None

    def connect() -> HttpConnection:
        from bailiff.client.http_connection import HttpConnection  # imported here: nearly all commands have a local snapshot

        return HttpConnection(address, settings.token_of_api(address), settings.kafka.request_timeout)

    return connect


Place = tuple[int, int]
"""Partition and offset of a request in its topic."""


@dataclass(frozen=True, slots=True)
class SentRequest:
    """A request that Kafka acknowledged. (source, id) is its deduplication key, of a signed one the signer's.

    Attributes:
        body: What was asked; None where a program keeps only where it was sent.
        actor: In whose name it was sent.
        partition: Where it is in the topic of requests, as is its offset; None where Kafka did not say.
    """

    pool: str
    source: str
    id: str
    body: RequestBody | None = None
    actor: str = ""
    partition: int | None = None
    offset: int | None = None

    @property
    def job(self) -> str:
        """The job that it names; else empty."""
        return _job_of(self.body)

    @property
    def place(self) -> Place | None:
        """Partition and offset; None where Kafka did not say."""
        return None if self.partition is None or self.offset is None else (self.partition, self.offset)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a request: the record `seq`; if rejected, with code and reason."""

    accepted: bool
    seq: int
    code: str = ""
    reason: str = ""


class NoMetrics:
    """Counters of a projection that exports no metrics."""

    def count_folded(self, pool: str, records: int, head_seq: int) -> None:
        """Does nothing."""

    def count_orphan(self, pool: str, offset: int) -> bool:  # noqa: ARG002 - the protocol's signature
        """Returns True: every orphan is reported as new."""
        return True

    def count_unwritten_snapshot(self, pool: str) -> None:
        """Does nothing."""


class Client:
    """A connection, to be used as an async context manager.

    Attributes:
        source: CloudEvents source of the requests.
        private_key: Ed25519 key that signs them.
        cache: Folder of local snapshots.
        offers: Connects to the HTTP API that has a snapshot, for where there is no local one.
        now: Clock for the time of requests, µs UTC.
    """

    def __init__(
        self,
        bus: Bus,
        *,
        source: str,
        actor: str = "",
        private_key: bytes | None = None,
        cache: Path | None = None,
        offers: Callable[[], HttpConnection] | None = None,
        now: Callable[[], int] = lambda: time.time_ns() // 1000,
    ) -> None:
        self.bus, self.source, self.actor, self.now = bus, source, actor, now
        self._private_key, self._cache, self._offers = private_key, cache, offers
        self._pools: dict[str, PoolRef] | None = None
        self._cut: list[int] = []
        self._projections: dict[str, Projection] = {}
        self._outcomes: dict[tuple[str, str], Outcome] = {}
        self._outcomes_at: dict[tuple[int | None, int], Outcome] = {}
        self._sent: dict[str, None] = {}  # places of this client's own requests, as records name their causes
        self._shed = deque[tuple[int, list[range], Outcome]](maxlen=SHED_KEPT)
        self._locks: dict[str, asyncio.Lock] = {}
        self._reads: dict[str, asyncio.Task[Any]] = {}

    @classmethod
    def connect(cls, settings: ClientSettings | None = None, bus: Bus | None = None) -> Self:
        """A client with these settings (default: loaded from environment and file). Connects on first use."""
        from bailiff_service.settings import load_settings

        from .settings import ClientSettings, read_key

        settings = settings or load_settings(ClientSettings)
        tracing.configure(settings.otlp_endpoint)
        return cls(
            bus or bus_of(settings),
            source=settings.source,
            actor=settings.requester,
            private_key=read_key(settings.key) if settings.key is not None else None,
            cache=settings.cache,
            offers=offers_of(settings),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for reading in self._reads.values():
            reading.cancel()
        await asyncio.gather(*self._reads.values(), return_exceptions=True)
        for projection in self._projections.values():
            await projection.close()
        await self.bus.close()

    # --- pools

    async def pools(self) -> Mapping[str, PoolRef]:
        """All pools that have a log, by name."""
        if not self._pools:
            found: dict[str, PoolRef] = {}
            for partition, span in (await self.audit_spans()).items():
                pool = await self._first_record(partition, span)
                if pool is not None:
                    found.setdefault(pool.name, pool)
                elif span.begin:
                    self._cut.append(partition)
            self._pools = dict(sorted(found.items()))
        return self._pools

    async def pool(self, name: str | None = None) -> PoolRef:
        """The pool of that name; without a name the only pool.

        Raises:
            ClientError: There is none, or several and none is named.
        """
        known = await self.pools()
        names = ", ".join(known)
        if self._cut and (name or "") not in known and not (known and name is None):
            where = f"partition {self._cut[0]} of {topics.AUDIT.name}"
            advice = "its records are in the archive and in exports: bailiff audit verify --archive ADDRESS"
            text = f"the first records in {where} are gone: they were deleted, or their retention has passed"
            raise UnreadableLog(text, advice)
        if not known:
            advice = "check that admission is running: bailiff doctor"
            raise PoolNotFound(f"no pool has a log in {topics.AUDIT.name} yet", advice)
        if name is not None and name not in known:
            raise PoolNotFound.named(name, known)
        if name is None and len(known) > 1:
            raise UsageError(f"there are {len(known)} pools: {names}", "choose one with --pool")
        return known[name] if name is not None else next(iter(known.values()))

    async def audit_spans(self) -> Mapping[int, Span]:
        """Offset spans of the audit topic, by partition.

        Raises:
            ClientError: The topic does not exist.
        """
        return await self.spans(topics.AUDIT.name)

    async def spans(self, topic: str) -> Mapping[int, Span]:
        """Offset spans of a topic, by partition.

        Raises:
            ClientError: The topic does not exist.
        """
        try:
            return await self.bus.spans(topic)
        except TopicMissing:
            raise NotFound(f"Kafka has no topic {topic}", "create it: bailiff topics create") from None

    async def _first_record(self, partition: int, span: Span) -> PoolRef | None:
        async for message in self.messages(topics.AUDIT.name, {partition: span}, at_once=FIRST):
            wire = Wire(message.headers, message.value)
            name = dict(wire.headers).get("ce_pool", b"").decode(errors="replace")
            head = continues(ChainHead(name), wire)
            if isinstance(head, Break):
                continue
            try:
                created = decode(wire).data
            except UnreadableRecord:
                continue
            if isinstance(created, PoolCreated) and created.partition == partition:
                return PoolRef(name, partition, head.hash, created.root_key or "")
        return None

    async def messages(
        self, topic: str, spans: Mapping[int, Span], *, on: bool = False, at_once: int = READ_LIMIT
    ) -> AsyncGenerator[Message, None]:
        """Messages in these spans, in order within each partition; with `on`, also all that are appended later.

        Args:
            at_once: How many are read at most before the first is used.
        """
        wanted = {partition: span for partition, span in spans.items() if on or span.end > span.begin}
        reader: Reader | None = None
        try:
            if wanted:
                reader = await self.bus.reader([(topic, partition, span.begin) for partition, span in wanted.items()])
            while reader is not None:
                for message in await reader.read(at_once, WAIT):
                    if on or message.offset < wanted[message.partition].end:
                        yield message
                if not on and all(reader.position(topic, partition) >= span.end for partition, span in wanted.items()):
                    return
        finally:
            if reader is not None:
                await reader.close()

    # --- publishing

    async def request(
        self,
        pool: str,
        body: RequestBody,
        *,
        id: str | None = None,  # noqa: A002 - CloudEvents' name
        actor: str | None = None,
    ) -> SentRequest:
        """Publishes a request; returns when Kafka has acknowledged it. A repeat under the same `id` has no further effect.

        Args:
            actor: Who requests it. Default: the client's own actor.
        """
        (sent,) = await self.requests(pool, [body], ids=[id] if id is not None else None, actor=actor)
        return sent

    async def requests(
        self, pool: str, bodies: Sequence[RequestBody], *, ids: Sequence[str] | None = None, actor: str | None = None
    ) -> list[SentRequest]:
        """Publishes several requests, in this order; returns when Kafka has acknowledged all of them."""
        names, started = ids or [uuid.uuid4().hex for _ in bodies], self.now()
        as_actor = self.actor if actor is None else actor
        wires = [self._wrapped(pool, body, name, as_actor) for body, name in zip(bodies, names, strict=True)]
        await self.spans(topics.REQUESTS.name)
        producer = await self.bus.producer()
        try:
            sent = [
                await producer.send(topics.REQUESTS.name, value, key=pool.encode(), headers=headers) for headers, value in wires
            ]
            receipts = [await receipt for receipt in sent]
        finally:
            await producer.close()
        self._sent.update((f"{topics.REQUESTS.name}/{each.partition}/{each.offset}", None) for each in receipts)
        await self._trace(pool, bodies, started)
        return [
            SentRequest(pool, self.source, name, body, as_actor, receipt.partition, receipt.offset)
            for name, body, receipt in zip(names, bodies, receipts, strict=True)
        ]

    async def _trace(self, pool: str, bodies: Sequence[RequestBody], started: int) -> None:
        """Exports the first trace span of each submitted job: the request itself."""
        from bailiff_core.records.job_requests import SubmitJob

        jobs = [body.demand.job for body in bodies if isinstance(body, SubmitJob)] if tracing.endpoint() is not None else []
        traces = {job: tracing.trace_of(pool, job) for job in jobs}
        spans = [
            tracing.Span(
                "bailiff-client",
                f"request {job}",
                trace,
                tracing.span_of(trace, "request"),
                "",
                started,
                self.now(),
                {"bailiff.pool": pool, "bailiff.job": job},
            )
            for job, trace in traces.items()
        ]
        if spans:
            await asyncio.to_thread(tracing.export, spans)

    @property
    def key_id(self) -> str:
        """The public key of the key that signs requests; empty without one."""
        if self._private_key is None:
            return ""
        from bailiff_log.keys import key_id

        return key_id(self._private_key)

    def content_digest(self, pool: str, body: RequestBody, name: str, actor: str) -> str:
        """The content digest of this request under the id `name`: the same for a repeat."""
        from bailiff_bus.envelope import content_digest

        sent = self._salted(body, name)
        return content_digest(sent.TYPE, pool, sent.public_data(sent.to_json()), actor)

    def _salted(self, body: RequestBody, name: str) -> MessageBody:
        if self._private_key is None:
            return body
        from bailiff_log.signatures import salted

        return salted(self._private_key, body, source=self.source, id=name)

    def _wrapped(self, pool: str, body: RequestBody, name: str, actor: str) -> tuple[Headers, bytes]:
        from bailiff_bus.envelope import wrap  # imported here and below: readers load no message models and no cryptography
        from bailiff_core.records.job_requests import SubmitJob

        at = self.now()
        proof: dict[str, Any] = {}
        sent = self._salted(body, name)
        if self._private_key is not None:
            from bailiff_log.signatures import sign

            attributes: dict[str, Any] = {"source": self.source, "id": name, "pool": pool, "time_us": at}
            keyid, signature = sign(self._private_key, sent, actor=actor, **attributes)
            proof = {"auth": "signed", "keyid": keyid, "sig": signature}
        context = tracing.header(pool, _job_of(body), "request") if isinstance(body, SubmitJob) else ""
        headers, value = wrap(sent, source=self.source, id=name, pool=pool, time_us=at, actor=actor, traceparent=context, **proof)
        size = message_size(pool.encode(), headers, value)
        if size > topics.REQUESTS.max_message_bytes:
            text = f"the request has {size} bytes; {topics.REQUESTS.name} accepts at most {topics.REQUESTS.max_message_bytes}"
            raise UsageError(text, "pass large data by reference: a path, a URL, the name of a secret")
        return headers, value

    async def submit(self, demand: JobDemand, spec: JobSpec, *, pool: str | None = None) -> SentRequest:
        """Publishes a job submission."""
        from bailiff_core.records.job_requests import SubmitJob

        pool_ref = await self.pool(pool)
        return await self.request(pool_ref.name, SubmitJob(demand=demand, spec=spec))

    async def cancel(self, job: str, *, reason: str = "", pool: str | None = None) -> SentRequest:
        """Publishes the cancellation of a job."""
        from bailiff_core.records.job_requests import CancelJob

        pool_ref = await self.pool(pool)
        return await self.request(pool_ref.name, CancelJob(job=job, reason=reason))

    async def outcome_of(self, sent: SentRequest, timeout: float = 10.0) -> Outcome | None:
        """The outcome, or None if there is none within `timeout` seconds after the log was read to its end."""
        return await self.until(sent.pool, lambda state: self._outcome_in(state, sent), timeout)

    def _outcome_in(self, state: PoolState, sent: SentRequest) -> Outcome | None:
        memo = state.requests.get(request_key(sent.source, sent.id, self.owner_of_ids(state, sent.actor)))
        if memo is not None:
            return Outcome(True, memo.seq)
        if sent.offset is None:
            return self._outcomes.get((sent.source, sent.id))
        found = self._outcomes_at.get((sent.partition, sent.offset))
        unread = (
            each
            for partition, runs, each in self._shed
            if partition == sent.partition and any(sent.offset in run for run in runs)
        )
        return found or next(unread, None)

    def owner_of_ids(self, state: PoolState, actor: str) -> str:
        """Whose the ids are of requests that this client sends in the name of `actor`; empty: of nobody, as it signs none."""
        if self._private_key is None:
            return ""
        from bailiff_log.keys import known_keys

        return actor or known_keys(state).get(self.key_id, "")

    def _store_outcome(self, entry: Entry) -> None:
        """Stores the outcome of a rejected request, and of one's own accepted one.

        Rejections are not part of the state, and whose an accepted id is may change with it: a policy may take the sender's key
        away. By its place in the topic, as anybody can send what is rejected under another's source and id.
        """
        data, cause = entry.record.data, entry.record.cause
        if isinstance(data, InputsAdvanced) and topics.REQUESTS.name in data.topic_ids:
            self._outcomes_at.clear()  # places in a topic that is gone
            self._shed.clear()
        if not isinstance(data, InputRejected) or data.topic != topics.REQUESTS.name:
            if cause in self._sent:
                partition, offset = map(int, cause.split("/")[1:])
                self._outcomes_at.setdefault((partition, offset), Outcome(True, entry.record.seq))
            return
        outcome = Outcome(False, entry.record.seq, data.code, data.reason)
        if data.offsets:
            self._shed.append((data.partition, runs_of(data.offsets), outcome))
            return
        self._outcomes_at[data.partition, data.offset] = outcome
        if data.source and data.id:
            self._outcomes[data.source, data.id] = outcome

    # --- reading

    async def projection(self, pool: str | None = None) -> Projection:
        """The pool's log folded to its end. Later calls advance the same projection."""
        pool_ref = await self.pool(pool)
        async with self._locks.setdefault(pool_ref.name, asyncio.Lock()):
            if pool_ref.name in self._projections:
                await self._projections[pool_ref.name].catch_up()
            else:
                self._projections[pool_ref.name] = await self._new_projection(
                    pool_ref, lambda entry, _: self._store_outcome(entry)
                )
        return self._projections[pool_ref.name]

    async def records_about(self, job: str, pool: str | None = None) -> list[Wire] | None:
        """The records about the job, without its progress; None: only the whole log has them.

        Raises:
            ClientError: They are not those that were verified.
        """
        from bailiff_log.records_at import RecordChanged, places_since, records_at

        projection = await self.projection(pool)
        try:
            assert projection.job_index is not None
            places = projection.job_index.of(job, projection.state)
            known, last = projection.state.jobs.get(job), projection.reader.head_offset
            if places is None and known is not None and last is not None:
                found = projection.partition, job, known.seq, projection.head, last, projection.state
                places = await places_since(self.bus, *found)
            return await records_at(self.bus, projection.partition, places) if places is not None else None
        except (ValueError, TimeoutError, OffsetOutOfRange):
            return None
        except RecordChanged as changed:
            raise ClientError(ExitCode.UNREADABLE, str(changed), "verify the log: bailiff audit verify") from None

    async def until(self, pool: str | None, found: Callable[[PoolState], T | None], timeout: float | None) -> T | None:
        """The first result of `found` as the pool's state changes; None if there is none within `timeout` seconds.

        The time counts from when the log was read to its end.

        Args:
            timeout: Seconds; None: no timeout.
        """
        projection = await self.projection(pool)
        loop = asyncio.get_running_loop()
        end = None if timeout is None else loop.time() + timeout
        while (result := found(projection.state)) is None:
            left = WAIT if end is None else end - loop.time()
            if left <= 0:
                return None
            await self._advance(projection, min(WAIT, left))
        return result

    async def _advance(self, projection: Projection, wait: float) -> None:
        """Reads new records. Callers that wait at the same time share one read, which none of them cancels."""

        async def read() -> None:
            async with self._locks[projection.pool]:
                await projection.advance(WAIT)

        reading = self._reads.get(projection.pool)
        if reading is None or reading.done():
            reading = self._reads[projection.pool] = asyncio.create_task(read())
        done, _ = await asyncio.wait({reading}, timeout=wait)
        if done:
            reading.result()

    async def _new_projection(
        self, pool_ref: PoolRef, observe: Callable[[Entry, PoolState], None], before: int | None = None
    ) -> Projection:
        """A projection folded to the end: from the local snapshot if the log confirms it, else from the first record.

        observe: called with every entry, and the state after it. before: use only a snapshot of an earlier record.
        """
        snapshots = self._cache / pool_ref.identity[:16] if self._cache is not None else None

        def made(folder: Path | None) -> Projection:
            projection = Projection(
                self.bus,
                pool_ref.name,
                pool_ref.partition,
                NoMetrics(),
                snapshots=folder,
                observe=lambda entry: observe(entry, projection.state),
                undecoded=True,
                job_index=JobIndex(),
            )
            return projection

        projection = made(snapshots)
        await projection.open(before)
        if snapshots is not None and before is None and projection.state.seq < 0:
            await self._open_downloaded(projection, pool_ref, snapshots)
        snapshot_seq = projection.state.seq
        if before is None or snapshot_seq < before:
            with suppress(OffsetOutOfRange):  # the log is shorter than the snapshot
                await projection.catch_up()
                if projection.state.seq >= snapshot_seq:
                    projection.keep_changes()
                    return projection
        await projection.close()
        projection = made(None)
        await projection.catch_up()
        return projection

    async def _open_downloaded(self, projection: Projection, pool_ref: PoolRef, folder: Path) -> None:
        """Begin at a snapshot that the HTTP API has, where folding the log takes longer than that."""
        messages = (await self.audit_spans())[pool_ref.partition].end
        if self._offers is not None and messages >= DOWNLOAD_FROM:
            from .downloaded_snapshot import open_downloaded

            await open_downloaded(self._offers, projection, pool_ref, folder, messages)

    async def observe(
        self, pool: str | None, from_seq: int, look: Callable[[Entry, PoolState], Iterable[T]], *, on: bool = True
    ) -> AsyncGenerator[T, None]:
        """What `look` finds in the records from `from_seq` on, given each with the state after it.

        It begins at the local snapshot, if that is older than `from_seq`.

        Args:
            on: Continue with appended records; else stop at the current end.
        """
        found, seen = deque[T](), from_seq - 1

        def take(entry: Entry, state: PoolState) -> None:
            nonlocal seen
            if entry.record.seq > seen:  # folding may begin anew
                seen = entry.record.seq
                found.extend(look(entry, state))

        projection = await self._new_projection(await self.pool(pool), take, from_seq)
        try:
            while True:
                while found:
                    yield found.popleft()
                if not on:
                    return
                await projection.advance(WAIT)
        finally:
            await projection.close()

    async def follow(
        self, pool: str | None = None, from_seq: int = 0, *, state: PoolState | None = None, on: bool = True
    ) -> AsyncGenerator[Entry, None]:
        """Records of the pool from `from_seq` on; with `on`, continues with appended records, else stops at the current end.

        Args:
            state: An empty state to fold into; it is as of the yielded entry.
        """
        pool_ref = await self.pool(pool)
        reader = AuditReader(self.bus, pool_ref.name, pool_ref.partition)
        try:
            end = await reader.end()
            while on or reader.offset < end:
                for entry in await reader.read(WAIT):
                    if state is not None:
                        apply(state, entry.record)
                    if entry.record.seq >= from_seq:
                        yield entry
        finally:
            await reader.close()


def request_of(entry: Entry) -> RequestId | None:
    """The request that led to this record, or None."""
    found = getattr(entry.record.data, "request", None)
    return found if isinstance(found, RequestId) else None


def _job_of(body: RequestBody | None) -> str:
    from bailiff_core.records.job_requests import SubmitJob

    job = body.demand.job if isinstance(body, SubmitJob) else getattr(body, "job", "")
    return job if isinstance(job, str) else ""

"""Writes one pool's audit log: appends records and reports which are committed (docs/reference/log-protocol.md#commit).

A record is committed once it is known to continue the chain; an acknowledgement alone is not enough.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from bailiff_bus.port import Batch, Bus, BusUnavailable, Producer, Receipt
from bailiff_bus.topics import AUDIT, AUDIT_LIMIT, message_size
from bailiff_core.records import Break, ChainHead, Record, Wire, encode
from bailiff_core.records.chain import WRITER_STARTED, continues_hashed
from bailiff_core.records.wire import hashed_record

from .credentials import Credentials
from .log_signatures import WriterCheck, draft_signed
from .reader import AuditReader, Entry, OnEntries


class SteppedDown(Exception):
    """This writer has stopped: another writer owns the log, or its records are not in it. The text gives the reason."""


class OutcomeUnknown(Exception):
    """A send failed or timed out: only reading shows whether the record is in the log. This writer has stopped."""


@dataclass(frozen=True, slots=True)
class Committed:
    """The records of one `append` are part of the log. head: the chain after the last one. offset: of the last one.

    append_time: the broker's for the last one, µs UTC. entries: all of them, as a reader yields them.
    """

    head: ChainHead
    offset: int
    append_time: int
    entries: tuple[Entry, ...]


PreparedRecord = tuple[Record, Wire, ChainHead]  # a record, its bytes, and the chain after it


@dataclass(frozen=True, slots=True)
class _Append:
    """One call of `append` and the entries committed so far."""

    committed: "asyncio.Future[Committed]"
    count: int
    entries: list[Entry] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Sent:
    """A record that was sent and is not committed yet. head: the chain after it."""

    record: Record
    wire: Wire
    head: ChainHead
    acknowledgement: "asyncio.Future[Receipt]"  # of its batch
    index: int  # in the batch
    append: _Append


class AuditWriter:
    """One writer incarnation. After an exception it has stopped: create a new one with the same reader.

    The reader must not be used elsewhere meanwhile. When the writer stops, the reader is positioned after the last record
    that `begin` or a result of `append` returned, so that the next read yields everything after it.
    """

    def __init__(
        self, bus: Bus, reader: AuditReader, window: int = 1000, attempts: int = 5, credentials: Credentials | None = None
    ) -> None:
        self._bus = bus
        self._credentials = credentials
        self._reader = reader
        self._window = window
        self._attempts = attempts
        self._producer: Producer | None = None
        self._sent_head = reader.head  # after all sent records
        self._head = reader.head  # after all committed records
        self._offset = reader.offset  # after the last committed record
        self._head_offset = reader.head_offset  # of the last committed record
        self._returned = self._position
        self._last_append_time: int | None = None
        self._sent: deque[_Sent] = deque()
        self._appending = asyncio.Lock()  # one call of `append` after another
        self._sending = asyncio.Lock()  # one batch after another, and none during `_read_back`
        self._window_open = asyncio.Event()
        self._has_sent = asyncio.Event()
        self._committing: asyncio.Task[None] | None = None
        self._stopped: Exception | None = None

    @property
    def _position(self) -> tuple[ChainHead, int, int | None]:
        """Where the reader continues after the committed records."""
        return self._head, self._offset, self._head_offset

    @property
    def head(self) -> ChainHead:
        """The chain after the last committed record."""
        return self._head

    @property
    def next_head(self) -> ChainHead:
        """The chain after all records passed to `append`: what the next record must continue."""
        return self._sent_head

    @property
    def offset(self) -> int:
        """The Kafka offset after the last committed record."""
        return self._offset

    @property
    def last_append_time(self) -> int | None:
        """The broker's append time of the newest committed record of this writer, µs UTC."""
        return self._last_append_time

    async def begin(self, make_first: Callable[[ChainHead], Sequence[Record]], on_entries: OnEntries) -> Entry:
        """Start this incarnation: append `WriterStarted` and read until it is part of the chain. Returns its entry.

        make_first: the records that continue this head, with one `WriterStarted`; in an empty log, the ones that create the
        pool come first. on_entries: receives every record read here in order, including our own; make_first may rely on
        the state that it folds.

        If another writer was faster, reads on and tries again, `attempts` times; then raises `SteppedDown`. Raises
        `OffsetOutOfRange` if the log was truncated.
        """
        try:
            self._producer = await self._bus.producer()
            for _ in range(self._attempts):
                await self._reader.catch_up(on_entries)
                await self._reader.verify_head()  # or the first record would continue one that the log has lost
                started = await self._append_first(make_first(self._reader.head), on_entries)
                if started is not None:
                    break
            else:
                raise SteppedDown(f"another writer of {self._reader.pool} was faster {self._attempts} times")
        except BusUnavailable as error:
            self._adopt_reader_position()
            self._returned = self._position
            raise self._stop(OutcomeUnknown(str(error))) from error
        except BaseException as error:
            self._adopt_reader_position()
            self._returned = self._position
            self._stop(error if isinstance(error, Exception) else OutcomeUnknown("the start was cancelled"))
            raise
        self._last_append_time = started.append_time
        self._adopt_reader_position()
        await self._reader.close()  # what is appended from now on need not be fetched
        self._returned = self._position
        self._sent_head = self._head
        self._committing = asyncio.create_task(self._commit_sent())
        return started

    async def append(self, records: Sequence[Record]) -> "asyncio.Future[Committed]":
        """Send these records in order; the returned future resolves when all of them are committed.

        `prev` is filled in. Raises `ValueError`, and sends nothing, where a record does not continue the chain otherwise.
        Waits while the window of unacknowledged records is full. The call or its future raises `SteppedDown` or
        `OutcomeUnknown`; `OffsetOutOfRange` if the log was truncated, `UnreadableRecord` if a newer release writes it.
        """
        if not records:
            raise ValueError("nothing to append")
        async with self._appending:
            self._raise_if_stopped()
            prepared = chain_records(self._sent_head, records, self._credentials)
            committed: asyncio.Future[Committed] = asyncio.get_running_loop().create_future()
            committed.add_done_callback(
                lambda done: done.cancelled() or done.exception()
            )  # avoids a warning where the result is not awaited
            append = _Append(committed, len(prepared))
            try:
                for begin in range(0, len(prepared), self._window):
                    await self._send_prepared(prepared[begin : begin + self._window], append)
            except BusUnavailable as error:
                raise self._stop(OutcomeUnknown(str(error))) from error
            except BaseException:
                self._stop(OutcomeUnknown("an append was interrupted"))
                raise
        return committed

    async def check(self) -> None:
        """Verify ownership of the log while there is nothing to append. Raises `SteppedDown` if another writer has it."""
        async with self._appending:
            self._raise_if_stopped()
            if self._sent:
                return  # their acknowledgements will show it
            try:
                self._reader.move(*self._position)
                end = await self._reader.end()
                while self._reader.offset < end:
                    end = await self._read_on(end)
                self._adopt_reader_position()
                await self._reader.close()
            except BusUnavailable:
                raise
            except Exception as error:
                self._stop(error)
                raise

    async def close(self, timeout: float = 5.0) -> None:
        """Wait for sent records to be committed, at most `timeout` seconds, then stop this incarnation."""
        if self._sent:
            await asyncio.wait([self._sent[-1].append.committed], timeout=timeout)
        if self._committing is not None:
            self._committing.cancel()
        self._stop(SteppedDown("the writer was closed"))
        if self._producer is not None:
            await self._producer.close(timeout)

    # --- sending

    async def _append_first(self, records: Sequence[Record], on_entries: OnEntries) -> Entry | None:
        """Our `WriterStarted`, or None if it did not become part of the chain."""
        prepared = chain_records(self._reader.head, records, self._credentials)
        starts = [after.hash for record, _, after in prepared if record.type == WRITER_STARTED]
        if len(starts) != 1:
            raise ValueError("the first records of a writer include one WriterStarted")
        (ours,) = starts
        batches = await self._send(prepared)
        receipts = [await batch.first for batch in batches]
        last = receipts[-1].offset
        end = await self._reader.end() if last is None else last + batches[-1].count
        started: Entry | None = None
        while self._reader.offset < end:
            entries = await self._reader.read()
            if entries:
                await on_entries(entries)
            else:
                end = min(end, await self._reader.end())
            for entry in entries:
                if entry.hash == ours:
                    started = entry
                elif started is not None and entry.record.type == WRITER_STARTED:
                    raise SteppedDown(f"writer {entry.record.writer} started with epoch {entry.record.epoch}")
        return started

    async def _send(self, prepared: Sequence[PreparedRecord]) -> list[Batch]:
        assert self._producer is not None
        messages = [(None, wire.headers, wire.value) for _, wire, _ in prepared]
        return await self._producer.send_many(AUDIT.name, messages, partition=self._reader.partition)

    async def _send_prepared(self, prepared: Sequence[PreparedRecord], append: _Append) -> None:
        while self._stopped is None and self._sent and len(self._sent) + len(prepared) > self._window:
            self._window_open.clear()
            await self._window_open.wait()
        async with self._sending:
            self._raise_if_stopped()
            batches = await self._send(prepared)
            self._sent_head = prepared[-1][2]
            positions = [(batch.first, index) for batch in batches for index in range(batch.count)]
            self._sent += [_Sent(*each, *position, append) for each, position in zip(prepared, positions, strict=True)]
            self._has_sent.set()

    # --- from acknowledged to committed

    async def _commit_sent(self) -> None:
        try:
            while True:
                while not self._sent:
                    self._has_sent.clear()
                    await self._has_sent.wait()
                sent = self._sent[0]
                receipt = await sent.acknowledgement
                if receipt.offset is not None and receipt.offset + sent.index == self._offset:
                    self._commit(self._offset, receipt.time)
                else:
                    await self._read_back()
        except BusUnavailable as error:
            self._stop(OutcomeUnknown(str(error)))
        except Exception as error:  # noqa: BLE001 - every failure must reach the callers that wait
            self._stop(error)

    def _commit(self, offset: int, append_time: int) -> None:
        sent = self._sent.popleft()
        self._head, self._offset, self._head_offset, self._last_append_time = sent.head, offset + 1, offset, append_time
        append = sent.append
        append.entries.append(Entry(sent.record, sent.wire, offset, append_time, sent.head.hash))
        if len(append.entries) == append.count and not append.committed.done():
            append.committed.set_result(Committed(sent.head, offset, append_time, tuple(append.entries)))
            self._returned = self._position
        self._window_open.set()

    async def _read_back(self) -> None:
        """Read the log back: another writer appended in between, or the broker returned no offset.

        Nothing is sent meanwhile and everything sent is acknowledged first, so the end of the partition lies after it.
        """
        async with self._sending:
            for sent in self._sent:
                await sent.acknowledgement
            self._reader.move(*self._position)
            end = await self._reader.end()
            while self._sent and self._reader.offset < end:
                end = await self._read_on(end)
            if self._sent:
                raise SteppedDown(f"an acknowledged record is not in the log, which ends at offset {end}")
            self._adopt_reader_position()
            await self._reader.close()

    async def _read_on(self, end: int) -> int:
        """Read the next messages. Commits our records among them; another writer's valid records stop this writer.

        Returns the offset to read up to: `end`, or less where the log was truncated meanwhile.
        """
        batch = await self._reader.read_all()
        if not batch:
            return min(end, await self._reader.end())
        for found in batch:
            is_ours = bool(self._sent) and found.hash == self._sent[0].head.hash
            if isinstance(found, Entry):
                if not is_ours:
                    record = found.record
                    raise SteppedDown(f"writer {record.writer} wrote {record.type} with epoch {record.epoch} at seq {record.seq}")
                self._commit(found.offset, found.append_time)
            elif is_ours:
                raise SteppedDown(f"our record at offset {found.offset} does not continue the chain: {found.reason}")
        return end

    def _adopt_reader_position(self) -> None:
        """Move the committed position to the reader's."""
        self._head, self._offset, self._head_offset = self._reader.head, self._reader.offset, self._reader.head_offset

    # --- stopping

    def _raise_if_stopped(self) -> None:
        if self._stopped is not None:
            raise self._stopped

    def _stop(self, error: Exception) -> Exception:
        """Stop this incarnation. Returns the first reason."""
        if self._stopped is None:
            self._stopped = error
            self._reader.move(*self._returned)
            for sent in self._sent:
                if not sent.append.committed.done():
                    sent.append.committed.set_exception(error)
            self._sent.clear()
            self._window_open.set()
        return self._stopped


def chain_records(head: ChainHead, records: Sequence[Record], credentials: Credentials | None = None) -> list[PreparedRecord]:
    """The records with `prev` filled in, their bytes, and the head after each. credentials: sign them, in a signed log.

    Raises `ValueError` for a record that does not continue the chain or is too large.
    """
    prepared = []
    drafts = draft_signed(records) if credentials is not None else None
    for number, unchained in enumerate(records):
        if drafts is not None and credentials is not None:
            record, chained = drafts[number].finish(head.hash, credentials)
        else:
            record = unchained.continuing(head.hash)
            chained = hashed_record(encode(record))
        wire = chained.wire
        where = f"{record.pool}#{record.seq} {record.type}"
        size = message_size(None, wire.headers, wire.value)
        if size > AUDIT_LIMIT:
            raise ValueError(f"{where} has {size} bytes; the limit of an audit record is {AUDIT_LIMIT}")
        after = continues_hashed(head, chained, WriterCheck())
        if isinstance(after, Break):
            raise ValueError(f"{where} does not continue the log: {after.reason}")
        prepared.append((record, wire, after))
        head = after
    return prepared

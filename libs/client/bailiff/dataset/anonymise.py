"""Builds an anonymised log: the allowlisted part of each record in the same order, with its own seqs and chain."""

import re
from collections.abc import AsyncIterable, AsyncIterator, Iterator
from dataclasses import replace

from bailiff_core.canonical import json_bytes
from bailiff_core.records import Break, ChainHead, Record, Wire, continues, encode
from bailiff_core.records.facts import WriterStarted

from .pseudonyms import Pseudonyms
from .rules import Export, of_record

MONDAY = 978_307_200_000_000  # 2001-01-01 00:00 UTC, the week in which every dataset begins
FIRST_MONDAY = 345_600_000_000  # 1970-01-05
WEEK = 604_800_000_000
ENGINE = re.compile(r"(\d+\.\d+\.\d+)([/+])[0-9a-f]+/(\d+)")  # with a plus: written by the simulator


class Anonymiser:
    """Anonymises the records of one log, fed from the first on.

    Times are shifted by whole weeks so that the first record is in the week of 1 January 2001: weekday and time of day are
    preserved, the date is not. Decisions are copied, not made again.
    """

    def __init__(self, names: Pseudonyms) -> None:
        self.names = names
        self.head: ChainHead | None = None
        self.dropped = 0
        self._export: Export | None = None
        self._cycle, self._last_cycle = -1, -1
        self._open: list[Record] = []
        self._ends = False

    def take(self, record: Record) -> Iterator[tuple[Record, Wire]]:
        """Yields finished records and their bytes; those of a decision cycle together."""
        if self._export is None:
            self._export = Export(self.names, _shift(record.time))
        export = self._export
        if record.cycle != self._last_cycle or isinstance(record.data, WriterStarted):
            yield from self.finish()
            self._last_cycle = record.cycle
        data = None if record.data is None else of_record(record.data, export)
        if data is None or record.data is None:
            self.dropped += 1
            export.seqs.append(max(0, export.next_seq - 1))
        else:
            self._cycle += not self._open
            made = type(record.data).model_validate_json(json_bytes(data))
            cause = str(export.seq(int(record.cause))) if record.cause.isdecimal() else ""
            policy = export.seq(record.policy)
            self._open.append(
                replace(
                    record,
                    pool=self.names.name("pool", record.pool),
                    seq=export.next_seq,
                    cycle=self._cycle,
                    cycle_end=False,
                    time=export.time(record.time),
                    prev="",
                    writer=self.names.name("writer", record.writer),
                    engine=_engine(record.engine),
                    policy=policy,
                    data=made,
                    cause=cause,
                    inputs=(),
                    actor="",
                    auth="",
                )
            )
            export.seqs.append(export.next_seq)
            export.next_seq += 1
        self._ends = self._ends or record.cycle_end
        if record.cycle_end:
            yield from self.finish()

    def finish(self) -> Iterator[tuple[Record, Wire]]:
        """Yields the records of the current decision cycle."""
        ready, ends = self._open, self._ends
        self._open, self._ends = [], False
        for at, record in enumerate(ready, 1):
            head = self.head or ChainHead(record.pool)
            linked = replace(record, prev=head.hash, cycle_end=ends and at == len(ready))
            wire = encode(linked)
            after = continues(head, wire)
            if isinstance(after, Break):
                raise ValueError(f"#{record.seq} of the anonymised log: {after.reason}")
            self.head = after
            yield linked, wire


async def anonymised(records: AsyncIterable[Record], anonymiser: Anonymiser) -> AsyncIterator[tuple[Record, Wire]]:
    """The anonymised records of a log."""
    async for record in records:
        for made in anonymiser.take(record):
            yield made
    for made in anonymiser.finish():
        yield made


def _shift(first: int) -> int:
    """µs of whole weeks from the week of this time to the week in which datasets begin."""
    return (first - FIRST_MONDAY) // WEEK * WEEK + FIRST_MONDAY - MONDAY


def _engine(text: str) -> str:
    """Release and logic of the engine, without its digest."""
    found = ENGINE.fullmatch(text)
    return f"{found[1]}{found[2]}{'0' * 12}/{found[3]}" if found else "other"

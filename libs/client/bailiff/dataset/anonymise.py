"""A log made anew from another one: what may go of each record, in the same order, with seqs and a chain of its own."""

import re
from collections.abc import AsyncIterable, AsyncIterator, Iterator
from dataclasses import replace

from bailiff_core.canonical import json_bytes
from bailiff_core.records import Break, ChainHead, Record, Wire, continues, encode
from bailiff_core.records.facts import WriterStarted

from .field_allowlist import Export, named, of_record
from .pseudonyms import Pseudonyms

MONDAY = 978_307_200_000_000  # 2001-01-01 00:00 UTC, the week in which every dataset begins
FIRST_MONDAY = 345_600_000_000  # 1970-01-05
WEEK = 604_800_000_000
ENGINE = re.compile(r"(\d+\.\d+\.\d+)([/+])[0-9a-f]+/(\d+)")  # with a plus the simulator writes it


class Anonymiser:
    """Feed it the records of one log from the first on; what it gives back is a log, too.

    Times are shifted by whole weeks, so that the first record falls into the week of 1 January 2001: days of the week and
    hours of the day stay, the date goes. Nothing that was decided is decided anew.
    """

    def __init__(self, names: Pseudonyms) -> None:
        self.names = names
        self.head: ChainHead | None = None
        self.dropped = 0
        self._export: Export | None = None
        self._turn, self._last_turn = -1, -1
        self._open: list[Record] = []
        self._ends = False

    def take(self, record: Record) -> Iterator[tuple[Record, Wire]]:
        """The records that are ready after this one, and their bytes: those of a turn together."""
        if self._export is None:
            self._export = Export(self.names, _shift(record.time))
        export = self._export
        if record.cycle != self._last_turn or isinstance(record.data, WriterStarted):
            yield from self.finish()
            self._last_turn = record.cycle
        data = None if record.data is None else of_record(record.data, export)
        if data is None or record.data is None:
            self.dropped += 1
            export.seqs.append(max(0, export.next_seq - 1))
        else:
            self._turn += not self._open
            made = type(record.data).model_validate_json(json_bytes(data))
            cause = str(export.seq(int(record.cause))) if record.cause.isdecimal() else ""
            policy = export.seq(record.policy)
            self._open.append(
                replace(
                    record, pool=self.names.name("pool", record.pool), seq=export.next_seq, cycle=self._turn, cycle_end=False,
                    time=export.time(record.time), prev="", writer=str(named("writer")(record.writer, export)),
                    engine=_engine(record.engine), policy=policy, data=made, cause=cause, inputs=(), actor="", auth="",
                )
            )  # fmt: skip
            export.seqs.append(export.next_seq)
            export.next_seq += 1
        self._ends = self._ends or record.cycle_end
        if record.cycle_end:
            yield from self.finish()

    def finish(self) -> Iterator[tuple[Record, Wire]]:
        """What is left of a turn that nobody ended."""
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
    """Every record of a log that may go."""
    async for record in records:
        for made in anonymiser.take(record):
            yield made
    for made in anonymiser.finish():
        yield made


def _shift(first: int) -> int:
    """Whole weeks, from the one of this moment to the one in which datasets begin."""
    return (first - FIRST_MONDAY) // WEEK * WEEK + FIRST_MONDAY - MONDAY


def _engine(text: str) -> str:
    """Release and logic of it, without the digest of the code."""
    found = ENGINE.fullmatch(text)
    return f"{found[1]}{found[2]}{'0' * 12}/{found[3]}" if found else "other"

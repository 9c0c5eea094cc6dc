"""Segments as Parquet: `records/NAME.parquet` has a row per record, with its bytes; `victims/NAME.parquet` a row per victim of a
preemption. `proofs/NAME.json` proves the records to be the sealed ones (`segment_proofs`).

The Parquet files follow from the segment alone: the same segment gives the same rows.
"""

from collections.abc import AsyncGenerator
from datetime import datetime
from typing import TYPE_CHECKING, Any

from bailiff.client.errors import CheckFailed, UsageError
from bailiff_core.records import ChainHead, Record, Wire, decode
from bailiff_core.records.decisions import PreemptionDecided
from bailiff_core.records.subjects import jobs_of
from bailiff_core.records.wire import EPOCH_START, MICROSECOND, UnreadableRecord
from bailiff_log.chain_verifier import ChainVerifier
from bailiff_log.extras import how_to_install

from .chain_report import unbroken
from .log_files import LogFile
from .object_path import AnyPath, put
from .segments import Segment

if TYPE_CHECKING:
    import pyarrow as pa

INSTALL = how_to_install("parquet")
COMPRESSION = "zstd"
Row = dict[str, Any]


def names(segment: Segment) -> tuple[str, str, str]:
    """Its Parquet files of records and of victims, and its proof, in the folder of the segments."""
    name = segment.name.removesuffix(".jsonl.gz")
    return f"records/{name}.parquet", f"victims/{name}.parquet", f"proofs/{name}.json"


def record_row(wire: Wire, record: Record, offset: int, hashed: str) -> Row:
    """A row of `records`. headers and value are the record's bytes, from which its hash follows."""
    return {
        "seq": record.seq,
        "time": record.time,
        "cycle": record.cycle,
        "type": record.type,
        "jobs": list(jobs_of(record)),
        "actor": record.actor,
        "value": wire.value.decode(),
        "headers": [{"name": name, "value": value} for name, value in wire.headers],
        "hash": hashed,
        "offset": offset,
    }


def victim_rows(record: Record) -> list[Row]:
    """Rows of `victims`: who lost how much work, when, to whom."""
    data = record.data
    if not isinstance(data, PreemptionDecided):
        return []
    preemptor = data.preemptor
    return [
        {
            "seq": record.seq,
            "time": record.time,
            "job": each.job,
            "attempt": each.attempt,
            "project": each.project,
            "class": each.class_name,
            "priority": each.priority,
            "gpus": each.gpus,
            "lost_gpu_ms": each.lost_gpu_ms,
            "action": data.action,
            "preemptor": preemptor.job,
            "preemptor_project": preemptor.project,
            "preemptor_class": preemptor.class_name,
            "preemptor_priority": preemptor.priority,
        }
        for each in data.victims
    ]


def schemas() -> "tuple[pa.Schema, pa.Schema]":
    """The columns of `records` and of `victims`."""
    pa = arrow()
    time, text = pa.timestamp("us", tz="UTC"), pa.string()
    header = pa.struct([("name", text), ("value", pa.binary())])
    records = {
        "seq": pa.int64(),
        "time": time,
        "cycle": pa.int64(),
        "type": text,
        "jobs": pa.list_(text),
        "actor": text,
        "value": text,
        "headers": pa.list_(header),
        "hash": text,
        "offset": pa.int64(),
    }
    victims = {
        "seq": pa.int64(),
        "time": time,
        "job": text,
        "attempt": pa.int64(),
        "project": text,
        "class": text,
        "priority": pa.int64(),
        "gpus": pa.int64(),
        "lost_gpu_ms": pa.int64(),
        "action": text,
        "preemptor": text,
        "preemptor_project": text,
        "preemptor_class": text,
        "preemptor_priority": pa.int64(),
    }
    return pa.schema(list(records.items())), pa.schema(list(victims.items()))


class TableBuilder:
    """Collects rows and makes a table of them, a batch at a time, so that few are Python objects."""

    def __init__(self, schema: "pa.Schema") -> None:
        self._schema, self._rows, self._batches = schema, list[Row](), list[Any]()

    def add(self, row: Row) -> None:
        """The next row."""
        self._rows.append(row)
        if len(self._rows) == 5_000:
            self._pack()

    def table(self) -> "pa.Table":
        """All rows."""
        self._pack()
        return arrow().Table.from_batches(self._batches, self._schema)

    def _pack(self) -> None:
        self._batches.append(arrow().RecordBatch.from_pylist(self._rows, self._schema))
        self._rows = []


async def tables_of(folder: AnyPath, segment: Segment) -> "tuple[pa.Table, pa.Table]":
    """The rows of one segment.

    Raises:
        ClientError: The segment's chain is broken, or a record is unreadable.
    """
    records, victims = map(TableBuilder, schemas())
    async for wire, record, offset, head in _records(folder, segment):
        records.add(record_row(wire, record, offset, head.hash))
        for row in victim_rows(record):
            victims.add(row)
    return records.table(), victims.table()


async def _records(folder: AnyPath, segment: Segment) -> AsyncGenerator[tuple[Wire, Record, int, ChainHead]]:
    verifier, advice = ChainVerifier(segment.head.pool), f"see: bailiff audit verify --archive {folder}"
    verifier.resume(segment.head, "", -1, ())
    async for message in LogFile(folder / segment.name).messages():
        wire = verifier.verify(message)
        unbroken(verifier, advice)
        if wire is not None:
            try:
                yield wire, decode(wire), message.offset, verifier.head
            except UnreadableRecord as error:
                raise UsageError(f"{folder / segment.name}: {error}", "use a newer release") from None


def to_bytes(table: "pa.Table") -> bytes:
    pa = arrow()
    import pyarrow.parquet as parquet

    out = pa.BufferOutputStream()
    parquet.write_table(table, out, compression=COMPRESSION)
    return bytes(out.getvalue())


def read_table(path: AnyPath) -> "pa.Table":
    """A Parquet file. Raises `ClientError`."""
    pa = arrow()
    import pyarrow.parquet as parquet

    try:
        return parquet.read_table(pa.BufferReader(path.read_bytes()))
    except FileNotFoundError:
        raise CheckFailed(f"{path} is missing", "write it: bailiff audit parquet FOLDER") from None
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (pa.ArrowException, ValueError) as error:
        raise CheckFailed(f"{path}: not a Parquet file, or damaged: {error}") from None


def write(path: AnyPath, table: "pa.Table") -> bytes:
    """Writes a Parquet file, and returns its bytes."""
    raw = to_bytes(table)
    put(path, raw)
    return raw


def micros(time: datetime) -> int:
    """µs UTC of a row's time."""
    return (time - EPOCH_START) // MICROSECOND


def arrow() -> Any:
    """pyarrow, an optional dependency.

    Raises:
        ClientError: pyarrow is not installed.
    """
    try:
        import pyarrow

        return pyarrow
    except ImportError:
        raise UsageError("Parquet needs pyarrow, which is not installed", INSTALL) from None

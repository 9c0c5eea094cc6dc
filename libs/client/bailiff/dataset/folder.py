"""Writes a dataset as a folder: the anonymised log, the tables as CSV, and `dataset.json`, which describes files and columns."""

import csv
import gzip
import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bailiff.audit.chain_report import entries
from bailiff.audit.log_files import about_line, message_line
from bailiff.audit.log_sources import Source
from bailiff.client.errors import NotFound, UsageError
from bailiff.client.safe_write import put
from bailiff_bus.messages.seals import LogSealed
from bailiff_bus.port import Message
from bailiff_bus.topics import AUDIT
from bailiff_core.engine import RELEASE
from bailiff_core.fold import apply
from bailiff_core.model.state import PoolState
from bailiff_log.chain_verifier import ChainVerifier

from .anonymise import MONDAY, Anonymiser, anonymised
from .columns import ABOUT, TABLES
from .pseudonyms import Pseudonyms
from .reidentification import small_groups
from .tables import Tables

MANIFEST, LOG, FORMAT = "dataset.json", "log.jsonl.gz", 1


@dataclass
class Dataset:
    """What was written.

    Attributes:
        reidentification_risks: Sentences for the exporter to review before publication.
    """

    records: int
    left_out: int
    bytes: int
    reidentification_risks: list[str]


async def write_dataset(folder: Path, source: Source, names: Pseudonyms, licence: str, *, name_original: bool) -> Dataset:
    """Writes the dataset of a whole log.

    Args:
        name_original: Identify the original log in the manifest.

    Raises:
        ClientError: The first records are missing, the chain is broken, or the folder has other files.
    """
    if source.start.next_seq:
        text = f"the source begins with record {source.start.next_seq}: a dataset needs the log from its first record on"
        raise UsageError(text, "put the earlier segments into the folder, with a manifest that names them")
    _refuse_others(folder)
    verifier, anonymiser, tables = ChainVerifier(source.pool), Anonymiser(names), Tables(MONDAY)
    state = PoolState()
    lines = [about_line(names.name("pool", source.pool), 0)]
    whole = entries(verifier, source.messages, "nothing was written; see: bailiff audit verify")
    async for record, wire in anonymised((entry.record async for entry in whole), anonymiser):
        apply(state, record)
        tables.note(record, state)
        lines.append(message_line(Message(AUDIT.name, 0, record.seq, record.time, None, wire.headers, wire.value)))
    if anonymiser.head is None:
        raise NotFound(f"the log of {source.pool} is empty")
    files = {LOG: _packed("".join(lines))}
    files |= {f"{name}.csv.gz": _packed(_csv(tables.rows[name], list(TABLES[name]))) for name in TABLES}
    manifest: dict[str, Any] = {
        "bailiff_dataset": FORMAT,
        "made_by": f"bailiff {RELEASE}",
        "licence": licence,
        "times": "µs since 2001-01-01T00:00:00Z",
        "log": {"file": LOG, "pool": anonymiser.head.pool, "records": anonymiser.head.next_seq, "hash": anonymiser.head.hash},
        "records_left_out": anonymiser.dropped,
        "files": {name: {"bytes": len(raw), "sha256": hashlib.sha256(raw).hexdigest()} for name, raw in files.items()},
        "tables": {
            name: {
                "file": f"{name}.csv.gz",
                "rows": len(tables.rows[name]),
                "about": ABOUT[name],
                "columns": [{"name": each, "unit": unit, "about": about} for each, (unit, about) in columns.items()],
            }
            for name, columns in TABLES.items()
        },
    }
    if name_original:
        manifest["original"] = _original(source, verifier)
    for name, raw in files.items():
        put(folder / name, raw)
    put(folder / MANIFEST, (json.dumps(manifest, indent=1, ensure_ascii=False) + "\n").encode())
    written = sum(len(raw) for raw in files.values())
    return Dataset(anonymiser.head.next_seq, anonymiser.dropped, written, small_groups(tables.rows))


def _original(source: Source, verifier: ChainVerifier) -> dict[str, Any]:
    """Identifies the original log: its end, and its newest seal."""
    sealed = [seal for seal in source.seals if isinstance(seal, LogSealed) and seal.size <= verifier.head.next_seq]
    about: dict[str, Any] = {"pool": source.pool, "records": verifier.head.next_seq, "hash": verifier.head.hash}
    return about | ({"sealed": {"size": sealed[-1].size, "root": sealed[-1].root, "key": sealed[-1].key}} if sealed else {})


def _csv(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> str:
    text = io.StringIO()
    out = csv.writer(text, lineterminator="\n")
    out.writerow(columns)
    for row in rows:
        out.writerow(_cell(row.get(column)) for column in columns)
    return text.getvalue()


def _cell(value: Any) -> str:
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _packed(text: str) -> bytes:
    return gzip.compress(text.encode(), compresslevel=9, mtime=0)  # reproducible


def _refuse_others(folder: Path) -> None:
    ours = (MANIFEST, LOG, *(f"{name}.csv.gz" for name in TABLES))
    found = [folder] if folder.is_file() else list(folder.iterdir()) if folder.exists() else []
    if any(each.name.removesuffix(".draft") not in ours for each in found):
        raise UsageError(f"{folder} exists and is not a dataset", "use a new folder")

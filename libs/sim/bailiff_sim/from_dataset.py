"""Builds a workload from a published dataset (`bailiff audit export --anonymise`, docs/how-to/dataset.md)."""

import json
from collections.abc import Iterator
from pathlib import Path

from bailiff_core.records import ChainHead, Record, Wire, follow
from bailiff_core.records.chain import Break

from .from_log import FromLog, from_log
from .text_files import text_of

MANIFEST = "dataset.json"


def from_dataset(folder: Path) -> FromLog:
    """Returns the workload of the dataset's log.

    Raises:
        ValueError: The folder is not a complete dataset.
    """
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        log = folder / manifest["log"]["file"]
        pool = str(manifest["log"]["pool"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{folder} is not a dataset: {MANIFEST}: {error!r}") from None
    return from_log(_records(log, pool), folder.name)


def _records(log: Path, pool: str) -> Iterator[Record]:
    head = ChainHead(pool)
    with text_of(log, errors="strict") as lines:
        next(lines)
        for line in lines:
            found = json.loads(line)
            wire = Wire(tuple((name, value.encode()) for name, value in found["headers"]), found["value"].encode())
            after = follow(head, wire)
            if isinstance(after, Break):
                raise ValueError(f"{log}: record {head.next_seq}: {after.reason}")
            head, record = after
            yield record

"""Closed stretches of a log, as files to keep for years: so many records each, compressed, with a manifest.

A stretch is a file of `logfile`, gzipped. `manifest.json` says for each which records it holds, its SHA-256, and where the
log stood before it (head and Merkle tree), so that a stretch can be checked without those before it. The seals, and the keys
that made them, stand in the manifest, too. Where the newest file does not end at a seal, `closing` holds what leads to the next.
"""

import gzip
import hashlib
import io
import json
from collections.abc import AsyncGenerator, AsyncIterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypedDict

from bailiff_bus.messages import LogSealed, SealingKey, SealsSetAside
from bailiff_bus.port import Message
from bailiff_bus.seals import Closing, SealBody, standing
from bailiff_core.records import ChainHead
from bailiff_core.records.merkle import Frontier, consistency_path, leaf_hash

from .logfile import LogFile, about_line, message_line
from .problem import ExitCode, Problem
from .walk import Walk, unbroken
from .written import put

MANIFEST, FORMAT = "manifest.json", 1
COMPRESSION = 6


class Stretch(TypedDict):
    """One file. head, peaks: the chain and the Merkle tree before its first record; after: the hash of its last record."""

    name: str
    first_seq: int
    last_seq: int
    messages: int
    bytes: int
    sha256: str
    head: dict[str, Any]
    peaks: list[str]
    after: str


class StretchFolder:
    """A folder of stretches, read one after the other. Raises `Problem` with file and place for what it cannot read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        manifest = _manifest(folder)
        if manifest is None:
            raise Problem(ExitCode.USAGE, f"{folder}: there is no {MANIFEST}", "made by: bailiff audit export FOLDER --stretch N")
        try:
            self.domain, self.partition = str(manifest["domain"]), int(manifest["partition"])
            self.stretches: list[Stretch] = list(manifest["stretches"])
            self.seals = [seal_from(each) for each in manifest["seals"]]
            first = self.stretches[0]
            self.start = ChainHead(**first["head"])
            self.tree = Frontier(first["first_seq"], [bytes.fromhex(each) for each in first["peaks"]])
            closing = manifest.get("closing")
            if closing is not None:
                closing = Closing(int(closing["size"]), tuple(bytes.fromhex(each) for each in closing["path"]))
            self.closing: Closing | None = closing
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise Problem(ExitCode.USAGE, f"{folder / MANIFEST}: a part of it is missing or changed: {error!r}") from None

    async def messages(self) -> AsyncGenerator[Message, None]:
        """Every message of every file."""
        for stretch in self.stretches:
            async for message in LogFile(self.folder / stretch["name"]).messages():
                yield message

    def faults(self) -> list[str]:
        """Files that are not the ones that the manifest names, one sentence each."""
        found, next_seq = [], self.start.next_seq
        for stretch in self.stretches:
            path = self.folder / stretch["name"]
            if stretch["first_seq"] != next_seq:
                found.append(f"records {next_seq} to {stretch['first_seq'] - 1} are in none of the files")
            next_seq = stretch["last_seq"] + 1
            if not path.exists():
                found.append(f"{path.name}, which holds records {stretch['first_seq']} to {stretch['last_seq']}, is missing")
            elif hashlib.sha256(path.read_bytes()).hexdigest() != stretch["sha256"]:
                where = f"records {stretch['first_seq']} to {stretch['last_seq']}"
                found.append(f"{path.name} ({where}) is not the file that was written: its SHA-256 differs")
        return found


async def write_stretches(
    folder: Path,
    size: int,
    start: ChainHead,
    tree: Frontier,
    partition: int,
    messages: AsyncIterable[Message],
    published: Sequence[SealBody],
) -> list[Stretch]:
    """Write every whole stretch of `size` records that is not there yet; where there are seals, only what is under them.

    start, tree: where the log stands before its first message. published: its seals and keys. Returns the new ones. Raises
    `Problem` where the log does not go on from the stretches that are there.
    """
    domain = start.domain
    manifest = _manifest(folder)
    known: list[Stretch] = list(manifest["stretches"]) if manifest is not None else []
    if manifest is not None and (manifest["domain"], manifest["size"]) != (domain, size):
        text = f"{folder} holds stretches of {manifest['size']} records of {manifest['domain']}"
        raise Problem(ExitCode.USAGE, text, "choose another folder")
    end = known[-1]["last_seq"] + 1 if known else start.next_seq
    if start.next_seq % size or start.next_seq > end:
        text = f"the log is there from record {start.next_seq} on only, and the folder ends before record {end}"
        raise Problem(ExitCode.USAGE, text, "use the folder that has the records before it, or a size that divides that")
    seals = standing(published)
    sizes = [seal.size for seal in seals if isinstance(seal, LogSealed)]
    walk, tree, base = Walk(domain), tree.copy(), tree
    walk.resume(start, "", -1, ())
    before, lines, later, written = start, list[str](), list[bytes](), list[Stretch]()
    by_first = {stretch["first_seq"]: stretch for stretch in known}
    async for message in messages:
        wire = walk.judge(message)
        unbroken(walk, "nothing beyond the last whole stretch was written; see: bailiff audit verify")
        lines.append(message_line(message))
        if wire is None:
            continue
        later.append(leaf_hash(bytes.fromhex(walk.head.hash)))
        tree.append(later[-1])
        if walk.head.next_seq % size:
            continue
        first = walk.head.next_seq - size
        if sizes and walk.head.next_seq > sizes[-1]:
            break
        there = by_first.get(first)
        if there is None:
            there = _write(folder, domain, partition, lines, before, base.peaks, walk.head)
            written.append(there)
        elif there["after"] != walk.head.hash:
            text = f"{there['name']} ends with another record {walk.head.next_seq - 1} than the log: one of them was changed"
            raise Problem(ExitCode.FOUND_WRONG, text, "nothing was overwritten; bailiff audit verify tells which")
        before, base, lines, later = walk.head, tree.copy(), [], []
    if written or manifest is not None:
        stretches = [*known, *written]
        covered = stretches[-1]["last_seq"] + 1 if stretches else 0
        kept = [body for body in seals if isinstance(body, SealingKey) or body.size <= covered]
        above = next((body for body in seals if isinstance(body, LogSealed) and body.size > covered), None)
        closing = None
        if covered not in sizes and above is not None:
            closing = _closing(base, later, above)
            kept = [body for body in seals if isinstance(body, SealingKey) or body.size <= above.size]
        _write_manifest(folder, domain, partition, size, stretches, kept, closing)
    return written


def _closing(base: Frontier, later: list[bytes], seal: LogSealed) -> Closing:
    """What leads from the end of the stretches to the seal above them."""
    leaves = later[: seal.size - base.size]
    tree = base.copy()
    for leaf in leaves:
        tree.append(leaf)
    if tree.root().hex() != seal.root:
        text = f"the log's first {seal.size} records are not those that were sealed"
        raise Problem(ExitCode.FOUND_WRONG, text, "see: bailiff audit verify")
    return Closing(base.size, tuple(consistency_path(base.size, seal.size, base.followed_by(leaves))))


def seal_to(body: SealBody) -> dict[str, Any]:
    """A seal or a key as JSON."""
    return {"type": body.TYPE, "data": body.to_data()}


def seal_from(data: Any) -> SealBody:
    """What `seal_to` wrote. Raises `ValueError`, `KeyError` or `TypeError` for anything else."""
    kinds: dict[str, type[SealBody]] = {each.TYPE: each for each in (LogSealed, SealingKey, SealsSetAside)}
    return kinds[data["type"]].model_validate_json(json.dumps(data["data"]))


def _write(
    folder: Path, domain: str, partition: int, lines: list[str], before: ChainHead, peaks: list[bytes], after: ChainHead
) -> Stretch:
    name = f"{domain}-{before.next_seq:012d}-{after.next_seq - 1:012d}.jsonl.gz"
    packed = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", fileobj=packed, compresslevel=COMPRESSION, mtime=0) as out:  # the same each time
        out.write(about_line(domain, partition).encode())
        out.writelines(line.encode() for line in lines)
    raw = packed.getvalue()
    put(folder / name, raw)
    return {
        "name": name, "first_seq": before.next_seq, "last_seq": after.next_seq - 1, "messages": len(lines), "bytes": len(raw),
        "sha256": hashlib.sha256(raw).hexdigest(), "head": asdict(before), "peaks": [each.hex() for each in peaks],
        "after": after.hash,
    }  # fmt: skip


def _write_manifest(
    folder: Path, domain: str, partition: int, size: int, stretches: list[Stretch], seals: Sequence[LogSealed | SealingKey],
    closing: Closing | None,
) -> None:  # fmt: skip
    manifest = {
        "bailiff_stretches": FORMAT, "domain": domain, "partition": partition, "size": size, "stretches": stretches,
        "seals": [seal_to(seal) for seal in seals],
    }  # fmt: skip
    if closing is not None:
        manifest["closing"] = {"size": closing.size, "path": [each.hex() for each in closing.path]}
    put(folder / MANIFEST, (json.dumps(manifest, indent=1) + "\n").encode())


def _manifest(folder: Path) -> dict[str, Any] | None:
    path = folder / MANIFEST
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if found["bailiff_stretches"] != FORMAT:
            raise ValueError(f"format {found['bailiff_stretches']}")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Problem(ExitCode.USAGE, f"{path}: is no manifest of stretches: {error!r}") from None
    return dict(found)

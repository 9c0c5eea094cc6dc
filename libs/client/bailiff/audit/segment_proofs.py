"""The proof beside the Parquet files of a segment: its rows are the sealed records, shown without the segment and the log.

It holds the Merkle tree before the first record, the path from the tree after the last one to a seal, that seal, and the sealing
keys up to the one that signed it. The hash of each record follows from its bytes in the row; a tree made of other hashes does not
lead to the signed root.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pydantic import ValidationError

from bailiff.client.errors import CheckFailed, ClientError, UsageError
from bailiff_bus.messages.seals import LogSealed, SealingKey
from bailiff_core.records import Wire, decode
from bailiff_core.records.merkle import Frontier, consistency_path, consistent, leaf_hash
from bailiff_core.records.wire import UnreadableRecord, record_hash
from bailiff_log.seals import SealChain, VerificationFailed, check_seal, verified_keys

from . import parquet_files
from .object_path import AnyPath, put
from .proofs import CheckedProof, not_proved, proved_by
from .segments import Count, Digest, Segment, SegmentFolder, Strict

if TYPE_CHECKING:
    import pyarrow as pa


class Step(Strict):
    """A Merkle tree between the end of a segment and its seal, and the path to it: the seal is beyond the end of the folder."""

    size: Count
    root: Digest
    path: list[Digest]


class SegmentProof(Strict):
    """`proofs/NAME.json`.

    Attributes:
        peaks: The Merkle tree before the first record.
        path: From the end of the segment, or from the step after it, to the seal's tree.
    """

    bailiff_segment_proof: Literal[1]
    pool: str
    first_seq: Count
    last_seq: Count
    peaks: list[Digest]
    path: list[Digest]
    step: Step | None = None
    seal: dict[str, Any]
    keys: list[dict[str, Any]]


@dataclass(slots=True)
class Unproved:
    """A segment whose proof waits for the records up to its seal.

    Attributes:
        tree: After its last record.
        leaves: Of the records after that.
    """

    segment: Segment
    tree: Frontier
    seal: LogSealed
    leaves: list[bytes]


async def write_all(folder: SegmentFolder, chain: SealChain) -> list[Segment]:
    """Writes Parquet files and a proof for each segment that has no proof yet.

    The proof is written last, so an interrupted segment is written again.

    Args:
        chain: The valid seals.

    Returns:
        The segments that got a proof.

    Raises:
        ClientError: The records are not the sealed ones.
    """
    written, waiting = list[Segment](), list[Unproved]()
    for segment in folder.segments:
        is_new = not _exists(folder.folder / parquet_files.names(segment)[2])
        if not is_new and not waiting:
            continue
        records, victims = await parquet_files.tables_of(folder.folder, segment)
        leaves = [leaf_hash(bytes.fromhex(each)) for each in records.column("hash").to_pylist()]
        for each in list(waiting):
            each.leaves += leaves[: each.seal.size - each.tree.size - len(each.leaves)]
            if each.tree.size + len(each.leaves) == each.seal.size:
                path = consistency_path(each.tree.size, each.seal.size, each.tree.followed_by(each.leaves))
                _write(folder, chain, each, path)
                waiting.remove(each)
        if not is_new:
            continue
        of_records, of_victims, _ = parquet_files.names(segment)
        parquet_files.write(folder.folder / of_records, records)
        parquet_files.write(folder.folder / of_victims, victims)
        written.append(segment)
        tree = segment.tree
        tree.extend(leaves)
        seal = next((each for each in chain.seals if each.size >= tree.size), None)
        if seal is None:
            raise CheckFailed(f"{folder.folder}: {segment.records} are under no seal")
        if seal.size == tree.size:
            _write(folder, chain, Unproved(segment, tree, seal, []), [])
        else:
            waiting.append(Unproved(segment, tree, seal, []))
    for each in waiting:
        closing = folder.closing
        if closing is None or closing.size != each.tree.size + len(each.leaves):
            raise CheckFailed(f"{folder.folder}: nothing shows that {each.segment.records} are under a seal")
        _write(folder, chain, each, closing.path, _step(each) if each.leaves else None)
    return written


def _step(what: Unproved) -> Step:
    end = what.tree.copy()
    end.extend(what.leaves)
    path = consistency_path(what.tree.size, end.size, what.tree.followed_by(what.leaves))
    return Step(size=end.size, root=end.root().hex(), path=[each.hex() for each in path])


def _write(folder: SegmentFolder, chain: SealChain, what: Unproved, path: Sequence[bytes], step: Step | None = None) -> None:
    segment, seal = what.segment, what.seal
    proof = SegmentProof(
        bailiff_segment_proof=1,
        pool=folder.pool,
        first_seq=segment.first_seq,
        last_seq=segment.last_seq,
        peaks=segment.peaks,
        path=[each.hex() for each in path],
        step=step,
        seal=seal.to_data(),
        keys=[each.to_data() for each in chain.key_messages[: chain.keys.index(seal.key) + 1]],
    )
    if not _leads_to_seal(what.tree, proof, seal):
        text = f"{segment.name}: its records are not those that were sealed"
        raise CheckFailed(text, f"see: bailiff audit verify --archive {folder.folder}")
    document = proof.model_dump(exclude=None if step is not None else {"step"})
    put(folder.folder / parquet_files.names(segment)[2], (json.dumps(document, indent=1) + "\n").encode())


def _leads_to_seal(tree: Frontier, proof: SegmentProof, seal: LogSealed) -> bool:
    """Whether the tree after the segment is the beginning of the seal's. Raises `ValueError`."""
    size, root, step = tree.size, tree.root(), proof.step
    if step is not None:
        if not consistent(size, step.size, [bytes.fromhex(each) for each in step.path], root, bytes.fromhex(step.root)):
            return False
        size, root = step.size, bytes.fromhex(step.root)
    return consistent(size, seal.size, [bytes.fromhex(each) for each in proof.path], root, bytes.fromhex(seal.root))


def _exists(path: AnyPath) -> bool:
    try:
        with path.open("rb"):
            return True
    except FileNotFoundError:
        return False
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror or error}") from None


# --- checks


class SegmentChecked(CheckedProof):
    """The result of `bailiff audit check-proof` for a segment."""

    first_seq: int
    last_seq: int


def is_segment_proof(path: AnyPath) -> bool:
    """Whether this is a proof of a segment, and not of one record."""
    try:
        return b'"bailiff_segment_proof"' in path.read_bytes()
    except OSError:
        return False  # what reads it next says why


def check_segment(path: AnyPath, trusted: Iterable[str]) -> SegmentChecked:
    """The result as data.

    Raises:
        ClientError: A file cannot be read.
    """
    try:
        proof, seal, keys = check_files(path, trusted)
    except VerificationFailed as no:
        return {**not_proved(str(no)), "first_seq": -1, "last_seq": -1}
    return {**proved_by(seal, proof.pool, keys), "first_seq": proof.first_seq, "last_seq": proof.last_seq}


def check(
    raw: bytes, records: "pa.Table", victims: "pa.Table", trusted: Iterable[str] = ()
) -> tuple[SegmentProof, LogSealed, list[str]]:
    """The proof, its seal, and the keys from the trusted one to the seal's. Raises `VerificationFailed`.

    Every column follows from the record's bytes, which are proved; those of another value are named.
    """
    try:
        proof = SegmentProof.model_validate_json(raw)
        seal = LogSealed.model_validate_json(json.dumps(proof.seal))
        keys = [SealingKey.model_validate_json(json.dumps(each)) for each in proof.keys]
        tree = Frontier(proof.first_seq, map(bytes.fromhex, proof.peaks))
    except (ValidationError, ValueError, RecursionError):
        raise VerificationFailed("not a valid proof, or incomplete") from None
    check_seal(seal, proof.pool)
    known = verified_keys(seal, proof.pool, keys, list(trusted))
    _check_columns(proof, records, victims)
    tree.extend(leaf_hash(bytes.fromhex(each)) for each in records.column("hash").to_pylist())
    if tree.size != proof.last_seq + 1 or not _leads_to_seal(tree, proof, seal):
        raise VerificationFailed(f"records {proof.first_seq} to {proof.last_seq} are not those under the seal over {seal.size}")
    return proof, seal, known


def _check_columns(proof: SegmentProof, records: "pa.Table", victims: "pa.Table") -> None:
    of_records, of_victims = parquet_files.schemas()
    if not records.schema.equals(of_records) or not victims.schema.equals(of_victims):
        raise VerificationFailed("the files have other columns than this release writes")
    expected = parquet_files.TableBuilder(of_victims)
    for number, row in enumerate(_rows(records), proof.first_seq):
        try:
            wire = Wire(tuple((each["name"], each["value"]) for each in row["headers"]), row["value"].encode())
            record = decode(wire)
        except (UnreadableRecord, AttributeError, TypeError, ValueError):
            raise VerificationFailed(f"the row of record {number} is not a record") from None
        derived = parquet_files.record_row(wire, record, row["offset"], record_hash(wire))
        derived |= {"headers": row["headers"], "value": row["value"], "time": row["time"]}
        wrong = [name for name, value in derived.items() if row[name] != value]
        if record.seq != number or parquet_files.micros(row["time"]) != record.time:
            wrong.append("seq" if record.seq != number else "time")
        if wrong:
            raise VerificationFailed(f"column {wrong[0]} of record {number} does not follow from its bytes")
        for each in parquet_files.victim_rows(record):
            expected.add(each)
    if not expected.table().equals(victims):
        raise VerificationFailed("the victims do not follow from the records")


def _rows(table: "pa.Table") -> Iterable[dict[str, Any]]:
    for batch in table.to_batches(max_chunksize=5_000):
        yield from batch.to_pylist()


def check_files(proof: AnyPath, trusted: Iterable[str] = ()) -> tuple[SegmentProof, LogSealed, list[str]]:
    """Checks `proofs/NAME.json` with the Parquet files beside its folder. Raises `VerificationFailed` and `ClientError`."""
    name, folder = proof.name.removesuffix(".json"), proof.parent.parent
    try:
        raw = proof.read_bytes()
    except FileNotFoundError:
        raise VerificationFailed(f"{proof} is missing") from None
    tables = [parquet_files.read_table(folder / f"{kind}/{name}.parquet") for kind in ("records", "victims")]
    return check(raw, tables[0], tables[1], trusted)


def faults(folder: SegmentFolder, trusted: Iterable[str]) -> list[str]:
    """Parquet files of the folder that are missing, or are not what its proof shows; each by name. The segments were verified.

    Records that a seal proves are those of the segment, since that is under the same seals.
    """
    found = []
    for segment in folder.segments:
        name = parquet_files.names(segment)[2]
        try:
            proof, _, _ = check_files(folder.folder / name, trusted)
            if (proof.pool, proof.first_seq, proof.last_seq) != (folder.pool, segment.first_seq, segment.last_seq):
                raise VerificationFailed("it is the proof of other records")
        except VerificationFailed as no:
            found.append(f"{name}: {no}")
        except ClientError as no:
            found.append(str(no))
    return found

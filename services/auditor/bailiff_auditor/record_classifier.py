"""Verifies the chain, classifies messages as records or orphans, and prepares the rows to write."""

from dataclasses import dataclass, replace

from asyncpg import Connection

from bailiff_bus.port import Message
from bailiff_core.records import Wire, record_hash
from bailiff_core.records.merkle import leaf_hash
from bailiff_core.records.wire import UnreadableRecord
from bailiff_log.archive import pack_layout
from bailiff_log.archive_rows import record_bytes
from bailiff_log.chain_verifier import ChainVerifier
from bailiff_log.read_model import ReadModel

from .archive_writer import Batch, Position, orphan_row

MAX_KNOWN_ORPHANS = 10_000


@dataclass
class RecordClassifier:
    """Classifier of one pool, from a position on. unreadable: error of the record at which to stop."""

    verifier: ChainVerifier
    _model: ReadModel
    unreadable: UnreadableRecord | None = None

    @classmethod
    async def at(cls, position: Position, connection: Connection) -> "RecordClassifier":
        """A classifier resumed after the archived records."""
        verifier, model = ChainVerifier(position.head.pool), ReadModel(position.id)
        orphans = await connection.fetch(
            'SELECT hash FROM orphans WHERE pool = $1 ORDER BY "offset" DESC LIMIT $2', position.id, MAX_KNOWN_ORPHANS
        )
        verifier.resume(position.head, position.identity, position.next_offset - 1, (row["hash"] for row in orphans))
        await model.load(connection)
        return cls(verifier, model)

    @property
    def stopped(self) -> bool:
        """Whether the chain is broken, or a record is not readable by this release."""
        return self.unreadable is not None or self.verifier.broken is not None

    def classify(self, batch: Batch, messages: list[Message]) -> None:
        """Add these messages to the batch, up to the first that breaks the chain or that this release cannot read."""
        verifier, model, pool, hashes = self.verifier, self._model, batch.before.id, list[bytes]()
        head_offset, next_offset = batch.after.head_offset, batch.after.next_offset
        for message in messages:
            try:
                record = verifier.read(message)
            except UnreadableRecord as error:
                self.unreadable = error  # records before it are written first
                break
            if record is None:
                if verifier.broken is not None:
                    break
                orphan = verifier.latest_orphan
                assert orphan is not None
                digest = record_hash(Wire(message.headers, message.value))
                batch.orphans.append(orphan_row(pool, message, orphan["kind"], orphan["reason"], digest))
            else:
                hashed = bytes.fromhex(verifier.head.hash)
                hashes.append(hashed)
                model.note(record)
                batch.records.append(record_bytes(pool, message, pack_layout(*verifier.laid), record, hashed))
                head_offset = message.offset
            next_offset = message.offset + 1
        leaves, tree = [leaf_hash(hashed) for hashed in hashes], batch.after.tree.copy()
        tree.extend(leaves)
        batch.leaves += leaves
        batch.after = replace(
            batch.after,
            head=verifier.head,
            identity=verifier.identity,
            head_offset=head_offset,
            next_offset=next_offset,
            tree=tree,
            broken="",
        )

    def take_rows(self) -> dict[str, str]:
        """Rows of the read model changed since the last call, as `ReadModel.take`."""
        return self._model.take()

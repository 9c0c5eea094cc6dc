"""A log with seals, cosigned by witnesses."""

from collections.abc import AsyncGenerator
from functools import partial
from pathlib import Path

from tests.kits.log_builder import Story

from bailiff.audit.log_sources import Source
from bailiff.witness.witnesses import WitnessAddress
from bailiff_bus.messages.seals import CheckpointCosigned, LogSealed
from bailiff_bus.port import Message
from bailiff_core.records import ChainHead, Wire
from bailiff_core.records.merkle import Frontier, leaf_hash
from bailiff_core.records.wire import record_hash
from bailiff_log.checkpoints import log_key, origin_of, witness_key
from bailiff_log.cosigner import Cosigner
from bailiff_log.seals import SealBody, make_key, make_seal

KEY = b"\x21" * 32
NOW = 1_800_000_000_000_000
NAMES = {"w1": b"\x31" * 32, "w2": b"\x32" * 32}
KEYS = {name: witness_key(name, private) for name, private in NAMES.items()}
BOTH = [WitnessAddress(key) for key in KEYS.values()]


def story(later: str) -> list[Wire]:
    """A log. later: names the jobs after its first records, which are the same in every story."""
    built = Story(pool="pool-a")
    built.node("n1", gpus=4)
    for number in range(3):
        built.submit(f"train-{number}", gpus=1)
    for number in range(4):
        built.submit(f"{later}-{number}", gpus=1)
    return built.wires


OURS, FORK = story("ours"), story("fork")
SAME = next(at for at, (ours, theirs) in enumerate(zip(OURS, FORK, strict=True)) if ours != theirs)
END = len(OURS)
SIZES = (SAME - 1, END - 2, END)


class SealedLog:
    """A log with seals at some sizes."""

    def __init__(self, wires: list[Wire], sizes: tuple[int, ...] = SIZES) -> None:
        self.wires = wires
        self.hashes = [record_hash(wire) for wire in wires]
        self.seals: list[SealBody] = [make_key(KEY, "pool-a", self.hashes[0])]
        tree, before, base = Frontier(), 0, Frontier()
        for size in sizes:
            leaves = [leaf_hash(bytes.fromhex(each)) for each in self.hashes[before:size]]
            tree.extend(list(leaves))
            subtree = base.followed_by(leaves)
            seal = make_seal(KEY, "pool-a", self.hashes[0], tree, self.hashes[size - 1], NOW, before, subtree)
            self.seals.append(seal)
            before, base = size, tree.copy()

    def source(self, records: int = END, cosigned: list[CheckpointCosigned] | None = None) -> Source:
        """The log cut after so many records, with its seals up to there."""
        seals = [seal for seal in self.seals if not isinstance(seal, LogSealed) or seal.size <= records]
        return Source("pool-a", 0, partial(self._messages, records), seals, ChainHead("pool-a"), cosignatures=cosigned or [])

    async def _messages(self, records: int) -> AsyncGenerator[Message, None]:
        for offset, wire in enumerate(self.wires[:records]):
            yield Message("bailiff.audit", 0, offset, NOW, None, wire.headers, wire.value)

    def cosigned_by(self, folder: Path, *names: str, until: int = END) -> list[CheckpointCosigned]:
        """What these witnesses publish about the seals up to a size."""
        found = []
        for name in names:
            key = KEYS[name]
            witness = Cosigner(folder / name, key, NAMES[name], lambda: NOW)
            for seal in self.seals:
                if isinstance(seal, LogSealed) and seal.size <= until:
                    origin = origin_of("pool-a", self.hashes[0])
                    proof = [bytes.fromhex(each) for each in seal.consistency]
                    note = witness.add_checkpoint(seal.checkpoint, [log_key(origin, seal.key)], seal.previous_size, proof)
                    found.append(CheckpointCosigned(witness=str(key), checkpoint=str(note)))
            witness.close()
        return found


LOG, OTHER = SealedLog(OURS), SealedLog(FORK)

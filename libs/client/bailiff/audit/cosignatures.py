"""Compares a log with what witnesses have cosigned: a tail that was cut, an older copy, another history of the same log."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypedDict

from bailiff.witness.witnesses import Unreachable, WitnessAddress, newest_of
from bailiff_bus.messages.seals import CheckpointCosigned
from bailiff_core.humanize import count_text
from bailiff_core.records import ChainHead
from bailiff_core.records.merkle import Frontier
from bailiff_core.records.wire import time_text
from bailiff_log.checkpoints import Checkpoint, origin_of, parse_origin
from bailiff_log.cosignatures import CosignatureBody, Cosigned, cosigned_note
from bailiff_log.seals import SealChain
from bailiff_log.signed_notes import Note, NoteError

SECOND = 1_000_000


class Witnessed(TypedDict):
    """The result.

    Attributes:
        cosigned: The newest position of the log that `wanted` witnesses (at least one) have cosigned, 0 for none.
        by: Their names.
        at: When the last of them did.
        named: Whether their keys were given, and not only published with the cosignatures.
        unsealed: Witnesses are wanted, and no seal exists yet that one could have cosigned.
        problems: What contradicts the log, as sentences.
    """

    wanted: int
    cosigned: int
    by: list[str]
    at: str
    named: bool
    unsealed: bool
    problems: list[str]


@dataclass
class CosignatureVerifier:
    """Verifies the records of a log against cosigned checkpoints: `add` each record in order, then `finish`.

    Attributes:
        witnesses: Whose cosignatures count. Without any, those published with the cosignatures count, for checkpoints that a
            key of the log signed.
        asked: What they answered over HTTP.
        problems: Found so far.
    """

    chain: SealChain
    witnesses: Sequence[WitnessAddress]
    published: Iterable[CosignatureBody]
    wanted: int = 0
    asked: Sequence[Cosigned] = ()
    problems: list[str] = field(default_factory=list)
    _at_size: dict[int, list[Cosigned]] = field(default_factory=dict)
    _matching: dict[int, list[Cosigned]] = field(default_factory=dict)
    _end: int = 0
    _kept: dict[int, int | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        others: dict[str, list[Cosigned]] = {}
        for each in self._all():
            origin = parse_origin(each.checkpoint.origin)
            if self._is_of_this_log(each):
                self._at_size.setdefault(each.checkpoint.size, []).append(each)
            elif origin is not None and origin[0] == self.chain.pool and origin[1] != self.chain.identity:
                others.setdefault(origin[1], []).append(each)
        if self.witnesses:
            for identity, found in others.items():
                self.problems.append(f"{_names(found)} cosigned another log of {self.chain.pool}, {identity[:16]}…")

    @property
    def sizes(self) -> frozenset[int]:
        """The sizes of the log at which a checkpoint has not been compared: `add` needs these records only, and the last one."""
        return frozenset(self._at_size)

    def add(self, head: ChainHead, tree: Frontier) -> None:
        """Add the next record: chain head and tree after it."""
        self._end = head.next_seq
        found = self._at_size.pop(tree.size, None)
        if found is None:
            return
        root = tree.root()
        same = [each for each in found if each.checkpoint.root == root]
        if same:
            self._matching[tree.size] = same
        if others := [each for each in found if each.checkpoint.root != root]:
            self.problems.append(
                f"{_names(others)} cosigned another history: the first {count_text(tree.size, 'record')} have another root than "
                f"the one cosigned at {_time(others)}"
            )

    def finish(self, first_seq: int = 0) -> Witnessed:
        """The result; call it after all records were added."""
        ahead = [each for size, found in sorted(self._at_size.items()) if size > max(self._end, first_seq) for each in found]
        if ahead:
            size = ahead[-1].checkpoint.size
            newest = [each for each in ahead if each.checkpoint.size == size]
            self.problems.append(
                f"{_names(newest)} cosigned {count_text(size, 'record')} at {_time(newest)}, but the log ends with record "
                f"{self._end - 1}: its tail was cut, or it is an older copy"
            )
        position, found = self._position(max(self.wanted, 1))
        unsealed = bool(self.wanted) and not (self.chain.seals or self._matching or ahead)
        if self.wanted and not (position or unsealed):
            most = max((len(_distinct(each)) for each in self._matching.values()), default=0)
            self.problems.append(f"{most} of {self.wanted} wanted witnesses cosigned the log")
        if self.problems and position:
            self.problems.append(f"the last cosigned position that this log has is {position}")
        return {
            "wanted": self.wanted,
            "cosigned": position,
            "by": sorted(_distinct(found)),
            "at": _time(found) if found else "",
            "named": bool(self.witnesses),
            "unsealed": unsealed,
            "problems": self.problems,
        }

    def losses_problem(self) -> str:
        """Why the seals say of more accepted losses than were published: witnesses cosign anew after each. Empty: they do not."""
        most, published = max((losses for losses, _ in _sealed(self.chain)), default=0), len(self.chain.invalidations)
        return f"seals say that {most} losses were accepted, and {published} are published" if most > published else ""

    def _position(self, wanted: int) -> tuple[int, list[Cosigned]]:
        """The newest position with so many witnesses: who cosigned a later one has cosigned all before it."""
        by: dict[str, Cosigned] = {}
        for size in sorted(self._matching, reverse=True):
            for each in self._matching[size]:
                by.setdefault(str(each.witness), each)
            if len(by) >= wanted:
                return size, list(by.values())
        return 0, []

    def _all(self) -> Iterable[Cosigned]:
        for body in self.published:
            if not self.witnesses:
                found = Cosigned.published(body, self.chain.keys)
                if found is not None:
                    yield found
            for address in self.witnesses:
                found = Cosigned.parse(cosigned_note(body), address.key)
                if found is not None:
                    yield found
        yield from self.asked

    def _is_of_this_log(self, found: Cosigned) -> bool:
        """Whether it is about this log, and not about records whose loss was accepted."""
        origin = parse_origin(found.checkpoint.origin)
        if origin is None or origin[:2] != (self.chain.pool, self.chain.identity):
            return False
        kept = self._kept_size(origin[2])
        return kept is None or found.checkpoint.size <= kept

    def _kept_size(self, losses: int) -> int | None:
        """How much remains of what was sealed after so many accepted losses; None for all."""
        if losses not in self._kept:
            sizes = [each.size for each in self.chain.invalidations[losses:]]
            sealed = _sealed(self.chain)
            if any(each > losses for each, _ in sealed):  # a folder of segments has no invalidations
                sizes.append(max((size for each, size in sealed if each <= losses), default=0))
            self._kept[losses] = min(sizes, default=None)
        return self._kept[losses]


@dataclass
class Asked:
    """What the witnesses with a URL have cosigned of a log, and which of them did not answer, as sentences."""

    found: list[Cosigned] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


async def ask(chain: SealChain, witnesses: Sequence[WitnessAddress]) -> Asked:
    """Ask the witnesses with a URL. Read the log afterwards: a log that is read first may have grown since."""
    asked = Asked()
    most = max([len(chain.invalidations), *(losses for losses, _ in _sealed(chain))])
    for address in witnesses:
        for origin in (origin_of(chain.pool, chain.identity, losses) for losses in range(most + 1) if address.url):
            try:
                note = await asyncio.to_thread(newest_of, address, origin)
            except (Unreachable, NoteError) as error:
                asked.problems.append(f"{address.key.name} did not say what it has cosigned: {error}")
                break
            cosigned = Cosigned.parse(str(note), address.key) if note is not None else None
            if cosigned is not None and cosigned.checkpoint.origin == origin:
                asked.found.append(cosigned)
    return asked


def _sealed(chain: SealChain) -> list[tuple[int, int]]:
    """Of each seal the number of accepted losses before it, and its size."""
    origins = [parse_origin(seal.checkpoint.partition("\n")[0]) for seal in chain.seals]
    return [(origin[2], seal.size) for origin, seal in zip(origins, chain.seals, strict=True) if origin is not None]


def _distinct(found: Iterable[Cosigned]) -> set[str]:
    return {each.witness.name for each in {str(each.witness): each for each in found}.values()}


def _names(found: Iterable[Cosigned]) -> str:
    return ", ".join(sorted(_distinct(found)))


def _time(found: Iterable[Cosigned]) -> str:
    return time_text(max(each.at for each in found) * SECOND)


def newest_cosignatures(published: Iterable[CosignatureBody], size: int | None = None) -> list[CheckpointCosigned]:
    """Of each witness and log the newest cosigned checkpoint, not over more than `size` records, to be written to a file."""
    newest: dict[tuple[str, str], tuple[int, CheckpointCosigned]] = {}
    for body in published:
        if not isinstance(body, CheckpointCosigned):
            continue
        try:
            checkpoint = Checkpoint.parse(Note.parse(body.checkpoint).text)
        except NoteError:
            continue
        about = body.witness, checkpoint.origin
        if (size is None or checkpoint.size <= size) and newest.get(about, (0, body))[0] <= checkpoint.size:
            newest[about] = checkpoint.size, body
    return [body for _, body in newest.values()]

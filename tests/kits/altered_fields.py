"""Every field of every record of a log, changed by whoever holds the writer's and the sealing key, and who names it.

Chain, signatures and seals are made anew by such an attacker, so that only contents can give an alteration away: `Checked` asks
what `bailiff audit verify` and `bailiff audit replay` ask, on the records alone.
"""

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import orjson
from pydantic import BaseModel, ValidationError

from bailiff_bus import topics
from bailiff_bus.port import Message
from bailiff_core.records import ChainHead, Record, decode, encode
from bailiff_core.records.facts import InputRejected, PolicyApplied, PoolCreated, ProposalReceived, WriterStarted
from bailiff_core.records.payload import Decision
from bailiff_core.records.request import RequestFact
from bailiff_core.records.wire import UnreadableRecord
from bailiff_core.replay import Replay
from bailiff_log.chain_verifier import ChainVerifier
from bailiff_log.credentials import Credentials
from bailiff_log.request_verifier import RequestVerifier
from bailiff_log.writer import chain_records

Namer = Literal["verify", "replay", "nobody"]
WHOLE = frozenset({"policy"})
"""Members that are changed in one of their parts only."""
SAMPLES: tuple[Any, ...] = (1, True, "x", "0" * 64, "A" * 43, "A" * 86, "process", [], {}, [1], ["x"])
HEADERS: dict[str, tuple[Any, ...]] = {
    "cycle": (1,),
    "cycle_end": (),
    "time": (1, 60_000_000),
    "writer": ("x",),
    "engine": ("x",),
    "policy": (1,),
    "cause": ("x",),
    "inputs": (1,),
    "actor": ("x",),
    "auth": ("x",),
    "request": ("x",),
}
"""The parts of the envelope that the chain rule leaves free, with numbers that are added, or texts that are appended."""


@dataclass(frozen=True)
class Alteration:
    """One record with one field changed. name: of the field, as `demand.max_failures`."""

    record: Record
    name: str


def alterations(record: Record) -> Iterator[Alteration]:
    """Of this record: each field with each other value that the type permits."""
    yield from _of_headers(record)
    data = record.data
    assert data is not None
    for name, members in _changes(data):
        try:
            changed = type(data).model_validate_json(orjson.dumps(members))
        except (ValidationError, ValueError):
            continue
        if changed.model_dump() != data.model_dump():
            yield Alteration(replace(record, data=changed), name)


def _of_headers(record: Record) -> Iterator[Alteration]:
    for name, more in HEADERS.items():
        value = getattr(record, name)
        others: list[Any]
        if isinstance(value, bool):
            others = [not value]
        elif isinstance(value, int):
            others = [value + each for each in more]
        elif isinstance(value, tuple):
            others = [(*((at, number + 1) for at, number in value),), ()] if value else [(("bailiff.requests/0", 99),)]
        else:
            others = [value + each for each in more] + ([""] if value else [])
            if name == "cause" and "/" in value:
                topic, partition, offset = value.split("/")
                others = [f"{topic}/{partition}/{int(offset) + 1}", f"{topic}/{partition}/{max(0, int(offset) - 1)}", ""]
            if name == "auth":
                others = [each for each in ("", "none", "acl", "signed") if each != value]
        for other in others:
            if other != value:
                yield Alteration(replace(record, **{name: other}), name)


def _changes(document: BaseModel, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The document's members with one changed, each with its name."""
    base: dict[str, Any] = document.model_dump(mode="json", exclude_unset=True)
    for name in type(document).model_fields:
        value, path = getattr(document, name), prefix + name
        parts: list[tuple[str, Any]] = []
        if isinstance(value, BaseModel):
            parts = list(_changes(value, f"{path}."))
            if name in WHOLE:
                parts = [(path, changed) for _, changed in parts][:6]
        elif isinstance(value, tuple) and value and isinstance(value[0], BaseModel):
            rest = base.get(name, [each.model_dump(mode="json", exclude_unset=True) for each in value])[1:]
            parts = [(inner, [changed, *rest]) for inner, changed in _changes(value[0], f"{path}.")]
        for inner, changed in parts:
            yield inner, base | {name: changed}
        plain = type(document).model_validate(document.model_dump()).model_dump(mode="json").get(name)
        for other in _others(plain):
            yield path, base | {name: other}
        if name in base:
            yield path, {key: each for key, each in base.items() if key != name}


def _others(value: Any) -> Iterator[Any]:
    match value:
        case bool():
            yield not value
        case int():
            yield from (value + 1, max(0, value - 1), value + 1_000_000)
        case str():
            yield from (
                value + "x",
                ("B" if value[:1] != "B" else "C") + value[1:],
                ("0" if value[:1] != "0" else "1") + value[1:],
            )
        case None:
            yield from SAMPLES
        case list():
            yield from ([*value, 1], [*value, "x"], value[:-1])
        case dict():
            yield from ({}, value | {"x": 1}, value | {"x": "x"})


def kind_of(record: Record) -> str:
    """The record's type; of what a request says that nobody signed: `unsigned`."""
    signed = record.auth == "signed" or isinstance(record.data, PolicyApplied)
    return type(record.data).__name__ if signed or not isinstance(record.data, RequestFact | InputRejected) else "unsigned"


@dataclass
class Checked:
    """An honest log, followed once; each alteration is tried on a copy of what was known before it.

    writer: whose key signs the altered log; None: of a log that is not signed, whose requests and proposals are not judged.
    """

    records: Sequence[Record]
    writer: Credentials | None
    _searched: set[int] = field(default_factory=set)
    _before: dict[int, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        proposals = [each.data for each in self.records if isinstance(each.data, ProposalReceived)]
        self._searched = {each.computed_at for each in proposals} if self.writer is not None else set()
        replay, verifier = Replay(), RequestVerifier(self.records[0].pool)
        for record in self.records:
            if not isinstance(record.data, Decision):  # between the decisions of a cycle nothing can be copied
                self._before[record.seq] = pickle.dumps((replay, verifier))
            assert self._take(replay, verifier, record) == "nobody", f"#{record.seq} is honest"

    def named_by(self, altered: Record) -> Namer:
        """Who names the log with this record in the place of its original."""
        if isinstance(altered.data, PoolCreated | WriterStarted) and self._breaks_chain(altered):
            return "verify"
        start = max(seq for seq in self._before if seq <= altered.seq)
        replay, verifier = pickle.loads(self._before[start])
        for record in self.records[start:]:
            found = self._take(replay, verifier, altered if record.seq == altered.seq else record)
            if found != "nobody":
                return found
        return "nobody"

    def _breaks_chain(self, altered: Record) -> bool:
        """Whether the chain rule refuses what says which key signs the log."""
        records = [altered if record.seq == altered.seq else record for record in self.records]
        verifier = ChainVerifier(altered.pool)
        try:
            chained = chain_records(ChainHead(altered.pool), records, self.writer)
        except ValueError:  # no key signs what follows
            return True
        for number, (_, wire, _) in enumerate(chained):
            verifier.verify(Message(topics.AUDIT.name, 0, number, 0, None, wire.headers, wire.value))
        return verifier.broken is not None or sum(verifier.kinds.values()) > 0

    def _take(self, replay: Replay, verifier: RequestVerifier, record: Record) -> Namer:
        wire = encode(record)
        try:
            record = decode(wire)
            if self.writer is not None and verifier.take(record, replay.state) is not None:
                return "verify"
            replay.feed(record, wire)
            if record.seq in self._searched:
                replay.search()
        except UnreadableRecord:
            return "verify"
        except Exception:  # noqa: BLE001 - an altered log may fail anywhere in the fold
            return "replay"
        return "replay" if replay.difference is not None or replay.not_reproduced else "nobody"

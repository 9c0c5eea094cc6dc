"""Replays a log, each part with the engine named by its records, and reports the first difference.

The log is read twice. The first pass verifies the chain and finds which engine wrote which records. In the second, each engine
folds the log from its beginning and replays its own records in the range: this release in this process, others in child
processes from wheels stored by digest. Decisions are compared byte for byte. The first pass also finds on which records
proposals were computed: there the second one searches again, so that no state has to be kept. A hash over both passes ensures
that they read the same bytes, which is faster than verifying the chain again.
"""

from array import array
from bisect import bisect_right
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Iterator
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict

from bailiff.client.errors import CheckFailed, NotFound
from bailiff_bus.port import Message
from bailiff_core.records import Wire
from bailiff_core.records.facts import NodeLost, PolicyApplied, ProposalReceived, TaskReleased, TaskVanished, WriterStarted
from bailiff_core.records.wire import UnreadableRecord, decode, time_text
from bailiff_log import engine_store
from bailiff_log.chain_verifier import ChainVerifier, Verification
from bailiff_log.engine_identity import EngineIdentity, engine_identity

from .engine_process import EngineProcess
from .log_positions import Point
from .replay_difference import DifferenceFound, ProposalNotReproduced, difference_of, proposal_differences
from .replay_worker import ReplayWorker

OF_DATASET = 0
"""The engine logic that an anonymised log names: its decisions depended on names that are gone."""
CYCLE_END = ("ce_cycleend", b"true")
STARTED, PROPOSAL = (kind.type_name().encode() for kind in (WriterStarted, ProposalReceived))
# Facts after which an engine retries all pending jobs. In between it caches what did not fit. The cache is not part of the
# state, so a replay can only begin at one of these.
RETRY_FACTS = {kind.type_name().encode() for kind in (WriterStarted, PolicyApplied, NodeLost, TaskReleased, TaskVanished)}
Read = Callable[[], AsyncGenerator[Message, None]]


class EngineUsed(TypedDict):
    """An engine named by the records, and the engine that replayed its cycles.

    Attributes:
        from_seq: The first record under the named engine.
        to_seq: The last record under it.
        decided_by: `this release`; `its wheel`; `this release, by the same logic`, if its wheel is not stored; empty if the
            range was not replayed, see `advice`.
        refused: Why a stored wheel was not used.
    """

    engine: str
    release: str
    digest: str
    logic: int
    from_seq: int
    to_seq: int
    cycles: int
    decided_by: str
    refused: str
    advice: str


class Replayed(TypedDict):
    """The result of `bailiff audit replay`. If `ok` is false, `difference`, `proposal_differences` or `error` says why.

    Only whole decision cycles are replayed; earlier records are folded. The range may begin before the requested one, at
    the last earlier cycle in which resources became free.

    Attributes:
        records: Number of records read from the log.
        from_seq: The first replayed record.
        to_seq: The last replayed record.
        to_hash: Hash of `to_seq`.
        proposals: Number of `ProposalReceived` records in the range.
        proposals_searched: How many of them were searched again.
        proposals_not_reproduced: How many of these gave another result; `proposal_differences` has the first requests.
        to_judge: What takes a person to judge, as sentences.
    """

    pool: str
    ok: bool
    records: int
    from_seq: int
    to_seq: int
    to_hash: str
    cycles: int
    cycles_replayed: int
    cycles_of_other_engines: int
    decisions: int
    digests: int
    proposals: int
    proposals_searched: int
    proposals_not_reproduced: int
    proposal_differences: list[ProposalNotReproduced]
    orphans: int
    engines: list[EngineUsed]
    to_judge: list[str]
    difference: DifferenceFound | None
    error: str


@dataclass(slots=True)
class Part:
    """The records of one writer, with its engine."""

    first: int
    engine: EngineUsed
    who: "ReplayEngine | None" = None


class LocalEngine:
    """The engine of this release, with the interface of `EngineProcess`."""

    def __init__(self) -> None:
        self._worker = ReplayWorker()

    async def take(self, wire: Wire, again: bool, search: bool) -> bool:
        """Processes the next record of the log. Returns whether it takes no more."""
        self._worker.take(wire, again, search)
        return self._worker.done

    async def found(self) -> dict[str, Any]:
        """Returns the result."""
        return self._worker.found()

    async def stop(self) -> None:
        """Does nothing."""


@dataclass(eq=False, slots=True)
class ReplayEngine:
    """The engine that replays parts of the log: this release, or a wheel.

    Attributes:
        last: The last record that it needs.
    """

    wheel: Path | None = None
    last: int = -1
    engine: EngineProcess | LocalEngine = field(default_factory=LocalEngine)


@dataclass(slots=True)
class Survey:
    """The result of the first pass.

    Attributes:
        begin: The first record of the range.
        end: The last record of the range; less than `begin` for an empty range.
        passed_over: Positions of messages that do not continue the log.
        bytes_read: Hash over all other messages.
        proposals: The `ProposalReceived` records.
        computed_at: The records on whose states these proposals were computed.
    """

    parts: list[Part] = field(default_factory=list)
    begin: int = -1
    end: int = -1
    end_hash: str = ""
    records: int = 0
    verification: Verification | None = None
    orphans: int = 0
    unreadable: str = ""
    passed_over: set[int] = field(default_factory=set)
    bytes_read: int = 0
    proposals: "array[int]" = field(default_factory=lambda: array("q"))
    computed_at: "array[int]" = field(default_factory=lambda: array("q"))

    @property
    def sound(self) -> bool:
        """Whether the log is readable and its chain unbroken so far."""
        return not self.unreadable and self.verification is not None and self.verification["broken"] is None


async def replay(
    pool: str,
    read: Read,
    *,
    store: Path | None = None,
    from_: Point | None = None,
    to: Point | None = None,
    known: tuple[int, str] | None = None,
) -> Replayed:
    """Replay the log, or a range of its cycles.

    Args:
        read: Opens the log at each call.
        store: Folder of engine wheels.
        known: A record and the hash that it must have.

    Raises:
        ClientError: The source cannot be read, or the range is empty.
    """
    async with aclosing(read()) as messages:  # closed at once: a range ends before the log does
        survey = await _survey(pool, messages, from_ or Point(), to or Point(), known)
    if known is not None and survey.end < known[0] and survey.sound:
        survey.unreadable = (
            f"the log ends with record {survey.end}, but it was replayed up to record {known[0]} before: its tail was cut"
        )
    if survey.begin > survey.end and survey.sound and known is None:
        raise NotFound(f"no record of {pool} is in the requested range", "to see where the log ends: bailiff audit verify")
    deciders = _assign_engines(survey, store)
    async with AsyncExitStack() as stack:
        for each in deciders:
            if each.wheel is not None:
                each.engine = await EngineProcess.start(each.wheel)
            stack.push_async_callback(each.engine.stop)
        async with aclosing(read()) as messages:
            cycles = await _feed(messages, survey, deciders)
        found = [(each, await each.engine.found()) for each in deciders]
    return _result(pool, survey, cycles, found)


# --- first pass


async def _survey(
    pool: str, messages: AsyncIterable[Message], from_: Point, to: Point, known: tuple[int, str] | None = None
) -> Survey:
    verifier, found = ChainVerifier(pool), Survey()
    in_range, cycle_start, cycle_ended, retry_start = False, 0, True, 0
    position = -1
    async for message in messages:
        position += 1
        wire = verifier.verify(message)
        if wire is None:
            found.passed_over.add(position)
            continue
        seq, headers = verifier.head.next_seq - 1, dict(wire.headers)
        kind = headers.get("ce_type")
        if cycle_ended or kind == STARTED:
            if in_range and _after(to, seq, verifier.head.time):
                break
            if in_range and found.begin < 0:
                found.begin = retry_start
            cycle_start = seq
        if kind in RETRY_FACTS and found.begin < 0:
            retry_start = cycle_start
        if not in_range and not _before(from_, seq, verifier.head.time):
            if _after(to, seq, verifier.head.time):
                break
            in_range = True
        try:
            if kind == STARTED:
                found.parts.append(_part(seq, wire))
            elif kind == PROPOSAL:
                found.proposals.append(seq)
                found.computed_at.append(_computed_at(wire))
        except UnreadableRecord as error:
            found.unreadable = str(error)
            break
        if known is not None and seq == known[0] and verifier.head.hash != known[1]:
            found.unreadable = f"record {seq} is another than the one up to which the log was replayed before"
            break
        cycle_ended = headers.get("ce_cycleend") == b"true"
        found.end_hash = verifier.head.hash
        found.end, found.records = seq, seq + 1
        found.bytes_read = hash((found.bytes_read, wire.headers, wire.value))
    if found.begin < 0:
        found.begin = retry_start if in_range else found.records
    found.verification = verifier.verification()
    found.orphans = sum(verifier.kinds.values())
    return found


def _before(point: Point, seq: int, time: str) -> bool:
    return (point.seq is not None and seq < point.seq) or (point.time is not None and time < time_text(point.time))


def _after(point: Point, seq: int, time: str) -> bool:
    return (point.seq is not None and seq > point.seq) or (point.time is not None and time > time_text(point.time))


def _part(seq: int, wire: Wire) -> Part:
    data = decode(wire).data
    assert isinstance(data, WriterStarted)
    return Part(seq, _used(EngineIdentity(data.release, data.digest, data.logic)))


def _computed_at(wire: Wire) -> int:
    data = decode(wire).data
    assert isinstance(data, ProposalReceived)
    return data.computed_at


def _used(engine: EngineIdentity) -> EngineUsed:
    return {
        "engine": str(engine),
        "release": engine.release,
        "digest": engine.digest,
        "logic": engine.logic,
        "from_seq": -1,
        "to_seq": -1,
        "cycles": 0,
        "decided_by": "",
        "refused": "",
        "advice": "",
    }


# --- engines


def _assign_engines(survey: Survey, store: Path | None) -> list[ReplayEngine]:
    """Assigns an engine to every part of the range."""
    parts, own = survey.parts, ReplayEngine()
    if parts:
        parts[0].first = 0  # records before the first WriterStarted are of that writer
    else:
        parts.append(Part(0, _used(engine_identity())))
    known: dict[str, tuple[EngineUsed, ReplayEngine | None]] = {}
    deciders: list[ReplayEngine] = []
    for at, part in enumerate(parts):
        last = min(parts[at + 1].first - 1 if at + 1 < len(parts) else survey.end, survey.end)
        if last < survey.begin or part.first > survey.end:
            continue
        key = part.engine["engine"] + part.engine["digest"]
        if key not in known:
            part.engine["from_seq"] = max(part.first, survey.begin)
            known[key] = part.engine, _decider_of(part.engine, own, store)
        part.engine, part.who = known[key]
        part.engine["to_seq"] = last
        who = part.who or own  # a part without engine is folded only
        who.last = last
        if who not in deciders:
            deciders.append(who)
    return deciders


def _decider_of(engine: EngineUsed, own: ReplayEngine, store: Path | None) -> ReplayEngine | None:
    mine, problem = engine_identity(), ""
    if (engine["digest"], engine["logic"]) == (mine.digest, mine.logic):
        engine["decided_by"] = "this release"
        return own
    if engine["logic"] == OF_DATASET:
        return None
    try:
        wheel = engine_store.find_engine(store, engine["digest"]) if store is not None else None
        if wheel is not None:
            engine["decided_by"] = "its wheel"
            return ReplayEngine(wheel)
    except engine_store.EngineError as no:
        engine["refused"], problem = str(no), f"{no}; remove it, then: "
    get = (
        f"bailiff engine keep --digest {engine['digest']} WHEEL, or in Bailiff's repository with --git and that release's commit"
    )
    engine["advice"] = f"{problem}keep the engine of release {engine['release']} in {store}: {get}"
    if engine["logic"] == mine.logic:
        engine["decided_by"] = "this release, by the same logic"
        return own
    return None


# --- second pass


async def _feed(messages: AsyncIterable[Message], survey: Survey, deciders: list[ReplayEngine]) -> int:
    """Pass the records up to the end of the range to the engines that need them. Returns the number of cycles in the range.

    Raises `ClientError` if the log is not the one of the first pass.
    """
    cycles, seq, part_at, position, bytes_read = 0, -1, 0, -1, 0
    next_proposal = 0
    async for message in messages:
        position += 1
        if position in survey.passed_over:
            continue
        if seq == survey.end:
            break
        seq += 1
        bytes_read = hash((bytes_read, message.headers, message.value))
        while part_at + 1 < len(survey.parts) and survey.parts[part_at + 1].first <= seq:
            part_at += 1
        part = survey.parts[part_at]
        wanted = seq >= survey.begin
        while next_proposal < len(survey.proposals) and survey.proposals[next_proposal] <= seq:
            next_proposal += 1
        searcher = _searcher(survey, next_proposal, seq)
        wire = Wire(message.headers, message.value)
        for each in deciders:
            if seq <= each.last and await each.engine.take(wire, wanted and part.who is each, each is searcher):
                return cycles
        if wanted and CYCLE_END in message.headers:
            part.engine["cycles"] += 1
            cycles += 1
    if (seq, bytes_read) != (survey.end, survey.bytes_read):
        raise CheckFailed("the log changed between its two readings: the replayed records are not the verified ones", "try again")
    return cycles


def _searcher(survey: Survey, proposal: int, seq: int) -> ReplayEngine | None:
    """The engine that searches again after this record, if the next proposal was computed on it: the one of its part."""
    if proposal == len(survey.proposals) or survey.computed_at[proposal] != seq or survey.proposals[proposal] < survey.begin:
        return None
    at = bisect_right(survey.parts, survey.proposals[proposal], key=lambda part: part.first) - 1
    return survey.parts[at].who


def _result(pool: str, survey: Survey, cycles: int, found: list[tuple[ReplayEngine, dict[str, Any]]]) -> Replayed:
    assert survey.verification is not None
    used = list({id(part.engine): part.engine for part in survey.parts if part.engine["from_seq"] >= 0}.values())
    differing = [(result["difference"], who) for who, result in found if result["difference"] is not None]
    difference: DifferenceFound | None = None
    if differing:
        first, who = min(differing, key=lambda each: each[0]["seq"])
        part = next(part for part in reversed(survey.parts) if part.first <= first["seq"] and part.who is who)
        difference = difference_of(first, part.engine["engine"], part.engine["decided_by"])
    error = next((result["error"] for _, result in found if result["error"]), "") or survey.unreadable
    broken = survey.verification["broken"]
    if not error and difference is None and broken is not None:
        error = f"the chain is broken at seq {broken['seq']} (offset {broken['offset']}): {broken['meaning']}"
    skipped = sum(engine["cycles"] for engine in used if not engine["decided_by"])
    not_reproduced = sum(result["not_reproduced"] for _, result in found)
    return {
        "pool": pool,
        "ok": difference is None and not error and not not_reproduced,
        "records": survey.records,
        "from_seq": survey.begin,
        "to_seq": survey.end,
        "to_hash": survey.end_hash,
        "cycles": cycles,
        "cycles_replayed": sum(result["cycles"] for _, result in found),
        "cycles_of_other_engines": skipped,
        "decisions": sum(result["decisions"] for _, result in found),
        "digests": sum(result["digests"] for _, result in found),
        "proposals": sum(1 for seq in survey.proposals if seq >= survey.begin),
        "proposals_searched": sum(result["proposals"] for _, result in found),
        "proposals_not_reproduced": not_reproduced,
        "proposal_differences": proposal_differences(each for _, result in found for each in result["proposal_differences"]),
        "orphans": survey.orphans,
        "engines": used,
        "to_judge": list(to_judge(used)),
        "difference": difference,
        "error": error,
    }


def to_judge(engines: Iterable[EngineUsed]) -> Iterator[str]:
    """Which engines were not those that the records name."""
    for each in engines:
        if each["refused"]:
            yield f"the stored engine {each['engine']} was refused: {each['refused']}"
        elif each["decided_by"] and each["advice"]:
            yield f"the engine {each['engine']} was not at hand: {each['decided_by']} replayed its cycles"

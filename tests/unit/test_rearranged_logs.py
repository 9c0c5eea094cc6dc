"""Records put, left out, moved and regrouped by whoever holds the writer's key, each log chained and signed anew.

`test_altered_logs.py` alters requests, `test_altered_fields.py` each field of each record. Here whole records are
replaced, so that no number of another record has to change.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from tests.kits.honest_logs import told
from tests.kits.log_faults import named_by_replay, named_by_verify

from bailiff_bus import topics
from bailiff_bus.port import Message
from bailiff_core.engine import STATE_SCHEMA
from bailiff_core.records import ChainHead, Record, Wire, decode, facts
from bailiff_core.records.payload import Fact, Payload
from bailiff_log.chain_verifier import ChainVerifier
from bailiff_log.credentials import Credentials
from bailiff_log.writer import chain_records

pytestmark = pytest.mark.slow  # the log is that of services

Log = list[Record]
Alter = Callable[[Log], Log]
PLACE = ("seq", "time", "cycle", "cycle_end", "inputs", "epoch", "writer")
SPARE = facts.NodeWaiting
"""A record without effect, whose place the attacker uses for others."""


@cache
def honest() -> tuple[list[Record], Credentials]:
    wires, writer = told()
    return [decode(wire) for wire in wires], writer


def first(log: Log, kind: type[Payload], after: int = -1, **members: Any) -> Record:
    """The first record of this type after this one, with these members."""
    return next(
        each
        for each in log
        if isinstance(each.data, kind)
        and each.seq > after
        and all(getattr(each.data, name) == value for name, value in members.items())
    )


def put(log: Log, *changed: Record) -> Log:
    """The log with these in the places of those with the same numbers."""
    by_seq = {each.seq: each for each in changed}
    return [by_seq.get(each.seq, each) for each in log]


def written(place: Record, fact: Fact, **envelope: Any) -> Record:
    """Another fact at this place of the log, of this place's input unless the writer says it of itself."""
    return replace(place, type=fact.type_name(), data=fact, **envelope)


def of_writer(place: Record, fact: Fact, inputs: Any = None) -> Record:
    """A fact that the writer says of itself, which advances the inputs as far."""
    kept = place.inputs if inputs is None else inputs
    return written(place, fact, cause="", actor="", auth="", request="", inputs=kept)


def in_spare_place(make: Callable[[Log, Record], Record]) -> Alter:
    def alter(log: Log) -> Log:
        return put(log, make(log, first(log, SPARE)))

    return alter


def blanked(kind: type[Fact], **members: Any) -> Alter:
    """The record gone: its place only advances the inputs."""

    def alter(log: Log) -> Log:
        return put(log, of_writer(first(log, kind, **members), facts.InputsAdvanced()))

    return alter


def exchanged(one: Callable[[Log], Record], other: Callable[[Log], Record]) -> Alter:
    """Two records in each other's place, each with its own input."""

    def alter(log: Log) -> Log:
        a, b = one(log), other(log)
        return put(
            log,
            replace(a, **{name: getattr(b, name) for name in PLACE}),
            replace(b, **{name: getattr(a, name) for name in PLACE}),
        )

    return alter


def its_input(place: Record, source: Record, **members: Any) -> Record:
    """The fact of another record, of this place's input, with other members."""
    assert isinstance(source.data, Fact)
    return written(place, source.data.model_copy(update=members))


def from_cycle(log: Log, seq: int, more: int) -> Log:
    """All cycles from this record on are counted so many further."""
    return [replace(each, cycle=each.cycle + more) if each.seq >= seq else each for each in log]


def split(log: Log) -> Log:
    """A cycle of several facts as two."""
    at = next(
        each for each in log if isinstance(each.data, facts.TaskStarted) and not each.cycle_end and log[each.seq - 1].cycle_end
    )
    return from_cycle(put(log, replace(at, cycle_end=True)), at.seq + 1, 1)


def merged(log: Log) -> Log:
    """Two cycles of one fact each as one."""
    at = next(
        each
        for each in log
        if isinstance(each.data, facts.TaskStarted)
        and each.cycle_end
        and log[each.seq - 1].cycle_end
        and isinstance(log[each.seq + 1].data, facts.TaskStarted)
    )
    return from_cycle(put(log, replace(at, cycle_end=False)), at.seq + 1, -1)


def without_second_writer(log: Log) -> Log:
    """As if the first writer had gone on."""
    start = [each for each in log if isinstance(each.data, facts.WriterStarted)][1]
    before = log[start.seq - 1]
    changed = [replace(each, epoch=before.epoch, writer=before.writer) for each in log[start.seq :]]
    return [*log[: start.seq], of_writer(changed[0], facts.ClockAdvanced(), ()), *changed[1:]]


def with_another_writer(log: Log) -> Log:
    """As if another had taken over where nothing happened."""
    spare, start = first(log, SPARE), [each for each in log if isinstance(each.data, facts.WriterStarted)][1]
    assert isinstance(start.data, facts.WriterStarted)
    inputs = _positions(log, spare.seq)
    begun = start.data.model_copy(update={"writer": "f" * 32, "inputs": inputs})
    later = [replace(each, epoch=each.epoch + 1) for each in log[spare.seq :]]
    found = [*log[: spare.seq], of_writer(later[0], begun, ()), *later[1:]]
    return [replace(each, writer="f" * 32) if spare.seq <= each.seq < start.seq else each for each in found]


def _positions(log: Log, seq: int) -> dict[str, int]:
    found: dict[str, int] = {}
    for each in log[:seq]:
        found |= dict(each.inputs)
    return {name: at for name, at in found.items() if at}


def twins(log: Log) -> tuple[Record, Record]:
    """Two requests of one signer, after the spare place."""
    return first(log, facts.KeyRevoked), first(log, facts.NodeReturned)


def lost_then_swapped(log: Log) -> Log:
    """Inputs lost that never were, so that later ones may be in another order."""
    spare = first(log, SPARE)
    lost = facts.InputsLost(topic=topics.REQUESTS.name, partition=0, from_offset=999, to_offset=0)
    found = put(log, of_writer(spare, lost))
    return exchanged(lambda log: twins(log)[0], lambda log: twins(log)[1])(found)


def decision(log: Log, kind: str, number: int = 0) -> Record:
    return [each for each in log if type(each.data).__name__ == kind][number]


FOUND: dict[str, Alter] = {
    # what nodes report
    "a task released before it exited": exchanged(
        lambda log: first(log, facts.TaskExited), lambda log: first(log, facts.TaskReleased)
    ),
    "a stage of an eviction after the exit": exchanged(
        lambda log: first(log, facts.EvictionStageReached), lambda log: first(log, facts.TaskExited)
    ),
    "an exit of a task gone": blanked(facts.TaskExited, job="low"),
    "a release gone": blanked(facts.TaskReleased, job="low"),
    "a node that joins without its enrolment": blanked(facts.NodeEnrolled, node="n2"),
    "a node that joins although it only waits": in_spare_place(
        lambda log, at: its_input(at, first(log, facts.NodeJoined), node="n3", number=2)
    ),
    "a task released twice": in_spare_place(lambda log, at: its_input(at, first(log, facts.TaskReleased, job="low"))),
    "an exit of a task that has ended": in_spare_place(lambda log, at: its_input(at, first(log, facts.TaskExited, job="low"))),
    "an eviction's start again": in_spare_place(lambda log, at: its_input(at, first(log, facts.EvictionStarted, job="low"))),
    "a stage of an eviction that is over": in_spare_place(lambda log, at: its_input(at, first(log, facts.EvictionStageReached))),
    "a failure of a GPU that evicts nobody": in_spare_place(lambda log, at: its_input(at, first(log, facts.DeviceUnhealthy))),
    "a failure of a GPU gone": blanked(facts.DeviceUnhealthy),
    "an attachment that ends twice": in_spare_place(lambda log, at: its_input(at, first(log, facts.AttachEnded))),
    "a node lost that was never silent": in_spare_place(lambda log, at: of_writer(at, facts.NodeLost(node="n1", last_contact=0))),
    "a node silent that is": in_spare_place(lambda log, at: of_writer(at, facts.NodesSilent(nodes=("n1", "n2")))),
    # what the writer says of itself
    "a writer's start gone, with its epoch": lambda log: put(
        log, of_writer([each for each in log if isinstance(each.data, facts.WriterStarted)][1], facts.ClockAdvanced(), ())
    ),
    "a digest of another state": in_spare_place(
        lambda log, at: of_writer(at, facts.StateDigest(schema_version=STATE_SCHEMA, digest="0" * 64))
    ),
    "a loss of the log reconciled that never was": in_spare_place(lambda log, at: of_writer(at, facts.TruncationReconciled())),
    "positions that pass requests which follow": in_spare_place(
        lambda log, at: of_writer(at, facts.InputsAdvanced(), ((f"{topics.REQUESTS.name}/0", 20), *at.inputs))
    ),
    "positions that go back": in_spare_place(
        lambda log, at: of_writer(at, facts.InputsAdvanced(), ((f"{topics.REQUESTS.name}/0", 2), *at.inputs))
    ),
    # decisions and cycles
    "two decisions of a cycle in another order": lambda log: put(
        log,
        replace(decision(log, "JobPlaced", -3), data=decision(log, "JobPlaced", -2).data),
        replace(decision(log, "JobPlaced", -2), data=decision(log, "JobPlaced", -3).data),
    ),
    "a decision a cycle later": lambda log: put(
        log,
        replace(
            decision(log, "PreemptionRequested"), type=decision(log, "JobPending").type, data=decision(log, "JobPending").data
        ),
    ),
    # requests
    "a revocation before requests of the same signer": exchanged(
        lambda log: first(log, facts.NodeDrained), lambda log: first(log, facts.KeyRevoked)
    ),
    "a request twice, the first time before its turn": in_spare_place(
        lambda log, at: replace(first(log, facts.NodeDrained), **{name: getattr(at, name) for name in PLACE})
    ),
}
REPEATED = "a repeated report changes nothing"
LEFT_OUT = "what was left out leaves no trace: a task may end before its start, or its eviction's, is reported"
UNSEEN: dict[str, tuple[Alter, str]] = {
    "an eviction whose start is gone": (blanked(facts.EvictionStarted), LEFT_OUT),
    "a start of a task gone": (blanked(facts.TaskStarted, job="high"), LEFT_OUT),
    "a node that joins twice": (in_spare_place(lambda log, at: its_input(at, first(log, facts.NodeJoined, node="n2"))), REPEATED),
    "a GPU that is healthy, again": (in_spare_place(lambda log, at: its_input(at, first(log, facts.DeviceHealthy))), REPEATED),
    "a decision that failed": (
        in_spare_place(lambda log, at: of_writer(at, facts.DecisionFailed(job="low", error="x"))),
        "whether its engine failed, the writer says: the job is suspended, on record and with an alarm",
    ),
    "a takeover that is not shown": (without_second_writer, "a writer says itself that it has started"),
    "a takeover that never was": (with_another_writer, "a writer says itself that it has started"),
    "inputs lost that never were, and others in another order": (lost_then_swapped, "what a topic held, only the topic says"),
    "a cycle as two": (split, "which inputs were there at the same time, only the writer knows"),
    "two cycles as one": (merged, "which inputs were there at the same time, only the writer knows"),
    "a node's silence that is not shown": (blanked(facts.NodeUnreachable), "when the writer heard of the node"),
    "a clock that did not step": (
        in_spare_place(lambda log, at: of_writer(at, facts.ClockStepped(jump=0))),
        "the writer's own clock",
    ),
}


def named(log: Sequence[Record]) -> list[str]:
    """What the chain rule, `audit verify` and `audit replay` name."""
    _, writer = honest()
    try:
        wires = [wire for _, wire, _ in chain_records(ChainHead(log[0].pool), list(log), writer)]
    except ValueError as error:
        return [f"chain: {error}"]
    verifier = ChainVerifier(log[0].pool)
    for number, wire in enumerate(wires):
        verifier.verify(Message(topics.AUDIT.name, 0, number, 0, None, wire.headers, wire.value))
    if verifier.broken is not None or sum(verifier.kinds.values()):
        return ["chain"]
    return [*_of_verify(wires), *named_by_replay(wires)]


def _of_verify(wires: Sequence[Wire]) -> Iterator[str]:
    try:
        yield from named_by_verify([decode(wire) for wire in wires])
    except Exception as error:  # noqa: BLE001 - an altered log may fail anywhere in the fold, which replay says
        yield f"fold: {error!r}"


@pytest.mark.parametrize("name", FOUND)
def test_a_rearranged_log_is_named(name: str) -> None:
    log, _ = honest()
    assert named(FOUND[name](list(log))), name


@pytest.mark.parametrize("name", UNSEEN)
def test_what_the_log_alone_cannot_show(name: str) -> None:
    log, _ = honest()
    altered, reason = UNSEEN[name][0](list(log)), UNSEEN[name][1]
    assert altered != log
    assert named(altered) == [], reason


def test_the_honest_log_is_not_named() -> None:
    log, _ = honest()
    assert named(log) == []

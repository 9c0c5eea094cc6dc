"""Every type of message at its extremes: what admission accepts, it can write, read, fold, digest, snapshot and replay.

No record that the code writes is one that it cannot read.
"""

from collections import Counter
from contextlib import suppress
from functools import cache
from random import Random

import pytest
from tests.kits.log_builder import Story, replayed
from tests.property.extremes import extreme_message

from bailiff_admission.input_decoder import BODIES, InputDecoder
from bailiff_admission.liveness import Liveness
from bailiff_admission.truncation import TruncationDetected
from bailiff_bus import topics
from bailiff_bus.envelope import wrap
from bailiff_bus.messages.devices import DeviceReport
from bailiff_bus.messages.reports import TaskReport
from bailiff_bus.port import Message
from bailiff_core.fold.snapshot import from_snapshot, state_digest, to_snapshot
from bailiff_core.model.message import MESSAGE_TYPES, MessageBody
from bailiff_core.model.state import PoolState
from bailiff_core.records import decode, encode
from bailiff_service.clock_and_ids import ClockAndIds

FEW, MANY = 1, 200
PER_STORY = 6

KINDS = [(topic, kind) for topic, accepted in BODIES.items() for kind in MESSAGE_TYPES.values() if issubclass(kind, accepted)]


@cache
def beginning(answered: bool) -> Story:
    """Two nodes and a broken one; a job that runs, one that starts, two that are evicted, one of which knows it, one that has
    ended, and one for which a selection is open, or answered.
    """
    story = Story()
    story.node("n1", gpus=8)
    story.node("n2", gpus=2)
    story.runs("runs", gpus=2, tasks=2)
    story.runs("leaves", gpus=2)
    story.evict("leaves")
    story.begin("leaves")
    story.runs("told", gpus=1)
    story.evict("told")
    story.runs("ended", gpus=1)
    story.ends("ended", 0)
    story.runs("fills", gpus=1, tasks=2, cls="train")
    story.submit("starts", gpus=1, cls="train")
    story.node("n3", gpus=2)
    story.quarantined("n3", 0)
    story.breaks("n3", 1)
    story.drain("n3")
    story.submit("waits", gpus=8, cls="inference")
    assert story.state.selection is not None
    if answered:
        story.propose()
        assert story.state.preemptions
    return story


def decoder() -> InputDecoder:
    clock = ClockAndIds(wall=lambda: 0, boot=lambda: 0, random_bytes=lambda: b"\x01" * 16)
    return InputDecoder("test", True, frozenset({"test"}), clock, Liveness(clock))


def snapshot_is_the_state(state: PoolState) -> None:
    again = from_snapshot(to_snapshot(state))
    assert state_digest(again) == state_digest(state)


def feed(story: Story, inputs: InputDecoder, topic: str, body: MessageBody, number: int) -> str:
    """What became of the message."""
    if isinstance(body, TaskReport | DeviceReport):
        known = inputs._numbers.newest.get(body.node, body.incarnation)
        body = body.model_copy(update={"number": known + 1} if known is not None else {})
    headers, value = wrap(body, source="/extremes", id=f"e-{number}", pool="test", time_us=story.time)
    try:
        topics.check_size(topic, b"test", headers, value)
    except ValueError:
        return "too large"
    message = Message(topic, 0, number, story.time, b"test", headers, value)
    with suppress(TruncationDetected):
        found = inputs.read(story.state, message)
        assert found is not None
        if found.rejected is not None:
            assert found.rejected.code != "internal-error"
            assert found.rejected.text
            return found.rejected.code
        records = len(story.records)
        story.cycle(*found.facts)
        for record, wire in zip(story.records[records:], story.wires[records:], strict=True):
            assert encode(decode(wire)) == wire == encode(record), record.type
        snapshot_is_the_state(story.state)
        return "written" if found.facts else "nothing"
    return "truncation"


def holds(topic: str, kind: type[MessageBody], seeds: range) -> None:
    outcomes: Counter[str] = Counter()
    for seed in seeds:
        random, inputs = Random(f"{kind.TYPE}/{seed}"), decoder()
        first = beginning(answered=topic != topics.PROPOSALS.name)
        story = first.resumed(len(first.wires))
        story.restart()
        for number in range(PER_STORY):
            body = extreme_message(kind, story.state, random)
            if body is not None:
                outcomes[feed(story, inputs, topic, body, number)] += 1
        story.holds()
        assert replayed(story.wires).difference is None
    print(kind.__name__, dict(outcomes))
    assert outcomes, f"no message of {kind.__name__} was valid"


@pytest.mark.parametrize(("topic", "kind"), KINDS, ids=[kind.__name__ for _, kind in KINDS])
def test_what_admission_accepts_it_can_read_again(topic: str, kind: type[MessageBody]) -> None:
    holds(topic, kind, range(FEW))


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("topic", "kind"), KINDS, ids=[kind.__name__ for _, kind in KINDS])
def test_what_admission_accepts_it_can_read_again_in_many_more(topic: str, kind: type[MessageBody]) -> None:
    holds(topic, kind, range(FEW, MANY))

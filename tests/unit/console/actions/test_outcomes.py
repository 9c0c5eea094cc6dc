"""Which record answers a request of the console: not one about a message that somebody else sent under its source and id."""

import asyncio
from dataclasses import replace

import pytest
from tests.kits.log_builder import Story
from tests.unit.bus.virtual_time import run

from bailiff.client.client import Outcome, SentRequest
from bailiff_console.actions.outcomes import PendingOutcomes
from bailiff_core.records import Wire
from bailiff_core.records.facts import InputRejected, InputsAdvanced, NodeReturned, RequestId
from bailiff_core.records.payload import Fact
from bailiff_log.reader import Entry

SOURCE, ID, OWNER = "/console", "r-1", "console"
REJECTED = Outcome(False, 2, "no-such-job", "there is none")


def record(data: Fact) -> Entry:
    story = Story(pool="pool-a")
    return Entry(replace(story.records[-1], seq=2, data=data), Wire((), b""), 2, 0, "")


def rejection(offset: int, **members: object) -> Entry:
    fields = {"topic": "bailiff.requests", "partition": 0, "digest": "0" * 64, "source": SOURCE, "id": ID} | members
    return record(InputRejected(offset=offset, code=REJECTED.code, reason=REJECTED.reason, **fields))


def acceptance(owner: str) -> Entry:
    return record(NodeReturned(request=RequestId(source=SOURCE, id=ID, digest="0" * 64, owner=owner)))


def answer(*entries: Entry, acknowledged: int = 0) -> Outcome | None:
    """The outcome of the request at 0/7. acknowledged: how many records are read before Kafka has acknowledged it."""

    async def story() -> Outcome | None:
        pending = PendingOutcomes(SOURCE)

        async def publish() -> SentRequest:
            for entry in entries[:acknowledged]:
                pending.take(entry)
            return SentRequest("pool-a", SOURCE, ID, partition=0, offset=7)

        asked = asyncio.ensure_future(pending.outcome_of(ID, OWNER, publish(), 1.0))
        await asyncio.sleep(0)
        for entry in entries[acknowledged:]:
            pending.take(entry)
        return await asked

    return run(story())


@pytest.mark.parametrize("acknowledged", [0, 1])
def test_the_rejection_of_its_message_answers_it(acknowledged: int) -> None:
    assert answer(rejection(7), acknowledged=acknowledged) == REJECTED


def test_a_record_that_counts_its_message_among_others_answers_it() -> None:
    assert answer(rejection(9, offsets="3-4,6-9", count=6, id=None)) == REJECTED


@pytest.mark.parametrize("acknowledged", [0, 1])
def test_the_rejection_of_another_message_under_its_source_and_id_does_not(acknowledged: int) -> None:
    assert answer(rejection(6), acknowledged=acknowledged) is None
    assert answer(rejection(7, topic="bailiff.proposals"), acknowledged=acknowledged) is None
    assert answer(rejection(7, partition=1), acknowledged=acknowledged) is None


@pytest.mark.parametrize("acknowledged", [0, 1])
def test_a_request_is_accepted_under_its_signer_s_id_only(acknowledged: int) -> None:
    assert answer(acceptance(OWNER), acknowledged=acknowledged) == Outcome(True, 2)
    assert answer(acceptance(""), acknowledged=acknowledged) is None


def test_the_rejection_of_a_message_of_an_earlier_topic_does_not() -> None:
    """Its requests had the same places."""
    anew = record(InputsAdvanced(topic_ids={"bailiff.requests": "another"}))
    assert answer(rejection(7), anew, acknowledged=2) is None

"""What somebody can do with the executor's key: stop tasks, which is found and named; not start any, and not disable a node."""

from tests.kits.signed_pool import POOL, SignedPool, in_signed_pool

from bailiff_bus import topics
from bailiff_bus.messages.commands import Evict, RecordRef, SaveTasks
from bailiff_bus.messages.progress import AbandonPreemption, StartEviction
from bailiff_core.model.document import MAX_INTEGER
from bailiff_core.records.facts import InputRejected


def evict(pool: SignedPool, **position: int) -> None:
    """An eviction of the job `low` that no record orders."""
    node = pool.state.nodes[0]
    at = RecordRef(**{"epoch": pool.state.epoch, "seq": pool.state.seq, **position})
    body = Evict(
        node="n1",
        incarnation=node.incarnation,
        sender="executor",
        sender_epoch=pool.state.epoch,
        ordered_by=at,
        job="low",
        attempt=1,
        tasks=(0,),
        grace=1_000_000,
        cause="a lie",
    )
    headers, value = pool.signed(pool.credentials("eviction-executor"), body)
    pool.send(topics.NODE_COMMANDS.name, headers, value, key="n1")


@in_signed_pool
async def test_an_eviction_that_no_record_orders_is_named(pool: SignedPool) -> None:
    pool.submit("low", gpus=1)
    await pool.until_running("low")
    evict(pool)
    assert "low/0 on n1" in await pool.until_alarm("eviction-not-ordered")
    await pool.until("it is back in the queue or runs again", lambda state: state.jobs["low"].attempt == 2)
    pool.submit("high", gpus=4, kind="inference")
    await pool.until_running("high")
    alarms = len([m for m in pool.messages(topics.ALARMS.name) if b"eviction-not-ordered" in m.value])
    assert alarms == 1, "a true eviction raises none"


@in_signed_pool
async def test_a_snapshot_that_no_record_orders_is_named(pool: SignedPool) -> None:
    """The task stands still while it is saved."""
    pool.submit("low", gpus=1)
    await pool.until_running("low")
    at = RecordRef(epoch=pool.state.epoch, seq=pool.state.seq)
    about = {"node": "n1", "incarnation": pool.state.nodes[0].incarnation, "sender": "executor", "ordered_by": at}
    body = SaveTasks(**about, sender_epoch=pool.state.epoch, job="low", attempt=1, tasks=(0,))
    headers, value = pool.signed(pool.credentials("eviction-executor"), body)
    pool.send(topics.NODE_COMMANDS.name, headers, value, key="n1")
    assert f"n1 saves low/0 by #{at.seq}" in (await pool.until_rejected("not-ordered")).reason
    assert pool.state.jobs["low"].phase == "running"


@in_signed_pool
async def test_a_record_far_beyond_the_log_is_refused_by_the_node_and_disables_nothing(pool: SignedPool) -> None:
    pool.submit("low", gpus=1)
    await pool.until_running("low")
    for position in ({"seq": MAX_INTEGER}, {"epoch": MAX_INTEGER}, {"epoch": pool.state.epoch + 1}):
        evict(pool, **position)
    assert "refused 3 commands" in await pool.until_alarm("commands-refused", "refused 3 commands")
    assert "admission's epoch is 1" in await pool.until_alarm("commands-refused", "refused 3 commands")
    assert pool.state.jobs["low"].phase == "running"
    pool.submit("high", gpus=4, kind="inference")
    await pool.until_running("high")
    assert [fact.code for fact in pool.facts(InputRejected)] == []
    agent = pool.agents["agent-n1"]._link._agents[POOL, "n1"]
    assert (agent.context.fences.highest or (0, 0)) < (2, 0)


@in_signed_pool
async def test_progress_about_decisions_that_are_not_in_the_log_is_rejected(pool: SignedPool) -> None:
    pool.submit("low", gpus=1)
    await pool.until_running("low")
    executor = pool.credentials("eviction-executor")
    for body in (
        StartEviction(job="low", attempt=1, decided_by=MAX_INTEGER),
        AbandonPreemption(preemption=MAX_INTEGER, reason="a lie"),
    ):
        headers, value = pool.signed(executor, body)
        pool.send(topics.EVICTION_PROGRESS.name, headers, value)
    await pool.until("both are rejected", lambda _: len(pool.facts(InputRejected)) == 2)
    assert {fact.code for fact in pool.facts(InputRejected)} == {"ahead-of-log"}

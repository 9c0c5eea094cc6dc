"""The client on an in-memory bus: requests, outcomes, projections."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.kits.memory_bus import MemoryCluster
from tests.unit.client.kit import NOON, AnsweringBus, LogWriter, preemption_story, quiet_story

from bailiff import Client, ClientError, ExitCode
from bailiff.client.client import request_of
from bailiff.client.settings import key_text, read_key
from bailiff_bus import topics
from bailiff_bus.envelope import unwrap
from bailiff_core.engine import STATE_SCHEMA
from bailiff_core.fold.snapshot import state_digest
from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.identity import IdentityRules
from bailiff_core.model.job_spec import JobSpec
from bailiff_core.model.state import PoolState
from bailiff_core.records.facts import PolicyApplied, StateDigest
from bailiff_core.records.job_requests import CancelJob
from bailiff_core.records.pool_requests import ApplyPolicy
from bailiff_log.keys import key_id, new_private_key
from bailiff_log.signatures import verify


@pytest.fixture
def log_writer() -> LogWriter:
    return quiet_story(LogWriter())


@pytest.fixture
async def client(log_writer: LogWriter) -> AsyncIterator[Client]:
    async with Client(AnsweringBus(log_writer), source="test", now=lambda: NOON) as made:
        yield made


def demand(job: str) -> JobDemand:
    return JobDemand(job=job, tasks=(TaskGroup(gpu_milli=1000),))


SPEC = JobSpec(command=("true",))


async def test_a_submitted_job_is_accepted(client: Client, log_writer: LogWriter) -> None:
    request = await client.submit(demand("new"), SPEC)
    outcome = await client.outcome_of(request, timeout=60)
    assert outcome is not None
    assert outcome.accepted
    assert outcome.seq == log_writer.state.jobs["new"].seq
    assert (request.pool, request.job) == ("pool-a", "new")


async def test_a_rejection_says_why(client: Client) -> None:
    outcome = await client.outcome_of(await client.submit(demand("train-7"), SPEC), timeout=60)
    assert outcome is not None
    assert (outcome.accepted, outcome.code) == (False, "job-exists")


async def test_the_outcome_of_an_older_request_is_found(client: Client, log_writer: LogWriter) -> None:
    request = await client.cancel("train-7", reason="enough")
    first = await client.outcome_of(request, timeout=60)
    async with Client(AnsweringBus(log_writer), source="test") as later:
        assert await later.outcome_of(request, timeout=60) == first


async def test_a_policy_that_takes_the_senders_key_away_is_answered(log_writer: LogWriter) -> None:
    key, without = new_private_key(), log_writer.state.rules.complete()
    named = without.model_copy(update={"identity": IdentityRules(keys={key_id(key): "alice"})})
    log_writer.cycle(PolicyApplied(policy=named))
    async with Client(AnsweringBus(log_writer), source="test", private_key=key, now=lambda: NOON) as client:
        await client.projection("pool-a")
        sent = await client.request("pool-a", ApplyPolicy(policy=without))
        outcome = await client.outcome_of(sent, timeout=60)
    assert outcome is not None
    assert outcome.accepted
    assert log_writer.state.policy is not None
    assert not log_writer.state.policy.identity.keys


async def test_a_missing_outcome_is_none(log_writer: LogWriter) -> None:
    async with Client(log_writer.cluster.client("c"), source="test") as client:
        assert await client.outcome_of(await client.cancel("train-7"), timeout=0.0) is None


async def test_a_request_that_is_too_large_is_not_sent(client: Client) -> None:
    spec = JobSpec(command=("true",), env={"BIG": "x" * 300_000})
    with pytest.raises(ClientError, match=r"the request has \d+ bytes"):
        await client.submit(demand("big"), spec)


async def test_a_request_is_signed(log_writer: LogWriter) -> None:
    key = new_private_key()
    async with Client(log_writer.cluster.client("c"), source="test", actor="alice", private_key=key, now=lambda: NOON) as client:
        await client.request("pool-a", CancelJob(job="train-7"), id="r-1")
    (message,) = [
        each for at in range(topics.REQUESTS.partition_count(1)) for each in log_writer.cluster.messages(topics.REQUESTS.name, at)
    ]
    assert message.key == b"pool-a"
    envelope = unwrap(message)
    assert (envelope.id, envelope.source, envelope.time) == ("r-1", "test", NOON)
    assert verify(envelope, {key_id(key): "alice"}).auth == "signed"


def test_keys_are_read_as_bytes_or_text(tmp_path: Path) -> None:
    key = new_private_key()
    (tmp_path / "raw").write_bytes(key)
    (tmp_path / "text").write_text(key_text(key))
    (tmp_path / "odd").write_text("not a key")
    assert read_key(tmp_path / "raw") == read_key(tmp_path / "text") == key
    for name in ("odd", "missing"):
        with pytest.raises(ClientError) as caught:
            read_key(tmp_path / name)
        assert caught.value.exit_code is ExitCode.USAGE
        assert name in caught.value.text


# --- pools


async def test_pools_are_found_in_the_log(log_writer: LogWriter) -> None:
    other = LogWriter("pool-b", 1, log_writer.cluster)
    log_writer.cluster.store(topics.AUDIT.name, 1, None, (), b"noise before the first record")
    quiet_story(other)
    async with Client(log_writer.cluster.client("c"), source="test") as client:
        assert {name: pool.partition for name, pool in (await client.pools()).items()} == {"pool-a": 0, "pool-b": 1}
        assert (await client.pool("pool-b")).name == "pool-b"
        with pytest.raises(ClientError, match="there are 2 pools: pool-a, pool-b"):
            await client.pool()
        with pytest.raises(ClientError, match="there is no pool 'pool-c'"):
            await client.pool("pool-c")


async def test_a_log_in_a_foreign_partition_is_not_a_pool(log_writer: LogWriter) -> None:
    log_writer.cluster.add_partitions(topics.AUDIT.name, 2)
    for message in log_writer.cluster.messages(topics.AUDIT.name, 0):
        log_writer.cluster.store(topics.AUDIT.name, 1, None, message.headers, message.value)
    async with Client(log_writer.cluster.client("c"), source="test") as client:
        assert [pool.partition for pool in (await client.pools()).values()] == [0]


async def test_missing_topics_and_missing_pools_are_distinct_errors() -> None:
    cluster = MemoryCluster(clock=lambda: NOON)
    async with Client(cluster.client("c"), source="test") as client:
        with pytest.raises(ClientError, match=r"Kafka has no topic bailiff\.audit"):
            await client.pool()
        cluster.create_topics(pools=1)
        with pytest.raises(ClientError, match="no pool has a log"):
            await client.pool()


# --- reading


async def test_the_projection_follows_the_log(client: Client, log_writer: LogWriter) -> None:
    assert (await client.projection()).state.seq == log_writer.state.seq
    log_writer.submit("later", gpus=1)
    projection = await client.projection("pool-a")
    assert projection.state.jobs["later"].phase == "starting"


async def test_follow_yields_each_entry_with_the_state_after_it(client: Client, log_writer: LogWriter) -> None:
    state = PoolState()
    seen = [(entry.record.seq, state.seq) async for entry in client.follow(from_seq=5, state=state, on=False)]
    assert seen == [(seq, seq) for seq in range(5, log_writer.state.seq + 1)]


async def test_follow_yields_later_records(client: Client, log_writer: LogWriter) -> None:
    last = log_writer.state.seq
    async for entry in client.follow(from_seq=last):
        if entry.record.seq == last:
            log_writer.submit("later", gpus=1)
        request = request_of(entry)
        if request is not None and request.id == "r-later":
            break


# --- snapshots between calls


def with_digest(log_writer: LogWriter) -> None:
    log_writer.cycle(StateDigest(schema_version=STATE_SCHEMA, digest=state_digest(log_writer.state)))


def snapshots_in(folder: Path) -> list[Path]:
    return list(folder.rglob("*.snapshot"))


async def test_a_stored_snapshot_is_used_when_the_log_confirms_it(log_writer: LogWriter, tmp_path: Path) -> None:
    with_digest(log_writer)
    async with Client(log_writer.cluster.client("c"), source="test", cache=tmp_path) as client:
        await client.projection()
    (kept,) = snapshots_in(tmp_path)
    log_writer.submit("later", gpus=1)
    async with Client(log_writer.cluster.client("c"), source="test", cache=tmp_path) as client:
        projection = await client.projection()
        assert state_digest(projection.state) == state_digest(log_writer.state)
    assert kept.parent.name == (await _identity(log_writer))[:16]


async def test_the_snapshot_of_a_truncated_log_is_not_used(log_writer: LogWriter, tmp_path: Path) -> None:
    short = len(log_writer.records)
    preemption = preemption_story(LogWriter())
    with_digest(preemption)
    async with Client(preemption.cluster.client("c"), source="test", cache=tmp_path) as client:
        await client.projection()
    preemption.cluster.truncate(topics.AUDIT.name, 0, short)
    async with Client(preemption.cluster.client("c"), source="test", cache=tmp_path) as client:
        assert (await client.projection()).state.seq == short - 1


async def test_the_snapshot_of_a_replaced_log_is_not_used(log_writer: LogWriter, tmp_path: Path) -> None:
    other = quiet_story(LogWriter())
    with_digest(other)
    async with Client(other.cluster.client("c"), source="test", cache=tmp_path) as client:
        await client.projection()
    for number in range(5):
        log_writer.submit(f"job-{number}", gpus=1)
    async with Client(log_writer.cluster.client("c"), source="test", cache=tmp_path) as client:
        assert "job-4" in (await client.projection()).state.jobs


async def _identity(log_writer: LogWriter) -> str:
    async with Client(log_writer.cluster.client("c"), source="test") as client:
        return (await client.pool()).identity

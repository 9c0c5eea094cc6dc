"""The command on a real Kafka: a small valid log, verified, replayed, read, exported; and a tampered one.

Each test has a pool of its own in a broker that other tests may share, so the audit topic grows a partition per test.
"""

import asyncio
import dataclasses
import gzip
import json
from pathlib import Path

import pytest
from tests.kits.api import Api
from tests.kits.archive import Auditor, Log, query
from tests.kits.client_pool import Pool
from tests.kits.http import TOKEN
from tests.kits.kafka import TestKafka
from tests.kits.offered_snapshots import Answer, offering, sending, serving
from tests.unit.client.kit import LogWriter
from typer.testing import CliRunner, Result

from bailiff import Client, ExitCode
from bailiff.cli import app
from bailiff.client import client as client_module
from bailiff_bus import topics
from bailiff_bus.kafka import KafkaBus
from bailiff_core.engine import STATE_SCHEMA
from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.records import Record, Wire, encode, record_hash
from bailiff_core.records.job_requests import CancelJob, SubmitJob
from bailiff_log.snapshot_file import SnapshotDraft

pytestmark = pytest.mark.kafka


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("BAILIFF_CACHE", str(tmp_path / "cache"))


async def bailiff(kafka: TestKafka, pool: Pool, *arguments: str) -> Result:
    """Run the command in a thread, because it has its own event loop."""
    connection = ["--kafka", kafka.bootstrap, "--pool", pool.name]
    return await asyncio.to_thread(CliRunner().invoke, app, [*arguments, *connection])


async def test_verify_replay_tail_show_and_list(kafka: TestKafka, pool: Pool) -> None:
    verified = await bailiff(kafka, pool, "audit", "verify", "-o", "json")
    assert verified.exit_code == ExitCode.DONE, verified.output
    assert json.loads(verified.output)["head_hash"] == pool.log_writer.head.hash
    replayed = await bailiff(kafka, pool, "audit", "replay")
    assert replayed.exit_code == ExitCode.DONE, replayed.output
    assert "every byte is identical" in replayed.output
    tail = await bailiff(kafka, pool, "audit", "tail", "--from", "0", "-o", "json")
    assert [json.loads(line)["seq"] for line in tail.output.splitlines()] == list(range(len(pool.log_writer.records)))
    shown = await bailiff(kafka, pool, "audit", "show", "0", "-o", "json")
    assert json.loads(shown.output)["data"]["partition"] == pool.partition
    listed = await bailiff(kafka, pool, "list", "--all", "-o", "json")
    assert {row["job"]: row["state"] for row in json.loads(listed.output)}["serve-2"] == "succeeded"


async def test_an_export_verifies_and_replays_without_kafka(kafka: TestKafka, pool: Pool, tmp_path: Path) -> None:
    file = tmp_path / "log.jsonl"
    exported = await bailiff(kafka, pool, "audit", "export", str(file))
    assert exported.exit_code == ExitCode.DONE, exported.output
    for command in ("verify", "replay"):
        found = await asyncio.to_thread(CliRunner().invoke, app, ["audit", command, "--file", str(file)])
        assert found.exit_code == ExitCode.DONE, found.output


def late(log_writer: LogWriter, **fields: object) -> Record:
    """The writer's next record, in its old epoch."""
    about = {
        "seq": log_writer.head.next_seq,
        "prev": log_writer.head.hash,
        "time": log_writer.now,
        "cycle": log_writer.state.cycle + 1,
    }
    return dataclasses.replace(log_writer.records[-1], **{**about, **fields})


async def test_a_zombie_writer_is_harmless_and_reported(kafka: TestKafka, pool: Pool) -> None:
    log_writer = pool.log_writer
    zombie = encode(late(log_writer))
    before = len(log_writer.records)
    log_writer.writer("writer-2")
    successor = [
        encode(dataclasses.replace(record, prev=record_hash_at(log_writer, record.seq))) for record in log_writer.records[before:]
    ]
    await pool.append([*successor, zombie])
    found = json.loads((await bailiff(kafka, pool, "audit", "verify", "-o", "json")).output)
    assert found["ok"]
    assert found["orphans_by_kind"] == {"superseded": 1}
    assert found["epochs"][-1]["writer"] == "writer-2"


def record_hash_at(log_writer: LogWriter, seq: int) -> str:
    before = log_writer.cluster.messages(topics.AUDIT.name, log_writer.partition)[seq - 1]
    return record_hash(Wire(before.headers, before.value))


async def test_a_record_after_a_gap_breaks_the_chain(kafka: TestKafka, pool: Pool) -> None:
    await pool.append([encode(late(pool.log_writer, seq=pool.log_writer.head.next_seq + 3, prev="f" * 64))])
    found = await bailiff(kafka, pool, "audit", "verify", "-o", "json")
    assert found.exit_code == ExitCode.FOUND_WRONG
    broken = json.loads(found.output)["broken"]
    assert broken["seq"] == str(pool.log_writer.head.next_seq + 3)
    assert "are missing" in broken["meaning"]


async def test_following_shows_what_is_appended(kafka: TestKafka, pool: Pool) -> None:
    log_writer = pool.log_writer
    last = log_writer.state.seq
    async with Client(KafkaBus(kafka.bootstrap), source="test") as client:
        async for entry in client.follow(pool.name, last):
            if entry.record.seq == last:
                before = len(log_writer.records)
                log_writer.submit("later", gpus=1)
                new = log_writer.records[before:]
                await pool.append([encode(dataclasses.replace(each, prev=record_hash_at(log_writer, each.seq))) for each in new])
            if entry.record.type.endswith("JobPlaced.v1"):
                break


async def test_requests_reach_the_topic_and_wait_for_their_answer(kafka: TestKafka, pool: Pool) -> None:
    async with Client(KafkaBus(kafka.bootstrap), source="test") as client:
        demand = JobDemand(job="late", tasks=(TaskGroup(gpu_milli=1000),))
        spec = SubmitJob.model_validate_json('{"demand":{"job":"x","tasks":[{}]},"spec":{"command":"true"}}').spec
        requested = await client.submit(demand, spec, pool=pool.name)
        assert await client.outcome_of(requested, timeout=0.0) is None
        await client.request(pool.name, CancelJob(job="late"))
        spans = await client.spans(topics.REQUESTS.name)
        ids = [dict(message.headers)["ce_id"] async for message in client.messages(topics.REQUESTS.name, spans)]
    assert requested.id.encode() in ids


async def test_topics_create_and_doctor(kafka: TestKafka, pool: Pool, tmp_path: Path) -> None:
    pools = tmp_path / "pools.yaml"
    pools.write_text(f"pools:\n  - {{name: {pool.name}, partition: {pool.partition}}}\n")
    connection = ["--kafka", kafka.bootstrap]
    created = await asyncio.to_thread(CliRunner().invoke, app, ["topics", "create", "--pools", str(pools), *connection])
    assert created.exit_code == ExitCode.DONE, created.output
    assert "All topics exist." in created.output
    found = await asyncio.to_thread(CliRunner().invoke, app, ["doctor", "-o", "json", "--probe", *connection])
    checks = {check["check"]: check["status"] for check in json.loads(found.output)}
    assert checks["kafka"] == "ok"
    assert checks["topics"] == "ok"
    assert checks["clock"] == "ok"
    assert checks[f"pool {pool.name}"] != "wrong"  # a warning is possible, because the records are old


# --- the first list on a machine


SHOWN = ("job", "submitted_seq", "user", "state", "attempt", "priority", "nodes", "ended_at")


class InKafka(Log):
    """The log of a pool in Kafka, for an auditor."""

    def __init__(self, kafka: TestKafka, pool: Pool) -> None:
        self.pool, self.partition, self._bootstrap = pool.name, pool.partition, kafka.bootstrap  # type: ignore[misc]

    def bus(self, name: str) -> KafkaBus:
        return KafkaBus(self._bootstrap)


async def test_the_first_list_begins_at_the_auditors_snapshot_or_folds_the_log(
    kafka: TestKafka, pool: Pool, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It prints the same with a snapshot, without one, and with each false one, which is refused."""
    log, written = pool.log_writer, len(pool.log_writer.records)
    log.cycle(SnapshotDraft(None, log.state).fact())
    log.submit("later", gpus=1)
    added = log.cluster.messages(topics.AUDIT.name, pool.partition)[written:]
    await pool.append([Wire(each.headers, each.value) for each in added])
    folded = list[int]()
    monkeypatch.setattr(client_module.NoMetrics, "count_folded", lambda _self, _pool, records, _head: folded.append(records))
    monkeypatch.setattr(client_module, "DOWNLOAD_FROM", 1)
    machines = iter(range(100))

    async def first_list(address: str) -> tuple[list[list[object]], int]:
        """What it prints of each job, and how many records it folded."""
        monkeypatch.setenv("BAILIFF_CACHE", str(tmp_path / f"machine-{next(machines)}"))
        monkeypatch.setenv("BAILIFF_SNAPSHOTS", address)
        monkeypatch.setenv("BAILIFF_API_TOKEN", TOKEN)
        folded.clear()
        found = await bailiff(kafka, pool, "list", "--all", "-o", "json")
        assert found.exit_code == ExitCode.DONE, found.output
        return [[row[name] for name in SHOWN] for row in json.loads(found.stdout)], sum(folded)

    async def is_stored() -> bool:
        return bool(await query(database, "SELECT 1 FROM snapshots"))

    expected, all_of_it = await first_list("")
    assert all_of_it == len(log.records)
    async with (
        Auditor(InKafka(kafka, pool), database, tmp_path / "auditor").running() as auditor,
        Api(database, state_dir=tmp_path).running() as api,
    ):
        await auditor.until("the snapshot is in the archive", is_stored)
        assert await first_list(api.service.address) == (expected, len(log.records) - written)
        await api.refused(404, f"/pools/{pool.name}/snapshot", schema=STATE_SCHEMA + 1)
        answer = await api.http.get(f"/v1/pools/{pool.name}/snapshot", params={"schema": STATE_SCHEMA})
    honest = gzip.decompress(answer.content)
    lies: dict[str, Answer] = {
        "another state": offering(honest.replace(b'"priority":', b'"priority":1', 1)),
        "cut": offering(honest[:-1]),
        "a bomb": offering(bytes(1 << 24)),
        "a pickle": offering(b"cbuiltins\nexec\n(S'raise SystemExit(9)'\ntR."),
        "nothing packed": sending(honest),
        "a failure": sending(b"", 500),
    }
    for lie, answer in lies.items():
        with serving(answer) as address:
            listed, records = await first_list(address)
        assert (listed, records >= len(log.records)) == (expected, True), lie

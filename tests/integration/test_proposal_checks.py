"""The auditor searches again for every proposal: what it stores, when it raises an alarm, and what it could not search."""

import json
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from tests.kits.api import Api
from tests.kits.archive import Auditor, Log, alarms, query
from tests.kits.log_builder import MINUTE, SECOND, Story, policy

from bailiff_auditor import state_follower
from bailiff_auditor.api.verification import PROPOSAL
from bailiff_auditor.database import connect, migrate, migrations
from bailiff_auditor.proposal_checks import INSERT
from bailiff_core.model.proposal import Proposal

RULES = policy(preemption={"selection_timeout": "1h"})


def asked() -> Story:
    """A full node; `serve-1` requests preemption, and the selection is open."""
    story = Story(RULES, pool="pool-a")
    story.node("n1", gpus=2)
    for name in ("train-1", "train-2"):
        story.submit(name, gpus=1, cls="train", after=MINUTE)
        story.started(name)
    story.submit("serve-1", gpus=1, cls="inference", after=MINUTE)
    story.expect("PreemptionRequested", job="serve-1")
    return story


def lie(story: Story) -> list[Proposal]:
    """The other victim, with its costs, called proven."""
    (honest,) = story.proposal().proposals
    (victim,) = honest.victims
    other = story.job("train-1" if victim.job == "train-2" else "train-2")
    false = victim.model_copy(update={"job": other.id})
    device = {"train-1": "0", "train-2": "1"}[other.id]
    place = honest.placement[0].model_copy(update={"devices": device})
    return [honest.model_copy(update={"victims": (false,), "placement": (place,)})]


async def checks(dsn: str) -> list[dict[str, Any]]:
    try:
        return await query(dsn, "SELECT seq, computed_at, result, text FROM proposal_checks ORDER BY seq")
    except asyncpg.UndefinedTableError:  # the auditor has just started
        return []


async def checked(auditor: Auditor, dsn: str, results: list[str]) -> list[dict[str, Any]]:
    async def found() -> bool:
        return [row["result"] for row in await checks(dsn)] == results

    await auditor.until(f"proposals are checked: {results}", found)
    return await checks(dsn)


async def test_an_honest_proposal_is_reproduced(database: str, tmp_path: Path) -> None:
    log, story = Log(), asked()
    log.append(story.wires)
    async with Auditor(log, database, tmp_path, usage_seconds=1).running() as auditor:
        await auditor.until("the log is archived", lambda: auditor.value("bailiff_archive_head_seq") == story.state.seq)
        before = len(story.wires)
        at = story.state.seq
        story.propose()
        log.append(story.wires[before:])
        (row,) = await checked(auditor, database, ["reproduced"])
        assert (row["seq"], row["computed_at"], row["text"]) == (before, at, "")
        assert log.alarms() == []
        assert auditor.value("bailiff_proposals_searched_total") == 1


async def test_an_answer_that_comes_after_the_fold_has_reached_its_state_is_searched_there(database: str, tmp_path: Path) -> None:
    log, story = Log(), asked()
    log.append(story.wires)
    before, at = len(story.wires), story.state.seq
    async with Auditor(log, database, tmp_path, usage_seconds=1).running() as auditor:

        async def folded() -> bool:
            try:
                found = await query(database, "SELECT allocations_seq FROM followed")
            except asyncpg.UndefinedTableError:
                return False
            return [row["allocations_seq"] for row in found] == [at]

        await auditor.until("the fold waits for the answer", folded)
        story.propose()
        log.append(story.wires[before:])
        await checked(auditor, database, ["reproduced"])


async def test_a_proposal_that_is_not_reproduced_raises_an_alarm_with_both_results(database: str, tmp_path: Path) -> None:
    log, story = Log(), asked()
    (honest,) = story.proposal().proposals
    story.propose(proposals=lie(story))
    story.expect("PreemptionDecided")  # feasible and permitted: admission cannot know that it is not the cheapest
    log.append(story.wires)
    async with Auditor(log, database, tmp_path, usage_seconds=1).running() as auditor:
        (row,) = await checked(auditor, database, ["not-reproduced"])
        (alarm,) = alarms(log)
        assert alarm.code == "proposal-not-reproduced"
        assert alarm.severity == "critical"
        assert row["text"] in alarm.text
        proposed, computed = alarm.text.split("Searched again on the same state: ")
        (victim,) = honest.victims
        other = "train-1" if victim.job == "train-2" else "train-2"
        assert f"preempt evicts {other}" in proposed
        assert f"preempt evicts {victim.job}" in computed
        assert "The results differ in victims and placement." in computed
        async with Api(database, state_dir=tmp_path).running() as api:
            verified = await api.get(f"/pools/pool-a/records/{story.state.seq}/verification")
        assert verified["proposals"] == {"reproduced": 0, "not_reproduced": 1, "not_searched": 0}
        assert verified["proposal"] == row
    async with Auditor(log, database, tmp_path, usage_seconds=1).running() as again:
        await again.until("it has caught up", lambda: again.value("bailiff_archive_head_seq") == story.state.seq)
    assert len(alarms(log)) == 1  # it is stored as checked


async def test_what_is_verified_up_to_a_record_is_read_and_not_counted(database: str) -> None:
    """However many proposals there are: a player asks for it at each step."""
    results = [("reproduced", "not-reproduced", "not-searched")[seq % 7 % 3] for seq in range(2_000)]
    connection = await connect(database, 30)
    try:
        counts = migrations()[2]
        await migrate(connection, migrations()[:2])
        (pool,) = await connection.fetchrow("INSERT INTO pools (name, partition, identity) VALUES ('pool-a', 0, '') RETURNING id")
        older = "INSERT INTO proposal_checks (pool, seq, computed_at, result, text) VALUES ($1, $2, 0, $3, '')"
        await connection.executemany(older, [(pool, seq, results[seq]) for seq in range(1_000)])
        await migrate(connection, migrations())
        await connection.executemany(INSERT, [(pool, seq, 0, results[seq], "") for seq in range(1_000, 2_000)])
        await connection.execute("ANALYZE proposal_checks")
        for seq in (0, 500, 999, 1_000, 1_999, 5_000):
            found = dict(await connection.fetchrow(PROPOSAL, pool, seq))
            before = results[: seq + 1]
            assert found["result"] == before[-1]
            for name in ("reproduced", "not-reproduced", "not-searched"):
                assert found[name.replace("-", "_")] == before.count(name), f"{counts.name}, up to {seq}"
        plan = await connection.fetchval(f"EXPLAIN (ANALYZE, FORMAT JSON) {PROPOSAL}", pool, 1_999)
        assert {node["Actual Rows"] for node in _nodes(json.loads(plan)[0]["Plan"])} == {1}
    finally:
        await connection.close()


def _nodes(plan: dict[str, Any]) -> list[dict[str, Any]]:
    return [plan, *(node for each in plan.get("Plans", []) for node in _nodes(each))]


async def test_proposals_made_while_the_auditor_was_down_are_checked_when_it_is_back(database: str, tmp_path: Path) -> None:
    log, story = Log(), asked()
    log.append(story.wires)
    auditor = Auditor(log, database, tmp_path, usage_seconds=1)
    async with auditor.running():
        await auditor.until("the log is archived", lambda: auditor.value("bailiff_archive_head_seq") == story.state.seq)
    before = len(story.wires)
    story.propose(proposals=lie(story))
    log.append(story.wires[before:])
    async with Auditor(log, database, tmp_path, usage_seconds=1).running() as back:
        await checked(back, database, ["not-reproduced"])
    assert log.alarms() == ["proposal-not-reproduced"]


async def test_records_between_the_search_and_its_answer_are_no_obstacle(database: str, tmp_path: Path) -> None:
    log, story = Log(), asked()
    log.append(story.wires)
    async with Auditor(log, database, tmp_path, usage_seconds=1).running() as auditor:
        await auditor.until("the log is archived", lambda: auditor.value("bailiff_archive_head_seq") == story.state.seq)
        before, at = len(story.wires), story.state.seq
        for number in range(20):
            story.submit(f"later-{number}", gpus=2, after=SECOND)
        story.propose(at=at)
        log.append(story.wires[before:])
        (row,) = await checked(auditor, database, ["reproduced"])
        assert row["computed_at"] == at


async def test_a_proposal_on_a_state_that_is_gone_is_counted_and_named(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_follower, "MAX_WAITING", 5)
    log, story = Log(), asked()
    at = story.state.seq
    for number in range(20):
        story.submit(f"later-{number}", gpus=2, after=SECOND)
    log.append(story.wires)
    async with Auditor(log, database, tmp_path, usage_seconds=1).running() as auditor:
        await auditor.until(
            "all but the last records are folded", lambda: auditor.value("bailiff_archive_head_seq") == story.state.seq
        )
        await auditor.until("usage is sampled", lambda: sampled(database))
        before = len(story.wires)
        story.propose(at=at)
        log.append(story.wires[before:])
        (row,) = await checked(auditor, database, ["not-searched"])
        assert "records" in row["text"]
        assert auditor.value("bailiff_proposals_searched_total") == 1
    assert log.alarms() == []


async def sampled(dsn: str) -> bool:
    rows = await query(dsn, "SELECT allocations_seq FROM followed")
    return bool(rows) and rows[0]["allocations_seq"] > 0


async def test_archiving_continues_after_a_search_that_fails(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("odd state")

    log, story = Log(), asked()
    story.propose()
    log.append(story.wires)
    monkeypatch.setattr("bailiff_core.victims.search_again.compute_proposals", fail)
    async with Auditor(log, database, tmp_path, usage_seconds=1).running() as auditor:
        (row,) = await checked(auditor, database, ["not-searched"])
        assert row["text"] == "the search failed: ZeroDivisionError: odd state"
        before = len(story.wires)
        story.submit("later", gpus=1)
        log.append(story.wires[before:])
        await auditor.until("it continues", lambda: auditor.value("bailiff_archive_head_seq") == story.state.seq)

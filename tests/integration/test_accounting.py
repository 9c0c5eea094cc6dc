"""Accounting over HTTP, on a real PostgreSQL with the archive of a real auditor, against an independent sum over the log."""

import asyncio
import contextlib
import csv
import io
import json
import re
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.kits.accounting import summed, used_by
from tests.kits.api import Api
from tests.kits.archive import Auditor, Log, query
from tests.kits.http import TOKEN
from tests.kits.log_builder import DAY, HOUR, MINUTE, Story, policy
from tests.unit.client.kit import command_on

import bailiff
from bailiff.audit.verify_derived import derived
from bailiff.client import accounting
from bailiff.client.errors import ExitCode
from bailiff_core.fold import apply
from bailiff_core.model.demand import TaskGroup
from bailiff_core.model.project_tree import tree_of
from bailiff_core.model.resource_vector import UNLIMITED
from bailiff_core.model.state import PoolState
from bailiff_core.records import decode, facts
from bailiff_core.records.wire import EPOCH_START, MICROSECOND
from bailiff_core.views import budget_views
from bailiff_log.accounting_rows import ACCOUNTING_TABLES, borrowed_of, usage_of

POOL = "/pools/pool-a/accounting"
MONTH_REPORT = "/pools/pool-a/month"
QUOTAS = [{"name": "blue", "quota": {"gpus": 6}}, {"name": "red", "quota": {"gpus": 2}}]
FIGURES = ("used", "borrowed", "lost", "lost_other", "restart", "waiting", "preemptions")


def three_days() -> Story:
    """red borrows two GPUs, is preempted by blue and resumes; a class changes; a job is paused; one is running at the end."""
    budgets = [{"name": "red", "project": "red", "gpu_hours": 1000}, {"name": "ada", "user": "ada", "gpu_hours": 100}]
    story = Story(policy(projects=QUOTAS, preemption={"scope": "pool"}, budgets=budgets), pool="pool-a")
    story.node("n1", gpus=8)
    story.runs("red-1", gpus=2, project="red", user="ada", cls="train", after=20 * HOUR)
    story.runs("red-2", gpus=2, project="red", user="bob", cls="train", after=HOUR)
    story.runs("blue-1", gpus=4, project="blue", user="eve", cls="train", after=HOUR)
    story.submit("blue-2", gpus=2, project="blue", user="eve", cls="inference", after=9 * HOUR)
    story.propose(after=MINUTE)
    victim = story.expect("PreemptionDecided").victims[0].job
    assert victim == "red-2"
    story.begin(victim)
    story.staged(victim, "noticed")
    story.yields(victim, after=MINUTE)
    story.started("blue-2")
    story.ends("blue-2", after=5 * HOUR)
    story.started(victim)
    story.pause("red-1", after=HOUR)
    story.begin("red-1")
    story.yields("red-1", after=MINUTE)
    story.wait(DAY)
    story.resume("red-1")
    story.started("red-1")
    story.ends("blue-1", after=2 * HOUR)
    story.submit("blue-3", gpus=8, project="blue", user="ada", cls="build", after=HOUR)
    story.cycle(facts.ClockAdvanced(), after=30 * MINUTE)
    return story


async def stored_upto(auditor: Auditor, database: str, seq: int) -> bool:
    if auditor.value("bailiff_archive_head_seq") != seq:  # the tables may not be there yet
        return False
    return bool(await query(database, "SELECT FROM followed WHERE allocations_seq = $1", seq))


@contextlib.asynccontextmanager
async def archived(database: str, folder: Path, story: Story) -> AsyncIterator[Api]:
    log = Log()
    log.append(story.wires)
    async with (
        Auditor(log, database, folder, usage_seconds=60).running() as auditor,
        Api(database, state_dir=folder).running() as api,
    ):

        async def stored() -> bool:
            return await stored_upto(auditor, database, len(story.wires) - 1)

        await auditor.until("accounting is stored", stored)
        yield api


def moment(micros: int) -> str:
    return (EPOCH_START + micros * MICROSECOND).isoformat()


def close(found: Any, expected: Any) -> bool:
    return all(found[name] == pytest.approx(expected[name], abs=2e-5) for name in FIGURES if name in expected)


def parsed(time: str) -> datetime:
    return datetime.fromisoformat(time)


async def test_the_start_page_counts_the_capacity_as_accounting_does(database: str, tmp_path: Path) -> None:
    """A drained machine's GPUs count, also while a job runs there, and a quarantined one does not: never over 100 percent."""
    story = Story(pool="pool-a")
    for name in ("n1", "n2"):
        story.node(name, gpus=4)
    story.runs("a", gpus=4, after=HOUR)
    story.runs("b", gpus=3, after=MINUTE)
    (drained,) = {task.node for task in story.job("b").tasks}
    story.drain(story.state.nodes[drained].name, mode="graceful")
    story.quarantined(story.state.nodes[drained].name, 3)
    story.cycle(facts.ClockAdvanced(), after=HOUR)
    story.cycle(facts.ClockAdvanced(), after=HOUR)
    begin, end = decode(story.wires[0]).time, decode(story.wires[-1]).time + 1
    async with archived(database, tmp_path, story) as api:
        whole = {"from": moment(begin), "to": moment(end)}
        overview = await api.get(f"{POOL.rpartition('/')[0]}/overview", **whole)
        accounting = await api.get(POOL, by="hour", **whole)
    last = overview["points"][-1]
    assert (last["gpus"], last["capacity"]) == (7, 7)
    assert accounting["capacity"][-2]["gpu_hours"] == pytest.approx(7, abs=0.1)
    assert all(point["gpus"] <= point["capacity"] for point in overview["points"])


def above_quotas(story: Story, begin: int, end: int) -> dict[str, tuple[float, float]]:
    """GPU-hours that each project of the tree used and borrowed, its children's included, from record to record."""
    found: dict[str, list[float]] = {}
    state, before = PoolState(), 0
    for record in [*map(decode, story.wires), None]:
        hours = max(0, min(record.time if record is not None else end, end) - max(before, begin)) / HOUR / 1000
        used: dict[str, int] = {}
        for job in state.jobs.values():
            for name in tree_of(state).branches[tree_of(state).leaf_of(job.project)].path:
                used[name] = used.get(name, 0) + used_by(state, job)
        for name, gpus in used.items():
            quota = tree_of(state).branches[name].quota.gpu_milli
            sums = found.setdefault(name, [0.0, 0.0])
            sums[0] += gpus * hours
            sums[1] += max(0, gpus - quota) * hours if name and quota != UNLIMITED else 0
        if record is not None:
            apply(state, record)
            before = record.time
    return {name: (used, borrowed) for name, (used, borrowed) in found.items()}


async def test_borrowed_gpus_over_time_are_those_that_accounting_counts(database: str, tmp_path: Path) -> None:
    """A tree, jobs directly in a parent and of an unknown project; a policy in the middle of an interval changes quotas."""
    tree = [
        {"name": "red", "quota": {"gpus": 3}},
        {"name": "red-a", "parent": "red", "quota": {"gpus": 1}},
        {"name": "red-b", "parent": "red", "quota": {"gpus": 2}},
        {"name": "blue", "quota": {"gpus": 4}},
    ]
    story = Story(policy(projects=tree), pool="pool-a")
    story.node("n1", gpus=8)
    for name, gpus, project in (("a", 2, "red-a"), ("direct", 1, "red"), ("b", 2, "red-b"), ("nobody", 1, "who")):
        story.runs(name, gpus=gpus, project=project, after=17 * MINUTE)
    story.wait(13 * MINUTE)
    story.apply_policy(policy(projects=[tree[0], {**tree[1], "quota": {"gpus": 2}}, *tree[2:]]))
    story.ends("b", after=29 * MINUTE)
    story.ends("a", after=7 * MINUTE)
    begin, end = decode(story.wires[0]).time, decode(story.wires[-1]).time
    windows = [(begin, end), (begin + 35 * MINUTE, end - 20 * MINUTE)]
    async with archived(database, tmp_path, story) as api:
        for window in windows:
            whole = dict(zip(("from", "to"), map(moment, window), strict=True))
            rows = (await api.get(POOL, by="project", **whole))["rows"]
            counted = {row["project"]: row for row in rows}
            expected = above_quotas(story, *window)
            for points in (1, 7, 200):
                series = await api.get(f"{POOL.rpartition('/')[0]}/quota-series", points=points, **whole)
                found = {each["project"]: each for each in series["projects"]}
                for name, (used, borrowed) in expected.items():
                    sums = found[name]["gpu_hours"], found[name]["borrowed_gpu_hours"]
                    assert sums == pytest.approx((used, borrowed), abs=2e-6), (name, points)
                for name in ("red-a", "red-b"):
                    assert found[name]["borrowed_gpu_hours"] == pytest.approx(counted[name]["borrowed"], abs=2e-6)
                    assert found[name]["gpu_hours"] == pytest.approx(counted[name]["used"], abs=2e-6)
                assert found["red*"]["borrowed_gpu_hours"] == pytest.approx(counted["red"]["borrowed"], abs=2e-6)
                assert found["*"]["borrowed_gpu_hours"] == pytest.approx(counted["who"]["borrowed"], abs=2e-6)
                assert found[""]["gpu_hours"] == pytest.approx(sum(row["used"] for row in rows), abs=1e-5)
                lengths = [
                    min(series["interval_s"], (parsed(series["to"]) - parsed(time)).total_seconds()) for time in series["times"]
                ]
                for each in found.values():
                    summed_up = sum(gpus * length for gpus, length in zip(each["gpus"], lengths, strict=True)) / 3600
                    assert summed_up == pytest.approx(each["gpu_hours"], abs=0.01), "what the chart shows sums up to it"
        of_quota = found["red-a"]["quota"]
        assert (of_quota[0], of_quota[-1]) == (1, 2)
        assert 0 < found["red-a"]["borrowed_part"] < 1
        assert found["red"]["max_borrowed"] == 2


async def test_gpu_hours_by_anything_agree_with_each_other_and_with_the_log(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = three_days()
    begin, end = decode(story.wires[0]).time, decode(story.wires[-1]).time
    whole = {"from": moment(begin), "to": moment(end)}
    async with archived(database, tmp_path, story) as api:
        by_job = await api.get(POOL, by="job", **whole)
        expected = summed(story.wires, begin, end)
        found = {(row["job"], row["submitted_seq"]): row for row in by_job["rows"]}
        assert set(found) == {key for key, sums in expected.items() if any(sums.values())}
        for key, row in found.items():
            sums = {"used": expected[key]["used"] / 3.6e12, "waiting": expected[key]["waiting"] / 3.6e12}
            assert close(row, sums), key
            assert row["lost"] + row["lost_other"] + row["restart"] == pytest.approx(expected[key]["lost"] / 3.6e6, abs=1e-5)

        overview = await api.get(f"{POOL.rpartition('/')[0]}/overview", **whole)
        for figure in ("lost", "lost_other", "restart"):
            total = sum(row[figure] for row in by_job["rows"])
            assert overview["pool"][f"{figure}_gpu_hours"] == pytest.approx(total, abs=1e-4), (
                "the start page counts what accounting counts"
            )
        spans = zip(overview["points"], [*overview["points"][1:], {"time": overview["to"]}], strict=True)
        lengths = [(point, (parsed(after["time"]) - parsed(point["time"])).total_seconds() / 3600) for point, after in spans]
        for figure, amount in (("gpus", "used"), ("waiting", "waiting")):
            total = sum(point[figure] * hours for point, hours in lengths)
            assert total == pytest.approx(sum(row[amount] for row in by_job["rows"]), rel=1e-3), "also where no record is written"
        capacity = sum(point["capacity"] * hours for point, hours in lengths)
        assert capacity == pytest.approx(by_job["capacity_gpu_hours"], rel=1e-3)
        assert overview["pool"]["preempted"] == sum(row["preemptions"] for row in by_job["rows"])

        named = {row["job"]: row for row in by_job["rows"]}
        red_1, red_2, blue_3 = named["red-1"], named["red-2"], named["blue-3"]
        assert red_1["borrowed"] == pytest.approx(7, abs=0.1), "it was there first, but last when it had been resumed"
        assert red_2["borrowed"] == pytest.approx(2 * (1 + 9 + 1), abs=0.2), "until it was preempted, and until the other's pause"
        assert red_2["preemptions"] == 1
        assert red_2["lost"] == pytest.approx(2, abs=0.1), "two GPUs for an hour, `max_counted_loss`"
        assert red_1["lost"] == 0 < red_1["lost_other"], "a pause is no preemption"
        assert red_1["waiting"] == pytest.approx(0, abs=0.01), "paused for a day, which is not waiting"
        assert blue_3["waiting"] == pytest.approx(4, abs=0.1)
        assert blue_3["used"] == 0

        keys = (
            "user",
            "project",
            "priority_class",
            "job",
            "gpu_model",
            "preemptor",
            "preemptor_project",
            "minute",
            "hour",
            "day",
            "month",
        )
        for chosen in (*((key,) for key in keys if key != "minute"), ("user", "day"), ("project", "priority_class", "hour"), ()):
            other = await api.get(POOL, by=list(chosen), **whole)
            assert other["totals"] == by_job["totals"], chosen
            for name in FIGURES:
                total = sum(row[name] for row in other["rows"])
                assert total == pytest.approx(other["totals"][name], abs=1e-4), (chosen, name)
        assert by_job["totals"]["jobs"] == 5
        assert by_job["capacity_gpu_hours"] == pytest.approx(8 * (end - begin) / 3.6e9, rel=0.01)

        lost_to = await api.get(POOL, by=["preemptor", "preemptor_project"], project=["red"], **whole)
        nobody, blue = sorted(lost_to["rows"], key=lambda row: row["preemptor"] or "")
        assert (blue["preemptor"], blue["preemptor_project"]) == ("blue-2", "blue")
        assert (blue["preemptions"], blue["lost"], blue["lost_other"]) == (1, red_2["lost"], 0)
        assert blue["used"] == blue["borrowed"] == blue["waiting"] == 0, "those are nobody's fault"
        assert (nobody["preemptor"], nobody["preemptions"], nobody["lost"]) == (None, 0, 0)
        assert nobody["lost_other"] == red_1["lost_other"]

        by_day = await api.get(POOL, by="day", **whole)
        days = [datetime.fromisoformat(row["time"]) for row in by_day["rows"]]
        assert len(days) >= 3
        assert all(day.strftime("%H:%M:%S.%f%z") == "00:00:00.000000+0000" for day in days)
        for day, row in zip(days, by_day["rows"], strict=True):
            bounds = {"from": max(day, datetime.fromisoformat(whole["from"])), "to": day + timedelta(days=1)}
            bounds["to"] = min(bounds["to"], datetime.fromisoformat(whole["to"]))
            alone = await api.get(POOL, **{name: each.isoformat() for name, each in bounds.items()})
            assert close(alone["totals"], row), "a day as a window has what the day has as a row"
        assert sum(each["gpu_hours"] for each in by_day["capacity"]) == pytest.approx(by_day["capacity_gpu_hours"], abs=1e-4)

        only = await api.get(POOL, by="job", user=["ada"], project=["red"], **whole)
        assert [row["job"] for row in only["rows"]] == ["red-1"]
        few = await api.get(POOL, by="job", limit=2, **whole)
        assert (len(few["rows"]), few["more"], few["totals"]) == (2, True, by_job["totals"])
        later = await api.get(POOL, **{"from": moment(end + DAY), "to": moment(end + 2 * DAY)})
        assert datetime.fromisoformat(later["known_until"]) >= datetime.fromisoformat(whole["to"])
        (error,) = (await api.refused(400, POOL, by=["day", "hour"], **whole))["errors"]
        assert "at most one of minute, hour, day, month" in error["allowed"]
        assert "a longer period" in str(await api.refused(400, POOL, **{"by": "minute", "from": "2000-01-01T00:00:00Z"}))
        assert "a time before" in str(await api.refused(400, POOL, **{"from": whole["to"], "to": whole["from"]}))
        await _of_the_client(api, whole, by_day)
        await _of_the_command(api, whole, by_day, monkeypatch, tmp_path)
    assert (await derived(database, None)).differences == []
    await _altered(database)


async def _of_the_client(api: Api, whole: dict[str, str], by_day: Any) -> None:
    settings = {"api": api.service.address, "api_token": TOKEN}
    async with bailiff.aio.connect(settings=settings) as b:
        found = await b.accounting(["day", "class"], since=whole["from"], until=whole["to"])
        assert (found.pool, found.totals.used) == ("pool-a", by_day["totals"]["used"])
        assert {row.priority_class for row in found.rows} == {"train", "inference", "build"}
        assert sum(found.capacity_by_time.values()) == pytest.approx(found.capacity, abs=1e-4)
        with pytest.raises(bailiff.InvalidRequest, match="there is no 'week'"):
            await b.accounting("week")
        with pytest.raises(bailiff.PoolNotFound, match="no pool 'pool-z'"):
            await b.accounting(pool="pool-z")
        with pytest.raises(bailiff.UserNotFound, match="no user 'adda' in pool-a") as unknown:
            await b.accounting(user=["ada", "adda"])
        assert "did you mean 'ada'" in unknown.value.advice
        with pytest.raises(bailiff.ProjectNotFound):
            await b.accounting(project="nosuch", since=whole["from"])
        with pytest.raises(bailiff.ClassNotFound, match="no priority class 'trai'"):
            await b.accounting(priority_class="trai")
        with pytest.raises(bailiff.JobNotFound):
            await b.accounting(job="red-11")
        before = {"since": "2000-01-01", "until": "2000-01-02"}
        for known in ({"user": "ada"}, {"priority_class": "interactive"}, {"job": ["red-1", "blue-2"]}):
            assert (await b.accounting(**before, **known)).totals.jobs == 0, "it is in the policy, or was at another time"


async def _of_the_command(api: Api, whole: dict[str, str], by_day: Any, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setenv("BAILIFF_API", api.service.address)
    monkeypatch.setenv("BAILIFF_API_TOKEN", TOKEN)
    run = command_on(lambda: None, monkeypatch, str(folder / "cli"))  # type: ignore[arg-type,return-value]
    window = ("--since", whole["from"].replace("+00:00", "Z"), "--until", whole["to"].replace("+00:00", "Z"))
    printed = (await asyncio.to_thread(run, "accounting", "--by", "day,user", "-o", "csv", *window)).output
    header, *lines = printed.splitlines()
    assert header.startswith("day,user,used_gpu_hours,borrowed_gpu_hours,lost_gpu_hours,lost_other_gpu_hours,restart_gpu_hours,")
    rows = list(csv.DictReader(io.StringIO(printed)))
    assert len(rows) == len(lines)
    assert sum(float(row["used_gpu_hours"]) for row in rows) == pytest.approx(by_day["totals"]["used"], abs=1e-4)
    assert rows[0]["day"] == by_day["rows"][0]["time"][:10]
    lost_to = (await asyncio.to_thread(run, "accounting", "--by", "project,preemptor-project", *window)).output
    assert re.search(r"^red +blue +0.00 ", lost_to, re.MULTILINE), lost_to
    table = (await asyncio.to_thread(run, "accounting", "--by", "project", *window)).output
    assert re.search(r"^TOTAL +[\d.]+ ", table, re.MULTILINE), table
    assert "Capacity: " in table
    whole_answer = json.loads((await asyncio.to_thread(run, "accounting", "-o", "json", *window)).output)
    assert whole_answer["totals"] == by_day["totals"]
    unknown = await asyncio.to_thread(run, "accounting", "--project", "read")
    assert unknown.exit_code == ExitCode.NOT_FOUND
    assert "there is no project 'read' in pool-a" in unknown.output
    assert "did you mean 'red'" in unknown.output
    monkeypatch.delenv("BAILIFF_API")
    refused = await asyncio.to_thread(run, "accounting")
    assert refused.exit_code == ExitCode.USAGE
    assert "its address, BAILIFF_API, is not set" in refused.output


def test_a_name_that_a_spreadsheet_would_compute_is_written_as_text() -> None:
    figures = dict.fromkeys((*accounting.FIGURES, *accounting.COUNTS), 0)
    assert (
        accounting.as_csv({"rows": [{"user": '=HYPERLINK("x")', "user_verified": True, **figures}]}, ["user"])
        .splitlines()[1]
        .startswith("\"'=HYP")
    )


async def _altered(database: str) -> None:
    for table, column in (
        ("job_usage", "used_gpu_milli"),
        ("lost_work", "work_gpu_ms"),
        ("gpu_capacity", "gpu_milli"),
        ("budget_usage", "topped_up"),
    ):
        which = f"ctid = (SELECT min(ctid) FROM {table})"
        await query(database, f"UPDATE {table} SET {column} = {column} + 1 WHERE {which}")
    found = (await derived(database, None)).differences
    assert sorted(each.partition(" ")[0] for each in found) == sorted(table.name for table in ACCOUNTING_TABLES), found


def test_borrowed_gpus_are_those_of_the_jobs_that_started_last() -> None:
    story = three_days()
    assert borrowed_of(story.state, "", []) == {}
    story.runs("red-3", gpus=1, project="red", cls="inference")
    borrowed = {key[0]: values[2] for key, values in usage_of(story.state).items() if values[2]}
    assert borrowed == {"red-1": 2000, "red-2": 1000}, "red-1 started last; the one that is not preemptible borrows last"


async def test_rows_of_a_job_continue_when_the_auditor_restarts(database: str, tmp_path: Path) -> None:
    story = three_days()
    log, half = Log(), len(story.wires) // 2
    for upto in (half, len(story.wires)):
        log.append(story.wires[len(log.messages()) : upto])
        async with Auditor(log, database, tmp_path / "same", usage_seconds=60).running() as auditor:

            async def stored(upto: int = upto, auditor: Auditor = auditor) -> bool:
                return await stored_upto(auditor, database, upto - 1)

            await auditor.until("accounting is stored", stored)
    assert (await derived(database, None)).differences == []


async def test_the_report_of_a_month_says_budget_use_and_what_was_lost_to_whom(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over the end of a month, with a top-up, a transfer, and a budget that is of other jobs from a policy on."""
    tree = [{"name": "lab"}, {"name": "red", "parent": "lab", "quota": {"gpus": 2}}, {"name": "blue", "quota": {"gpus": 6}}]
    rows = [
        {"name": "lab", "project": "lab", "gpu_hours": 500},
        {"name": "train", "project": "red", "priority_class": "train", "gpu_hours": 100},
        {"name": "late", "user": "ada", "gpu_hours": 10},
    ]
    rules = {"projects": tree, "preemption": {"scope": "pool"}}
    story = Story(policy(**rules, budgets=rows), pool="pool-a")
    story.node("n1", gpus=4, model="h100")
    story.node("n2", gpus=4, model="a100")
    story.wait(28 * DAY)
    on_h100, on_a100 = (TaskGroup(gpu_milli=4000, gpu_models=(model,)) for model in ("h100", "a100"))
    story.runs("red-1", on_h100, project="red", user="ada", cls="train")
    story.runs("red-2", on_a100, project="red", user="bob", cls="train")
    story.cycle(facts.BudgetToppedUp(request=story.request(), budget="lab", gpu_hours=100, reason="paper"), after=HOUR)
    story.cycle(facts.BudgetTransferred(request=story.request(), budget="lab", to="train", gpu_hours=7, reason="x"), after=HOUR)
    story.submit("blue-1", on_h100, project="blue", user="eve", cls="inference", after=HOUR)
    story.propose(after=MINUTE)
    assert [each.job for each in story.expect("PreemptionDecided").victims] == ["red-1"]
    story.begin("red-1")
    story.yields("red-1", after=MINUTE)
    story.started("blue-1")
    story.apply_policy(policy(**rules, budgets=[*rows[:2], {**rows[2], "user": "bob"}]))
    views = {}
    for _ in range(2):  # in January, and in February, in which nothing happens before
        story.cycle(facts.ClockAdvanced(), after=2 * DAY)
        views[budget_views(story.state)[0]["month"]] = budget_views(story.state)
    async with archived(database, tmp_path, story) as api:
        (january, february) = [await api.get(MONTH_REPORT, month=month) for month in ("2026-01", "2026-02")]
        for report, expected in ((january, views["2026-01"]), (february, views["2026-02"])):
            names = (
                "budget",
                "project",
                "user",
                "priority_class",
                "policy_hours",
                "topped_up_hours",
                "transferred_hours",
                "hours",
            )
            found = {row["budget"]: row for row in report["budgets"]}
            assert list(found) == sorted(view["budget"] for view in expected)
            for view in expected:
                row = found[view["budget"]]
                assert {name: row[name] for name in names} == {name: view[name] for name in names}  # type: ignore[literal-required]
        used = {row["budget"]: row["used"] for row in february["budgets"]}
        for view in views["2026-02"]:
            assert used[view["budget"]] == pytest.approx(view["used_hours"], abs=1e-4), "until the newest record"
            assert {row["budget"]: row["level"] for row in february["budgets"]}[view["budget"]] == view["level"]
        lab, late, train = january["budgets"]
        assert (lab["topped_up_hours"], lab["transferred_hours"], train["hours"]) == (100, -7, 107)
        assert (late["user"], late["lost"]) == ("bob", 0), "what it counted for ada is no part of it"
        window = {"from": january["from"], "to": january["to"]}
        counted = await api.get(POOL, by="project", project=["red"], **window)
        assert lab["used"] == pytest.approx(counted["totals"]["used"], abs=1e-5)
        (lost_to,) = lab["lost_to"]
        assert lost_to == {"project": "blue", "lost": lab["lost"], "restart": lab["restart"], "preemptions": 1}
        assert (lab["lost"], lab["restart"]) == (
            pytest.approx(counted["totals"]["lost"]),
            pytest.approx(counted["totals"]["restart"]),
        )
        assert lab["lost"] > 0 < lab["restart"]
        assert {row["project"]: row["preemptions"] for row in january["projects"]} == {"red": 1, "blue": 0}
        assert (february["budgets"][0]["topped_up_hours"], february["budgets"][0]["lost_to"]) == (0, [])

        by_model = {row["gpu_model"]: row for row in (await api.get(POOL, by="gpu_model", **window))["rows"]}
        assert {model: row["preemptions"] for model, row in by_model.items()} == {None: 0, "a100": 0, "h100": 1}
        ran = parsed(january["to"]) - EPOCH_START - int(story.job("red-2").last_start or 0) * MICROSECOND
        assert by_model["a100"]["used"] == pytest.approx(4 * ran.total_seconds() / 3600, abs=0.01)
        assert (by_model[None]["used"], by_model["h100"]["lost"]) == (0, lab["lost"])

        for month in ("2026-13", "2026", "26-01", "0000-01", "9999-12", "2026-01-01", "x" * 250):
            assert (await api.refused(400, MONTH_REPORT, month=month))["errors"][0]["location"] == "month"
        monkeypatch.setenv("BAILIFF_API", api.service.address)
        monkeypatch.setenv("BAILIFF_API_TOKEN", TOKEN)
        run = command_on(lambda: None, monkeypatch, str(tmp_path / "cli"))  # type: ignore[arg-type,return-value]
        printed = (await asyncio.to_thread(run, "accounting", "--month", "2026-01")).output
        assert re.search(
            r"^lab +project lab +593 +[\d.]+ +[\d.]+ +[\d.]+ +[\d.]+ +1 +warning|within +blue [\d.]+$", printed, re.MULTILINE
        )
        assert re.search(r"^red +[\d.]+ .* blue [\d.]+$", printed, re.MULTILINE), printed
        assert (
            json.loads((await asyncio.to_thread(run, "accounting", "--month", "2026-01", "-o", "json")).output)["budgets"]
            == (january["budgets"])
        )
        assert (await asyncio.to_thread(run, "accounting", "--month", "2026-01", "--by", "user")).exit_code == ExitCode.USAGE
    assert (await derived(database, None)).differences == []

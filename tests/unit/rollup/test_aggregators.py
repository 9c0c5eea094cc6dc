"""What each record adds to the aggregates, and that they do not depend on how the log was read."""

from typing import Any

import pytest
from tests.kits.log_builder import HOUR, MINUTE, NEW_YEAR, SECOND, Story, policy
from tests.kits.rollup import LENGTHS, busy_log, recount
from tests.unit.rollup.kit import Counter, project

from bailiff_bus.messages.rollups import RollupWindow
from bailiff_core.model.document import MAX_INTEGER
from bailiff_core.model.policy import DEFAULT_POLICY
from bailiff_core.records import Wire, decode, facts
from bailiff_log.reader import Entry
from bailiff_rollup.traces import MOST_OPEN, Traces

GPU_HOUR = 1000 * HOUR


def counted(story: Story) -> Counter:
    return Counter().feed(story.wires)


@pytest.fixture
def story() -> Story:
    """A machine of eight GPUs, all of which train-1 has held for an hour."""
    story = Story()
    story.node("n1", gpus=8)
    story.submit("train-1", gpus=8, cls="train")
    story.started("train-1", after=2 * SECOND)
    story.time += HOUR
    return story


def test_a_preemption_is_one_eviction_with_its_action_and_cause(story: Story) -> None:
    story.submit("urgent", gpus=8, cls="inference")
    story.propose()
    story.yields("train-1")
    found = counted(story)
    assert found.of("evictions") == {("preempt", "priority"): 1}
    (requeued,) = story.decisions("JobRequeued")
    restart = 8 * DEFAULT_POLICY.preemption.restart_cost // 1000
    assert found.of("restart") == {("preemption",): restart}, "an assumption, counted apart"
    assert found.of("lost") == {("preemption",): requeued.lost_gpu_ms - restart}
    assert found.one("saved") == 0  # it had no checkpoint


def test_a_checkpoint_saves_what_was_done_before_it(story: Story) -> None:
    saved = facts.Checkpoint(step=10, bytes=1, duration=1, sha256="0" * 64)
    story.cycle(facts.TaskProgressed(**story.at("train-1", 0), step=10, checkpoint=saved))
    story.submit("urgent", gpus=8, cls="inference", after=10 * SECOND)
    story.propose()
    story.yields("train-1")
    found = counted(story)
    assert found.one("saved") == 8 * (3_600_000 - 10_000)  # at most an hour of loss counts
    assert found.of("lost") == {("preemption",): 8 * 10_000}


def test_use_is_summed_over_log_time_and_lasts_until_the_gpus_are_seen_free(story: Story) -> None:
    end = [facts.TaskExited(**story.at("train-1", 0), exit_code=0)]
    story.cycle(*end)
    story.cycle(facts.TaskReleased(**story.at("train-1", 0)), after=30 * SECOND)
    story.cycle(facts.ClockAdvanced(), after=HOUR)
    found = counted(story)
    assert found.of("used") == {("",): 8_000 * (HOUR + 32 * SECOND)}
    assert found.one("available") == 8_000 * (2 * HOUR + 32 * SECOND)


def test_gpus_reported_idle_count_as_idle_until_they_work_again(story: Story) -> None:
    story.cycle(facts.TaskIdle(**story.at("train-1", 0), duration=MINUTE))
    story.cycle(facts.TaskIdle(**story.at("train-1", 0), idle=False), after=10 * MINUTE)
    story.cycle(facts.ClockAdvanced(), after=HOUR)
    assert counted(story).of("idle") == {("",): 8_000 * 10 * MINUTE}


def test_a_step_of_the_clock_is_no_time(story: Story) -> None:
    story.cycle(facts.ClockStepped(jump=10 * HOUR), after=10 * HOUR)
    assert counted(story).of("used") == {("",): 8_000 * (HOUR + 2 * SECOND)}


TEN_YEARS = 10 * 365 * 24 * HOUR


def test_a_step_of_ten_years_closes_the_open_windows_and_publishes_none_between(story: Story) -> None:
    story.cycle(facts.ClockAdvanced())
    before = counted(story)
    story.cycle(facts.ClockStepped(jump=TEN_YEARS), after=TEN_YEARS)
    found = counted(story)
    assert found.of("used") == before.of("used")
    assert len(found.windows) <= len(before.windows) + 2 * len(LENGTHS)
    assert {window.window for window in found.windows if window.complete} == set(LENGTHS)


def test_ten_years_without_a_record_are_counted_at_once(story: Story) -> None:
    """Whoever has the writer's key can write such a time."""
    story.cycle(facts.ClockAdvanced(), after=TEN_YEARS)
    found = counted(story)
    assert found.of("used") == {("",): 8_000 * (TEN_YEARS + HOUR + 2 * SECOND)}
    assert len(found.windows) < 200
    story.cycle(facts.ClockAdvanced(), after=2 * MINUTE)
    assert counted(story).complete("1m")[-1].used_gpu_ms == 8 * 60_000


def test_however_large_a_sum_is_its_window_can_be_published(story: Story) -> None:
    found = counted(story)
    for key in (("lost", "failed"), ("restart", "failed"), ("saved",), ("used", ""), ("pending", "train"), ("available",)):
        found.aggregates.add(*key, amount=1 << 90)
    story.cycle(facts.ClockAdvanced(), after=2 * MINUTE)
    found.feed(story.wires[found.head.next_seq :])
    window = max(found.complete("1m"), key=lambda each: each.saved_gpu_ms)
    assert {window.used_gpu_ms, window.saved_gpu_ms, window.available_gpu_ms, window.work_lost[0].gpu_ms} == {MAX_INTEGER}


@pytest.mark.slow
def test_of_a_flood_of_jobs_few_traces_are_kept(story: Story) -> None:
    traces, found = Traces(), Counter()
    for number in range(MOST_OPEN + 50):
        story.submit(f"flood-{number}", gpus=8)
    found.feed(story.wires)
    for seq, wire in enumerate(story.wires):
        traces.observe(found.state, Entry(decode(wire), wire, seq, 0, ""))
    assert len(traces.state["submitted"]) == MOST_OPEN
    assert f"flood-{MOST_OPEN + 49}" in traces.state["submitted"]


def test_pending_time_runs_from_request_to_start_and_late_starts_count_for_the_class(story: Story) -> None:
    classes = [entry.model_dump(mode="json") for entry in DEFAULT_POLICY.priority_classes]
    for entry in classes:
        entry["start_slo"] = {"p95": "10s", "p99": "2h"} if entry["name"] == "inference" else {}
    story.apply_policy(policy(priority_classes=classes))
    story.submit("urgent", gpus=8, cls="inference")
    story.propose()
    story.yields("train-1", after=20 * SECOND)
    story.started("urgent", after=SECOND)
    found = counted(story)
    assert found.of("start-ms") == {("train",): 2_000, ("inference",): 21_000}
    assert found.of("start")["inference", "30"] == 1
    assert found.of("late") == {("inference", "95"): 1}
    assert found.of("pending")["inference",] == 20 * SECOND


def test_thrash_is_the_eviction_of_a_job_that_has_just_resumed(story: Story) -> None:
    for round_ in range(2):
        story.submit(f"urgent-{round_}", gpus=8, cls="inference", after=10 * MINUTE)
        story.propose()
        story.yields("train-1")
        story.started(f"urgent-{round_}")
        story.ends(f"urgent-{round_}")
        story.started("train-1")
        story.time += 10 * MINUTE
    story.cycle(facts.ClockAdvanced(), after=2 * HOUR)
    found = counted(story)
    assert found.of("repeat-evictions") == {("1h",): 1, ("1d",): 1}
    hours = [window for window in found.complete("1h") if window.evictions]
    assert [(window.repeat_evictions, window.thrash_permille) for window in hours] == [(1, 500)]


def test_the_usage_of_projects_is_compared_with_their_entitlement() -> None:
    story = Story(policy(projects=[project("lab", 4), project("ward", 4)]))
    story.node("n1", gpus=8)
    story.submit("big", gpus=8, project="lab", cls="train")
    story.started("big")
    story.cycle(facts.ClockAdvanced(), after=MINUTE)
    story.submit("small", gpus=4, project="ward", cls="train")
    story.cycle(facts.ClockAdvanced(), after=10 * MINUTE)
    found = counted(story)
    assert found.of("used")[("lab",)] == found.of("used")[("",)] == 8_000 * 11 * MINUTE
    assert found.aggregates.sample["lab"].quota == 4_000
    assert found.aggregates.sample["ward"].share == 4_000
    (window,) = [window for window in found.complete("1m") if window.begin == NEW_YEAR + 5 * MINUTE]
    shares = {entry.name: (entry.used_gpu_ms, entry.entitled_gpu_ms) for entry in window.projects}
    assert shares["lab"] == (
        480_000,
        480_000,
    )  # the entitlement is looked at once a minute: as it was when the minute before began
    assert window.used_gpu_ms == window.available_gpu_ms == 480_000


@pytest.fixture(scope="module")
def day() -> list[Wire]:
    return busy_log(40)


@pytest.mark.slow
def test_every_window_adds_up_to_the_totals(day: list[Wire]) -> None:
    wires = day
    found, truth = Counter("pool-a").feed(wires), recount(wires)
    assert found.of("evictions") == truth.evictions_by()
    assert found.of("used")[("",)] == truth.used()
    assert {name: jobs for (name,), jobs in found.of("submitted").items()} == truth.submitted_by()
    assert {cause: lost + found.of("restart")[cause,] for (cause,), lost in found.of("lost").items()} == truth.lost_by()
    assert truth.evictions, "the log has to show something"
    for window in found.windows:
        assert_window(window, truth)
    assert [window.begin for window in found.complete("1m")] == list(
        range(found.complete("1m")[0].begin, truth.end // MINUTE * MINUTE, MINUTE)
    )


def assert_window(window: RollupWindow, truth: Any) -> None:
    begin, end = window.begin, window.end
    assert end - begin == LENGTHS[window.window] or not window.complete
    assert {(entry.action, entry.rule): entry.count for entry in window.evictions} == truth.evictions_by(begin, end)
    assert window.used_gpu_ms == truth.used(begin, end) // 1_000_000
    assert {entry.name: entry.submitted for entry in window.classes if entry.submitted} == truth.submitted_by(begin, end)
    assert {entry.name: entry.started for entry in window.classes if entry.started} == truth.started_by(begin, end)
    assert {entry.cause: entry.gpu_ms + entry.restart_gpu_ms for entry in window.work_lost} == truth.lost_by(begin, end)


@pytest.mark.slow
@pytest.mark.parametrize("every", [1, 7, 100])
def test_a_roll_up_restored_from_its_store_has_the_same_aggregates(day: list[Wire], every: int) -> None:
    wires = day[:400]
    straight, interrupted = Counter("pool-a").feed(wires), Counter("pool-a")
    for at in range(0, len(wires), every):
        interrupted.feed(wires[at : at + every])
        interrupted.restart()
    assert interrupted.aggregates.to_bytes() == straight.aggregates.to_bytes()
    assert interrupted.aggregates.levels == straight.aggregates.levels
    assert interrupted.windows == straight.windows


def test_windows_follow_from_the_log_also_where_nothing_happened_in_them(story: Story) -> None:
    before = len(counted(story).windows)
    story.cycle(facts.ClockAdvanced(), after=5 * MINUTE)
    snapshots = [(window.window, window.complete) for window in counted(story).windows[before:]]
    assert snapshots.count(("1m", True)) >= 5
    assert snapshots[-3:] == [("1m", True), ("1h", False), ("1d", False)]

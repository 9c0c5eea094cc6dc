"""What rounding leaves over of GPUs goes in turn: when a turn begins, and what the state keeps of it; and past use."""

from typing import Any

import pytest
from tests.kits.snapshots import snapshot

from bailiff_core.explain.sentences import clock
from bailiff_core.explain.share_turns import share_turn_sentences, turns_to_come
from bailiff_core.fold import enact
from bailiff_core.fold.past_use import average_use
from bailiff_core.lifecycle.share_turns import next_share_turn, share_turns
from bailiff_core.model.past_use import ONE, ROOTS, add_up, average, decayed
from bailiff_core.model.policy import Policy, Project
from bailiff_core.model.project_tree import ProjectTree
from bailiff_core.model.resource_vector import ZERO, ResourceVector
from bailiff_core.model.state import PastUse, PoolState, ProjectUse, ShareTurn
from bailiff_core.plan import Planning
from bailiff_core.plan.build import append_facts
from bailiff_core.queue.share_turn import TURN
from bailiff_core.quota.fair_share import Steps, entitlements
from bailiff_core.records.decisions import ProjectGpus, ShareTurnBegan
from bailiff_core.records.facts import PolicyApplied
from bailiff_core.scheduling_snapshot import current_usage

MINUTE = 60_000_000


def one_gpu(started: str = "10m ago", submitted: str = "2h ago", **young: Any) -> PoolState:
    """One GPU that the older of two equal projects has; a job of the other waits."""
    jobs = [
        {"name": "o1", "project": "old", "gpus": 1, "node": "n1", "last_start": started, "submitted": "9h ago"},
        {"name": "y1", "project": "young", "gpus": 1, "submitted": submitted},
    ]
    projects = [{"name": "old"}, {"name": "young", **young}]
    return Planning(snapshot({"nodes": [{"name": "n1", "gpus": 1}], "projects": projects, "jobs": jobs})).state


def test_a_turn_begins_once_the_gpu_was_used_for_an_hour_and_somebody_waited_for_one() -> None:
    state = one_gpu()
    assert list(share_turns(state)) == []
    assert next_share_turn(state) == state.now + 50 * MINUTE
    state.now += 50 * MINUTE
    (began,) = share_turns(state)
    assert [(each.project, each.gpu_milli) for each in began.owed] == [("old", -500), ("young", 500)]
    enact(state, began)
    assert state.share_turns == {"": ShareTurn(state.now, {"old": -500, "young": 500})}
    assert list(share_turns(state)) == []
    assert next_share_turn(state) is None  # nobody of the other project waits


def test_who_waits_for_less_than_an_hour_has_no_turn() -> None:
    state = one_gpu("3h ago", "59m ago")
    assert (list(share_turns(state)), next_share_turn(state)) == ([], None)
    assert len(list(share_turns(one_gpu("3h ago", "60m ago")))) == 1


def test_a_project_that_may_not_borrow_has_no_turn() -> None:
    assert list(share_turns(one_gpu("3h ago", over_quota_weight=0))) == []


def test_who_waits_for_more_than_others_leave_within_their_part_has_no_turn() -> None:
    """Of one GPU half is each project's part: one asks for 0.4 in all, and of the rest no whole GPU can be made."""
    running = {"name": "o1", "project": "old", "gpus": 0.4, "node": "n1", "last_start": "3h ago", "submitted": "9h ago"}
    young = {"name": "y1", "project": "young", "gpus": 1, "submitted": "2h ago"}
    projects = [{"name": "old"}, {"name": "young"}]
    pool = {"nodes": [{"name": "n1", "gpus": 1}], "projects": projects, "jobs": [running, young]}
    assert list(share_turns(Planning(snapshot(pool)).state)) == []
    queued = {"name": "o2", "project": "old", "gpus": 0.4, "submitted": "1m ago"}
    (began,) = share_turns(Planning(snapshot({**pool, "jobs": [running, queued, young]})).state)
    assert [(each.project, each.gpu_milli) for each in began.owed] == [("old", -400), ("young", 400)]


def test_a_turn_lasts_an_hour_whoever_waits() -> None:
    state = one_gpu("3h ago")
    state.share_turns = {"": ShareTurn(state.now - 40 * MINUTE, {"old": 0, "young": 0})}
    assert (list(share_turns(state)), next_share_turn(state)) == ([], state.now - 40 * MINUTE + TURN)


def test_turns_below_a_project_that_is_gone_are_forgotten() -> None:
    state = one_gpu()
    kept = ShareTurn(state.now, {"old": -500, "young": 500})
    state.share_turns = {"": kept, "gone": ShareTurn(state.now, {"a": 1, "b": -1})}
    append_facts(state, PolicyApplied(policy=state.rules))
    assert state.share_turns == {"": kept}


def test_the_next_turn_is_said_to_the_job_that_waits_for_it_and_of_the_pool() -> None:
    state = one_gpu(submitted="30m ago")
    (text,) = turns_to_come(state)
    said = "What rounding leaves over of the GPUs of the pool goes in turn; owed: 0.5 GPUs to project young. "
    assert text == f"{said}The next turn begins at {clock(state.now + 50 * MINUTE)} at the earliest."
    assert [each.text for each in share_turn_sentences(state, [state.jobs["y1"]])] == [text]
    assert list(share_turn_sentences(state, [state.jobs["o1"]])) == []
    assert turns_to_come(one_gpu(over_quota_weight=0)) == []


WEEK = 7 * 24 * 60 * MINUTE


def use_of(*steps: tuple[int, int], quota: int = 0, half_life: int = WEEK) -> int:
    """The average after a project held so many thousandths of a GPU for so long, one after the other."""
    past, use = PastUse(half_life, 0), ProjectUse()
    for held, time in steps:
        use.held = held
        add_up(use, past, quota, use.since + time)
    return average(use.used, half_life)


def test_past_use_decays_by_half_lives() -> None:
    for steps in (0, 1, 2, 100, 255, 256, 257, 1000, 5000):
        assert decayed(10**30, steps) == pytest.approx(10**30 * 2 ** (-steps / 256), rel=1e-12)
    assert decayed(10**30, 256) == 10**30 // 2
    for half_life in (WEEK // 7, WEEK, 365 * WEEK // 7):
        assert use_of((8000, half_life), half_life=half_life) == pytest.approx(4000, abs=24)
        assert use_of((8000, half_life), (0, half_life), half_life=half_life) == pytest.approx(2000, abs=24)
        assert use_of((8000, 50 * half_life), half_life=half_life) == pytest.approx(8000, abs=24)


def test_what_is_within_the_quota_is_no_past_use() -> None:
    assert use_of((8000, WEEK), quota=8000) == use_of((8000, WEEK), quota=-1) == 0
    assert use_of((8000, WEEK), quota=5000) == use_of((3000, WEEK))


def test_past_use_is_the_same_however_often_it_is_added_up() -> None:
    pieces = [(8000, 1_000_001)] * 40_000
    total = sum(time for _, time in pieces)
    assert use_of(*pieces) == pytest.approx(use_of((8000, total)), abs=1)


def both_want_all(vision_used: int = 2000, quota: int = 0) -> PoolState:
    """Eight GPUs that `vision` has; `language` asks for as many since now. vision_used: on average, thousandths."""
    projects = [{"name": "vision"}, {"name": "language", "quota": {"gpus": quota}}]
    jobs = [{"name": f"v{at}", "project": "vision", "gpus": 1, "node": "n1", "last_start": "9h ago"} for at in range(8)]
    jobs += [{"name": f"l{at}", "project": "language", "gpus": 1, "submitted": "1m ago"} for at in range(8)]
    pool = {"nodes": [{"name": "n1", "gpus": 8}], "projects": projects, "jobs": jobs}
    state = Planning(snapshot({**pool, "policy": {"fairness": {"half_life": "7d"}}})).state
    assert state.past_use is not None
    state.past_use.began -= WEEK
    state.past_use.projects["vision"].used = vision_used * (WEEK // 256 << 64) // (ONE - ROOTS[0]) + 10**9
    return state


def test_who_had_its_part_before_has_less_now_as_in_the_text() -> None:
    """`docs/concepts/semantics/quotas.md`, "Over time"."""
    state = both_want_all()
    assert [current_usage(state).entitlements[name].share.gpu_milli for name in ("vision", "language")] == [4000, 4000]
    (began,) = share_turns(state)
    assert [(each.project, each.gpu_milli) for each in began.used] == [("vision", 2000)]
    enact(state, began)
    assert [current_usage(state).entitlements[name].share.gpu_milli for name in ("vision", "language")] == [2000, 6000]
    assert (list(share_turns(state)), next_share_turn(state)) == ([], state.now + 6 * 60 * MINUTE)


def test_past_use_takes_nothing_of_a_quota() -> None:
    state = both_want_all(vision_used=100_000, quota=3)
    enact(state, *share_turns(state))
    assert [current_usage(state).entitlements[name].share.gpu_milli for name in ("vision", "language")] == [0, 8000]
    state = both_want_all(vision_used=0, quota=3)
    assert [current_usage(state).entitlements[name].share.gpu_milli for name in ("vision", "language")] == [2000, 6000]


def test_a_policy_without_a_half_life_forgets_and_another_half_life_keeps_the_averages() -> None:
    state = both_want_all()
    rules = state.rules.model_dump(mode="json")
    longer = {**rules, "fairness": {"half_life": "14d"}}
    append_facts(state, PolicyApplied(policy=Policy.model_validate(longer, strict=False)))
    assert state.past_use is not None
    assert (state.past_use.half_life, average_use(state, "vision")) == (2 * WEEK, pytest.approx(2000, abs=1))
    append_facts(state, PolicyApplied(policy=Policy.model_validate({**rules, "fairness": {}}, strict=False)))
    assert (state.past_use, state.share_turns) == (None, {})


def test_who_used_more_than_its_part_is_said_to_whoever_goes_first() -> None:
    state = both_want_all()
    used = "Project vision used twice its part beyond quotas over time: 2 GPUs on average, by a half-life of 7d"
    said = f"{used}; so project language goes first."
    assert turns_to_come(state) == [said]
    assert [each.text for each in share_turn_sentences(state, [state.jobs["l1"]])] == [said]
    enact(state, *share_turns(state))
    assert turns_to_come(state) == [f"{said} Shares follow at {clock(state.now + 6 * 60 * MINUTE)} at the earliest."]
    assert turns_to_come(both_want_all(vision_used=0)) == []


def test_a_project_that_moves_to_another_parent_takes_no_past_use_along_from_the_turn_of_the_old_one() -> None:
    projects = [
        {"name": "a"},
        {"name": "b"},
        {"name": "p", "parent": "a"},
        {"name": "pa", "parent": "a"},
        {"name": "q", "parent": "b"},
    ]
    jobs = [{"name": f"{name}{at}", "project": name, "gpus": 1, "submitted": "1m ago"} for name in "pq" for at in range(8)]
    pool = {"nodes": [{"name": "n1", "gpus": 8}], "projects": projects, "jobs": jobs}
    state = Planning(snapshot({**pool, "policy": {"fairness": {"half_life": "7d"}}})).state
    for parent, used in (("b", ()), ("a", (ProjectGpus(project="p", gpu_milli=20_000), ProjectGpus(project="pa", gpu_milli=1)))):
        enact(state, ShareTurnBegan(parent=parent, owed=(), used=used))
    rules = state.rules.model_dump(mode="json")
    rules["projects"][2]["parent"] = "b"
    append_facts(state, PolicyApplied(policy=Policy.model_validate(rules, strict=False)))
    assert state.share_turns["a"].used == {"pa": 1}
    enact(state, ShareTurnBegan(parent="b", owed=(), used=()))
    assert [current_usage(state).entitlements[name].share.gpu_milli for name in "pq"] == [4000, 4000]


def test_while_all_gpus_are_lost_past_use_of_them_takes_no_cpus() -> None:
    tree = ProjectTree((Project(name="vision"), Project(name="language")))
    total, asked = ResourceVector(0, 8000, 0), ResourceVector(0, 8000, 0)
    quotas = dict.fromkeys(("vision", "language", "*"), ZERO)
    found = entitlements(tree, total, quotas, {"vision": asked, "language": asked}, Steps(), used={"vision": 4000})
    assert [found[name].share.cpu_milli for name in ("vision", "language")] == [4000, 4000]

"""What rounding leaves over of GPUs goes in turn: when a turn begins, and what the state keeps of it."""

from typing import Any

from tests.kits.snapshots import snapshot

from bailiff_core.explain.sentences import clock
from bailiff_core.explain.share_turns import share_turn_sentences, turns_to_come
from bailiff_core.fold import enact
from bailiff_core.lifecycle.share_turns import next_share_turn, share_turns
from bailiff_core.model.state import PoolState, ShareTurn
from bailiff_core.plan import Planning
from bailiff_core.plan.build import append_facts
from bailiff_core.queue.share_turn import TURN
from bailiff_core.records.facts import PolicyApplied

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

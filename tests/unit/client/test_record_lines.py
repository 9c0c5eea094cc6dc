"""The exact text line of every record type."""
# ruff: noqa: E501 - expected lines are not wrapped

import typing
from dataclasses import replace
from typing import Any

import pytest
from tests.kits.record_examples import CHECKPOINT, DECIDED, EXAMPLES, PREEMPTOR, TASK, VICTIM, record
from tests.unit.client.kit import MINUTE, SECOND, LogWriter, finished_story, preemption_story

from bailiff.render.events import events_of
from bailiff.render.record_text.event_words import WORDS
from bailiff.render.record_text.line import styled
from bailiff.render.record_text.lines import ENTRIES, lines, sentence
from bailiff_core.humanize import cost_text, duration_text
from bailiff_core.model.state import PoolState
from bailiff_core.records import AUDIT_TYPES
from bailiff_core.records.subjects import jobs_of


def test_every_record_type_has_a_line_and_an_example() -> None:
    assert set(ENTRIES) == set(AUDIT_TYPES.values())
    assert set(EXAMPLES) == {kind.NAME for kind in AUDIT_TYPES.values()}


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_event_of_every_record_is_of_a_known_type(name: str) -> None:
    for event in events_of(record(name, EXAMPLES[name][0]), PoolState()):
        assert event["type"] in WORDS


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_enumerated_field_value_has_a_text(name: str) -> None:
    """Every reason, cause and outcome that a record type allows is printed; none raises an error in `audit tail`."""
    data = EXAMPLES[name][0]
    kind = next(kind for kind in AUDIT_TYPES.values() if name == kind.NAME)
    for field, about in kind.model_fields.items():
        for value in typing.get_args(about.annotation) if typing.get_origin(about.annotation) is typing.Literal else ():
            assert lines(record(name, {**data, field: value}))


def test_a_refusal_lists_every_attempted_action() -> None:
    tried = {
        "action": "reclaim",
        "refused": "impossible",
        "would_need": "2 more GPUs",
        "excluded": [{"rule": "scope", "jobs": 1}],
    }
    data = EXAMPLES["PreemptionRefused"][0]
    why = {"excluded": [{"rule": "not-preemptible", "jobs": 3}], "attempted_actions": [tried]}
    (line,) = lines(record("PreemptionRefused", {**data, "explanation": why}))
    assert str(line).endswith(
        "it would need: preempt: 8 more GPUs; reclaim: 2 more GPUs, excluded: reclaim: 1 scope; preempt: 3 not-preemptible"
    )


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        (
            {"action": "reclaim"},
            "train-7 → evict  for serve-2 (reclaim: b is entitled, a is over its share), loses 3.1 GPU-min of work and assumed restart together",
        ),
        (
            {"action": "preempt"},
            "train-7 → evict  for serve-2 (inference 125 > train 50), loses 3.1 GPU-min of work and assumed restart together",
        ),
        (
            {"action": "consolidate", "moved_to": [{"node": 1, "tasks": "0", "devices": "0-3"}]},
            "train-7 → move to node 1 [0-3]  for serve-2 (consolidate: all victims are moved), loses 3.1 GPU-min of work and assumed restart together",
        ),
        (
            {"action": "preempt", "tasks": "4-5"},
            "train-7/4-5 → evict  for serve-2 (inference 125 > train 50), loses 3.1 GPU-min of work and assumed restart together",
        ),
    ],
)
def test_each_action_states_why_the_victim_is_evicted(more: dict[str, Any], expected: str) -> None:
    victim = {
        **VICTIM,
        "class_name": "train",
        "project": "a",
        "moved_to": more.get("moved_to", []),
        "tasks": more.get("tasks", ""),
    }
    preemptor = {**PREEMPTOR, "project": "b"}
    (line,) = lines(
        record(
            "PreemptionDecided",
            {**DECIDED, "preemptor": preemptor, "action": more["action"], "victims": [victim], "graces": [SECOND]},
        )
    )
    assert str(line) == f"12:04:31 pool-a#118 preemption decided   {expected}"


@pytest.mark.parametrize("name", EXAMPLES)
def test_line(name: str) -> None:
    data, expected = EXAMPLES[name]
    found = [str(line) for line in lines(record(name, data))]
    assert found == [f"12:04:31 pool-a#118 {text}" for text in ([expected] if isinstance(expected, str) else expected)]


@pytest.mark.parametrize(
    ("name", "more", "expected"),
    [
        ("PreemptionRequested", {}, "Preemption requested: serve-2 (inference 125) needs 8 GPUs."),
        ("PreemptionRequested", {"reason": ""}, "Preemption requested: serve-2 (inference 125)."),
        (
            "PreemptionDecided",
            {},
            "Preemption decided: 2 jobs in total, loss 3.1 GPU-min of work and assumed restart together, serve-2 is placed on node 0 [0-3], no longer needed: x.",
        ),
        (
            "PreemptionRefused",
            {"would_need": "needs 8 more GPUs", "explanation": {}},
            "Preemption refused: serve-2, no permitted set of victims is sufficient, which victim selection claims to have proven, it would need: 8 more GPUs.",
        ),
        ("JobPending", {}, "Job pending: train-9 needs 8 GPUs."),
        ("JobPlaced", {}, "Job placed: train-7 → node 0 [0-3], attempt 2, backfilled."),
        ("NodeUndrained", {"reason": "done"}, "Node undrained: gpu-01, schedulable again: done."),
        (
            "TaskReleased",
            {"evidence": "api"},
            "Task released: train-7/0, on gpu-01, 1 device free by the Kubernetes API's word alone.",
        ),
        (
            "EvictionDecided",
            {"cause": "drain", "reason": "node-1 is drained (quick): new driver"},
            "Eviction decided: train-7, node-1 is drained (quick): new driver, grace 30s.",
        ),
        (
            "EvictionDecided",
            {"cause": "requested", "reason": "eviction requested: wrong data"},
            "Eviction decided: train-7, its eviction was requested: wrong data, grace 30s.",
        ),
        (
            "EvictionDecided",
            {"cause": "cancelled", "reason": "cancellation requested"},
            "Stop decided: train-7, it was cancelled, grace 30s.",
        ),
        (
            "EvictionDecided",
            {"cause": "scaled", "reason": "scaled down to 3 tasks"},
            "Stop decided: train-7, it was scaled down to 3 tasks, grace 30s.",
        ),
        (
            "EvictionDecided",
            {"cause": "paused", "reason": "its GPUs were idle for 600 s"},
            "Stop decided: train-7, it was paused: its GPUs were idle for 600 s, grace 30s.",
        ),
    ],
)
def test_sentence(name: str, more: dict[str, Any], expected: str) -> None:
    assert sentence(record(name, EXAMPLES[name][0] | more)) == expected


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_coloured_line_has_the_same_text(name: str) -> None:
    for line in lines(record(name, EXAMPLES[name][0])):
        assert styled(line).plain == str(line)


def test_each_victim_has_a_line_with_both_priorities() -> None:
    log_writer = preemption_story(LogWriter())
    decided = next(each for each in log_writer.records if each.type.endswith("PreemptionDecided.v1"))
    found = [str(line) for line in lines(decided, log_writer.state)]
    assert found == [
        "12:05:00 pool-a#21  preemption decided   train-7 → evict  for serve-2 (inference 125 > train 50), loses 16.0 GPU-min of work and 4.0 GPU-min to restart (assumed)",
        "12:05:00 pool-a#21  preemption decided   train-8 → evict  for serve-2 (inference 125 > train 50), loses 12.0 GPU-min of work and 4.0 GPU-min to restart (assumed)",
        "12:05:00 pool-a#21                       2 jobs in total, loss 28.0 GPU-min of work and 8.0 GPU-min to restart (assumed), serve-2 is placed on gpu-01 [0-7], gpu-02 [0-3]",
    ]


def test_no_victims_when_resources_became_free() -> None:
    (line,) = lines(record("PreemptionDecided", {**DECIDED, "victims": [], "graces": [], "unneeded_victims": ["train-7"]}))
    assert str(line).endswith("no victims  for serve-2: resources became free, placed on node 0 [0-3], no longer needed: train-7")


def test_the_actor_of_a_request_is_printed() -> None:
    (line,) = lines(record("JobCancelled", EXAMPLES["JobCancelled"][0], actor="alice", auth="signed"))
    assert str(line).endswith("wrong data, by alice (signed)")


def test_control_characters_are_replaced() -> None:
    (line,) = lines(record("JobPending", {"job": "a", "reason": "\x1b[2Jgone\r\nhello\u202e"}))
    assert str(line).endswith("�[2Jgone��hello�")


def test_a_record_type_of_a_later_release_is_named() -> None:
    later = record("JobPending", {"job": "a", "reason": "b"})
    (line,) = lines(replace(later, type="bailiff.audit.JobResized.v1", data=None))
    assert str(line) == "12:04:31 pool-a#118 JobResized.v1        written by a later release"


def test_records_are_indexed_by_job() -> None:
    log_writer = finished_story(LogWriter())
    line_text = [each.type.split(".")[2] for each in log_writer.records if "train-8" in jobs_of(each)]
    assert line_text[:3] == ["JobSubmitted", "JobPlaced", "TaskStarted"]
    assert "PreemptionDecided" in line_text
    assert line_text[-1] == "TaskStarted"


@pytest.mark.parametrize(
    ("micros", "text"),
    [
        *((5_000, "5ms"), (45 * SECOND, "45s"), (200 * SECOND, "3m20s"), (MINUTE, "1m"), (125 * MINUTE, "2h05m")),
        *((60 * MINUTE, "1h"), (99 * 60 * MINUTE, "4d03h"), (48 * 60 * MINUTE, "2d")),
    ],
)
def test_durations(micros: int, text: str) -> None:
    assert duration_text(micros) == text


@pytest.mark.parametrize(("gpu_ms", "text"), [(900, "1 GPU-s"), (186_000, "3.1 GPU-min"), (7_200_000, "2.0 GPU-h")])
def test_costs(gpu_ms: int, text: str) -> None:
    assert cost_text(gpu_ms) == text


@pytest.mark.parametrize(
    ("stage", "line_text"),
    [
        (
            {"stage": "noticed", "term_after": 120 * SECOND, "kill_after": 150 * SECOND, "attached": True, "step": 7},
            "notice delivered, on gpu-01, step 7, TERM after 2m, KILL after 2m30s",
        ),
        (
            {"stage": "noticed", "term_after": 120 * SECOND, "kill_after": 150 * SECOND},
            "notice delivered, on gpu-01, no notice channel: TERM at once, KILL after 2m30s",
        ),
        ({"stage": "acknowledged", "step": 8, "elapsed": SECOND}, "notice acknowledged, on gpu-01, step 8, 1s after the notice"),
        (
            {"stage": "checkpoint_committed", "checkpoint": CHECKPOINT, "elapsed": SECOND},
            "checkpoint saved, on gpu-01, step 120, 256MiB in 1s, 1s after the notice",
        ),
        (
            {"stage": "checkpoint_committed", "checkpoint": {**CHECKPOINT, "agreed": False}},
            "checkpoint saved, on gpu-01, step 120, 256MiB in 1s, not coordinated with its gang",
        ),
        (
            {"stage": "kill_sent", "stuck_in": "noticed", "elapsed": 5 * SECOND},
            "KILL sent, on gpu-01, notice never acknowledged, 5s after the notice",
        ),
    ],
)
def test_eviction_stages_are_printed_with_their_details(stage: dict[str, Any], line_text: str) -> None:
    (line,) = lines(record("EvictionStageReached", {**TASK, **stage}))
    assert str(line).endswith(f"train-7/0  {line_text}")

"""What the agent knows of a job from its messages: whether it is at its end."""

import pytest

from bailiff_node_agent.runtime import JobMessage
from bailiff_node_agent.tasks.task_messages import TaskMessages


@pytest.mark.parametrize(
    ("messages", "is_done"),
    [
        ([], False),
        ([("progress", {"step": 8, "total": 10})], False),
        ([("progress", {"step": 8, "total": None})], False),
        ([("progress", {"step": 9, "total": 10})], True),
        ([("yielding", {})], False),
        ([("progress", {"step": 3, "total": 10}), ("done", {})], True),
    ],
)
def test_a_job_is_at_its_end_with_its_last_step_or_with_done(messages, is_done):
    known = TaskMessages()
    for number, (kind, content) in enumerate(messages):
        known.take(JobMessage(number=number, at=0, content={"type": kind, **content}))
    assert known.is_done is is_done

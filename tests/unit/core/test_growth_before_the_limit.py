"""A job with a run-time limit asks for victims in order to grow: not where it ends before the last of them has left."""

import pytest
from tests.log_builder import SECOND, Story

from bailiff_core.model.demand import TaskGroup


@pytest.mark.parametrize(("remaining", "grows"), [(40, False), (60, False), (61, True)])
def test_the_longest_grace_decides(remaining: int, grows: bool) -> None:
    story = Story()
    story.node("a", gpus=4)
    for name, grace in (("short", 10), ("long", 60)):
        story.runs(name, gpus=1, grace=grace * SECOND)
    story.runs("elastic", TaskGroup(count=2, gpu_milli=2000), cls="interactive", min_tasks=1, run_time_limit=remaining * SECOND)
    story.propose()
    if grows:
        assert [choice.job for choice in story.expect("PreemptionDecided").victims] == ["short", "long"]
    else:
        refused = story.expect("PreemptionRefused", reason="impossible")
        assert refused.would_need == "its run-time limit is reached before the grace of its victims is over"

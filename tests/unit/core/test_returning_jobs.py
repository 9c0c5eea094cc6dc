"""Nobody is started on what a job that is being evicted takes back when it returns."""

import pytest


@pytest.mark.parametrize(("on_eviction", "starts"), [("requeue", False), ("end", True)])
def test_what_a_job_evicted_by_hand_releases_is_kept_for_it_only_if_it_returns(story, on_eviction, starts):
    story.node("n1", gpus=4)
    story.node("n2", gpus=4)
    story.runs("wide", gpus=4, tasks=2, cls="interactive", on_eviction=on_eviction)
    story.submit("low", gpus=4)
    story.evict("wide")
    story.begin("wide")
    story.ends("wide", code=85, task=0)
    assert (story.job("low").phase == "starting") == starts
    story.ends("wide", code=85, task=1)
    assert story.job("wide").phase == ("failed" if starts else "starting")

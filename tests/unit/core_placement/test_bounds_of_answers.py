"""Which projects must stay within their fair share when the victims of an answer are to stay."""

from types import SimpleNamespace
from typing import Any

import pytest
from tests.builders import group
from tests.unit.core_queue.kit import Town, gpus, project, whole

from bailiff_core.model.project_tree import ROOT
from bailiff_core.placement.task_requirements import TaskRequirements
from bailiff_core.scheduling_snapshot import current_snapshot
from bailiff_core.victims.unneeded_victims import Answer, _within_bounds


@pytest.mark.parametrize(
    ("action", "capped", "share", "within"),
    [
        ("preempt", True, 1, False),
        ("preempt", True, 2, True),
        ("preempt", False, 1, True),
        ("reclaim", False, 1, False),
        ("reclaim", False, 2, True),
    ],
)
def test_a_reclaim_keeps_to_the_fair_share_and_a_preemption_where_the_policy_says_so(
    action: Any, capped: bool, share: int, within: bool
) -> None:
    town = Town(project("ours", quota=1), project("theirs", quota=7))
    policy = town.state.rules
    preemption = policy.preemption.model_copy(update={"cap_at_fair_share": capped})
    town.state.policy = policy.model_copy(update={"preemption": preemption})
    job = town.runs("asks", "ours", group(gpus=2), devices=3)
    answer = Answer(whole(job), SimpleNamespace(action=action), ["ours", ROOT])  # type: ignore[arg-type]
    assert _within_bounds(current_snapshot(town.state), {"ours": gpus(share)}, answer) is within


def test_the_labels_of_a_requirement_are_in_the_order_of_their_names() -> None:
    wanted = group(gpus=1).model_copy(update={"node_labels": {"zone": "a", "rack": "b"}})
    assert TaskRequirements.of(wanted).labels == (("rack", "b"), ("zone", "a"))

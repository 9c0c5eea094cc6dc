"""Requests that no project bound would ever admit are refused at submission, not queued for ever."""

import pytest
from tests.builders import group
from tests.unit.core_queue.kit import Town, project

from bailiff_core.model.units import next_unit
from bailiff_core.quota.quota_checks import never_within_bounds


def refused(town: Town, *groups, minimum=None, **rest) -> str | None:
    unit = next_unit(town.waits("asks", "team", *groups, minimum=minimum, **rest))
    assert unit is not None
    return never_within_bounds(town.snapshot(), unit)


def test_a_request_as_large_as_the_limit_may_wait() -> None:
    town = Town(project("team", limit=4))
    town.runs("there", "team", group(4, gpus=1))
    assert refused(town, group(gpus=4)) is None, "what is allocated now does not count"


def test_a_request_above_the_limit_never_fits() -> None:
    assert refused(Town(project("team", limit=4)), group(gpus=5)) == "project team would use 5 of its limit of 4 GPUs"


def test_the_limit_of_a_parent_counts_too() -> None:
    town = Town(project("lab", limit=2), project("team", "lab", limit=4))
    assert refused(town, group(gpus=3)) == "project lab would use 3 of its limit of 2 GPUs"


def test_a_job_that_is_not_preemptible_stays_within_its_quota() -> None:
    town = Town(project("team", quota=2))
    assert str(refused(town, group(gpus=3), preemptible=False)).startswith("project team would use 3 of its quota of 2 GPUs")


@pytest.mark.parametrize(("gpus", "preemptible"), [(3, True), (2, False)])
def test_a_preemptible_job_may_borrow_and_another_may_use_all_of_the_quota(gpus: int, preemptible: bool) -> None:
    assert refused(Town(project("team", quota=2)), group(gpus=gpus), preemptible=preemptible) is None


def test_of_an_elastic_gang_the_minimum_has_to_fit() -> None:
    assert refused(Town(project("team", limit=2)), group(4, gpus=1), minimum=2) is None
    assert refused(Town(project("team", limit=2)), group(4, gpus=1), minimum=3) is not None

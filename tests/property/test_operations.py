"""What decisions cost does not grow unnoticed: operations are counted on full clusters of several sizes, and are as recorded."""

import pytest
from tests.property.operations import CASES, count, recorded

RECORDED = recorded()


@pytest.mark.parametrize(("name", "nodes"), CASES)
def test_decisions_take_as_many_operations_as_recorded(name: str, nodes: int) -> None:
    again = "more is slower: mend it, or record it and say why: python -m tests.property.operations"
    assert count(name, nodes) == RECORDED[name][str(nodes)], again


def test_operations_do_not_grow_with_the_cluster() -> None:
    """From 1,000 to 10,000 nodes none doubles, whatever is recorded, and no decision looks at all jobs."""
    small, large = RECORDED["arrivals"]["1000"], RECORDED["arrivals"]["10000"]
    assert {what: (small.get(what), number) for what, number in large.items() if number > 2 * small.get(what, 0)} == {}
    assert "searches over all jobs" not in large


def test_for_gpus_that_are_reserved_no_decision_adds_up_what_all_jobs_hold() -> None:
    small, large = (RECORDED["arrivals, GPUs reserved"][nodes]["holdings added up"] for nodes in ("100", "1000"))
    assert 0 < large < 2 * small

"""A proposal must keep the topology rules on its nodes with their current labels."""

from tests.builders import Sketch, group
from tests.unit.core_placement.test_revalidate import policy, verdict, why

from bailiff_core.model.demand import JobDemand, SubGroup, TopologyRule
from bailiff_core.model.placement_ranges import NodeShare
from bailiff_core.model.proposal import Proposal
from bailiff_core.model.state import Job
from bailiff_core.victims import Accepted

RACK = TopologyRule(topology="dc", required="rack")
APART = "the tasks are no longer in one domain at level 'rack'"


def racks(*names: str | None) -> Sketch:
    """One node of two GPUs per rack; `None`: without a label."""
    made = Sketch()
    made.state.policy = policy(topologies=[{"name": "dc", "levels": ["rack"]}])
    for number, rack in enumerate(names):
        made.node(f"n{number}", gpus=2, labels={"rack": rack} if rack else {})
    return made


def gang(made: Sketch, *groups, **rules: object) -> Job:
    preemptor = made.job("gang", *groups)
    preemptor.demand = JobDemand(job="gang", tasks=groups, **rules)
    return preemptor


def on(*nodes: int, tasks: str = "") -> Proposal:
    first = 1 if tasks else 0
    places = tuple(NodeShare(node=node, tasks=str(task), devices="0") for task, node in enumerate(nodes, start=first))
    return Proposal(request=1, job="gang", action="allocate", placement=places, tasks=tasks)


def test_nodes_without_the_label_are_in_no_rack():
    made = racks(None, None)
    assert why(made, gang(made, group(2, gpus=1), topology=RACK), on(0, 1)) == APART


def test_tasks_that_join_must_be_in_the_domain_of_the_others():
    made = racks("r1", "r2")
    wide = gang(made, group(gpus=1))
    made.at(wide, ("n0", [0]))
    wide.demand = JobDemand(job="gang", tasks=(group(2, gpus=1),), min_tasks=1, topology=RACK)
    assert why(made, wide, on(1, tasks="1")) == APART


def test_so_must_they_while_the_node_of_the_others_is_unreachable():
    made = racks("r1", "r2", "r1")
    wide = gang(made, group(gpus=1))
    made.at(wide, ("n0", [0]))
    wide.demand = JobDemand(job="gang", tasks=(group(2, gpus=1),), min_tasks=1, topology=RACK)
    made.state.nodes[0].state = "unreachable"
    assert why(made, wide, on(1, tasks="1")) == APART
    assert isinstance(verdict(made, wide, on(2, tasks="1")), Accepted)


def test_sub_groups_have_rules_of_their_own():
    made = racks("r1", "r2")
    groups = SubGroup(name="s", topology=RACK)
    assert why(made, gang(made, group(2, gpus=1, sub_group="s"), sub_groups=(groups,)), on(0, 1)) == APART

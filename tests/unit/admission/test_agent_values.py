"""What admission remembers of agents: by node and incarnation, within bounds."""

from tests.kits.log_builder import Story

from bailiff_admission.agent_values import MAX_OF_NODE, AgentValues


def test_an_incarnation_is_known_by_its_node_as_well():
    story, values = Story(), AgentValues[int]()
    values.put(story.state, "n1", "n2-life-1", 99)
    assert values.get("n2", "n2-life-1") is None
    assert values.get("n1", "n2-life-1") == 99


def test_however_many_incarnations_a_node_invents_its_joined_one_is_kept_and_few_others():
    story, values = Story(), AgentValues[int]()
    story.node("n1")
    joined = story.state.nodes[0].incarnation
    values.put(story.state, "n1", joined, 1)
    for number in range(10 * MAX_OF_NODE):
        values.put(story.state, "n1", f"invented-{number}", number)
    kept = [number for number in range(10 * MAX_OF_NODE) if values.get("n1", f"invented-{number}") is not None]
    assert values.get("n1", joined) == 1
    assert kept == [*range(9 * MAX_OF_NODE + 1, 10 * MAX_OF_NODE)]

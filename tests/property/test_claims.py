"""A job that claims more than it may is as likely a victim as its honest twin, and leaves no later than the policy says."""

from hypothesis import given
from hypothesis import strategies as st
from tests.kits.examples import examples
from tests.kits.log_builder import MINUTE, Story, policy

from bailiff_core.model.document import TEN_YEARS
from bailiff_core.model.policy import DEFAULT_CLAIMS

GREEDY = {
    "grace": TEN_YEARS,
    "preemptible": False,
    "stale_grace": "never",
    "preemption_delay": 0,
    "kill_after": TEN_YEARS,
    "labels": {"tier": "gold", "app": "web"},
}
PROTECTIONS = {
    "excluded": [{"tier": "gold"}],
    "budgets": [{"name": "web", "labels": {"app": "web"}, "max_disruptions": 0}],
    "preemption_delay": "1m",
}
RULES = policy(
    claims=DEFAULT_CLAIMS.model_dump(mode="json"),
    protections=PROTECTIONS,
    projects=[{"name": "a", "quota": {"gpus": 4}}, {"name": "b", "quota": {"gpus": 4}}],
    preemption={"scope": "pool", "quota_shields": False},
)
RUNNING = st.tuples(st.integers(1, 4), st.integers(1, 2), st.sampled_from(["a", "b"]), st.sampled_from(["train", "interactive"]))
ASKING = st.tuples(st.integers(1, 8), st.sampled_from(["a", "b"]), st.sampled_from(["train", "interactive", "inference"]))


def decided(running, asking, greedy):
    """All decisions of one history, in which some jobs are greedy, and its evictions' graces."""
    story, found, graces = Story(RULES), [], []
    for name in ("n1", "n2"):
        story.node(name, gpus=8)
    for number, (gpus, tasks, project, kind) in enumerate(running):
        claims = GREEDY if number in greedy else {}
        story.submit(f"job-{number}", gpus=gpus, tasks=tasks, project=project, cls=kind, **claims)
        if story.job(f"job-{number}").phase == "starting":
            story.started(f"job-{number}", after=MINUTE)
    for number, (gpus, project, kind) in enumerate(asking):
        story.submit(f"new-{number}", gpus=gpus, project=project, cls=kind, after=2 * MINUTE)
        if story.state.selection is not None:
            story.propose()
        for decision in story.last_decisions:
            data = decision.model_dump()
            graces += data.pop("graces", ())
            data.pop("expires", None)
            found.append((decision.NAME, data))
    return found, graces


@examples(60)
@given(
    running=st.lists(RUNNING, min_size=1, max_size=7),
    asking=st.lists(ASKING, min_size=1, max_size=3),
    greedy=st.sets(st.integers(0, 6), min_size=1),
)
def test_claims_that_are_not_granted_change_nothing_but_a_bounded_grace(running, asking, greedy):
    honest, _ = decided(running, asking, set())
    claimed, graces = decided(running, asking, greedy)
    assert claimed == honest
    assert all(grace <= 10 * MINUTE for grace in graces)

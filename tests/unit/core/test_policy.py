"""A policy that changes while jobs are pending, running and being evicted."""

from tests.kits.claims import classes
from tests.kits.log_builder import MINUTE, SECOND, policy
from tests.kits.story_script import play


def test_pending_jobs_take_the_new_order():
    story = play("submit train: 8 gpus; submit study: interactive, 8 gpus; queue = study train")
    story.apply_policy(policy(priority_classes=classes(train={"value": 80})))
    assert story.state.queue == ["train", "study"]
    changed = story.state.policy_revision
    story.node("n1")
    assert story.records[-1].policy == changed


def test_running_jobs_take_their_class_as_it_is_now():
    story = play("node n1: 8 gpus; runs train: 8 gpus; submit study: interactive, 8 gpus")
    late = story.proposal()
    story.apply_policy(policy(priority_classes=classes(train={"preemptible": False})))
    story.cycle(late)
    refused = story.expect("PreemptionRefused", reason="stale")
    assert "not-preemptible" in refused.would_need
    assert story.job("train").phase == "running"


def test_a_job_s_own_settings_outlive_its_class(story):
    story.submit("mine", gpus=1, preemptible=False)
    story.apply_policy(policy(priority_classes=classes(train={"value": 60})))
    assert (story.job("mine").priority, story.job("mine").preemptible) == (60, False)


def test_evictions_in_progress_continue():
    story = play("node n1: 8 gpus; runs train: 8 gpus; submit study: interactive, 8 gpus; propose")
    story.apply_policy(policy(priority_classes=classes(train={"value": 90}), preemption={"actions": ["allocate"]}))
    story.yields("train")
    story.expect("JobStarting", job="study")


def test_graces_come_from_the_job_then_its_class_then_the_policy(tell):
    story = tell(policy(priority_classes=classes(train={"grace": "7s"}), eviction={"grace": "9s"}))
    play("node n1: 8 gpus; runs own: 1 gpu, grace 5s; runs class: 1 gpu; runs rest: interactive, 1 gpu", story=story)
    graces = []
    for name in ("own", "class", "rest"):
        story.cancel(name)
        graces.append(story.expect("EvictionDecided", job=name).grace)
    assert graces == [5 * SECOND, 7 * SECOND, 9 * SECOND]


def test_a_longer_reservation_expiry_applies_to_new_reservations():
    story = play(
        "node n1: 8 gpus; runs done: 8 gpus; exits done 0; submit next: 8 gpus; policy {preemption: {reservation_expiry: 1h}}"
    )
    assert story.job("next").reserved_until == story.time + 10 * MINUTE
    story.wait(10 * MINUTE)
    assert story.expect("JobPlaced", job="next").expires == story.time + 60 * MINUTE


def test_a_node_that_may_lack_the_new_policy_keeps_its_old_lease():
    """Lease and margin together, whichever of the two becomes shorter, until the node joins anew."""
    story = play("policy {nodes: {lease: 10m, lost_margin: 1m}}; node n1: 8 gpus")
    node = story.state.nodes[0]
    for lease, margin, waits in [(300, 60, 660), (300, 20, 660), (900, 20, 920), (60, 1000, 1060), (60, 20, 1060)]:
        story.apply_policy(policy(nodes={"lease": f"{lease}s", "lost_margin": f"{margin}s"}))
        assert node.lease + story.state.rules.nodes.lost_margin == waits * SECOND
    story.node("n1", gpus=8)
    assert story.state.nodes[0].lease == 60 * SECOND

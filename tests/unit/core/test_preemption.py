"""A job that may preempt others: request, selection, proposal, decision."""

from tests.kits.log_builder import MINUTE
from tests.kits.story_script import stories

from bailiff_core.model.placement_ranges import NodeShare
from bailiff_core.model.proposal import Proposal, VictimChoice

test_preemption_in_stories = stories("""
given crowded
    node n1: 8 gpus; runs low: 8 gpus; +1m; submit high: interactive, 4 gpus; => PreemptionRequested high

victims of a gang are evicted together
    node n1: 8 gpus; node n2: 8 gpus; runs gang: 2 x 8 gpus; submit high: interactive, 2 gpus; propose
    => PreemptionDecided victims.*.gpus=16; begin gang; ends gang code=85 task=0; => JobStarting high; gang is evicting
    ends gang code=85 task=1; => JobRequeued gang outcome=preempted

a victim that finishes by itself has succeeded
    crowded; propose; ends low; => JobEnded low outcome=succeeded; => JobStarting high

without the action no job requests preemption
    rules {preemption: {actions: [allocate]}}; node n1: 8 gpus; runs low: 8 gpus; submit high: interactive, 8 gpus
    => only JobPending

a preemption from request to start
    crowded
    => PreemptionRequested selection=1 priority=75 class_name=interactive reason="needs 1 task of 4 GPUs, no node fits one"
    selection.deadline = now + 5s; +1s; propose
    => PreemptionDecided unneeded_victims=nothing victims.*.job=low victims.*.gpus=8 victims.*.lost_gpu_ms=968000 graces=150s
    => PreemptionDecided explanation.proven=true; high.reserved_until = now + 750s; low is evicting; high is reserved
    +1s; yields low; => JobRequeued low outcome=preempted cause=preemption not_before=0; => JobStarting high attempt=1
    preemptions = nothing; ends high; => JobPlaced low attempt=2

equal, higher or protected jobs are never evicted
    node n1: 8 gpus; runs same: interactive, 4 gpus; runs serving: inference, 4 gpus; submit preemptor: interactive, 4 gpus
    => only JobPending; ends same; => JobPlaced preemptor; submit higher: build, 8 gpus; => PreemptionRequested higher; propose
    => PreemptionRefused reason=impossible would_need~"'serving', which is not preemptible"
    => PreemptionRefused explanation.excluded.*.rule=not-preemptible explanation.excluded.*.jobs=1

a job of equal priority is no victim beside a lower one
    node n1: 8 gpus; runs same: interactive, 4 gpus; runs low: 4 gpus; submit preemptor: interactive, 8 gpus; propose
    => PreemptionRefused reason=impossible would_need~"'same', which does not have lower priority"
    => PreemptionRefused explanation.excluded.*.rule=lower-priority-only explanation.excluded.0.examples=same

a class whose preemption policy is Never preempts nothing
    rules {priority_classes: [{name: calm, value: 90, preemptible: true, preemption_policy: Never, global_default: true}]}
    node n1: 8 gpus; runs low: 8 gpus; submit high: 8 gpus; => only JobPending

a proposal for a job that has got its place meanwhile is not needed
    node n1: 4 gpus; node n2: 4 gpus; runs a: 4 gpus; +1m; runs b: 4 gpus; submit high: interactive, 4 gpus; compute
    ends a; => JobPlaced high; deliver; => PreemptionRefused reason=not-needed; b is running

victims that ended by themselves are recorded as dropped
    node n1: 8 gpus; runs a: 4 gpus; runs b: 4 gpus; submit high: interactive, 8 gpus; compute; ends a; deliver
    => PreemptionDecided unneeded_victims=a victims.*.job=b

a proposal by an action that the policy no longer allows is stale
    node n1: 8 gpus; runs low: 8 gpus; submit high: interactive, 8 gpus; compute; policy {preemption: {actions: [allocate]}}
    deliver
    => PreemptionRefused reason=stale would_need="'high' may no longer use preempt: policy field preemption.actions lacks it"
    high.next_request_at = now + 1s; low is running

a partial proposal answers the rest as stale
    node n1: 8 gpus; runs a: 4 gpus; runs b: 4 gpus; submit x: interactive, 4 gpus & y: interactive, 4 gpus
    => PreemptionRequested x; => PreemptionRequested y; propose first; => PreemptionDecided; => PreemptionRefused reason=stale
    selection = none; y.next_request_at = now + 1s

two preemptors in one selection share no resources, and least work is lost
    node n0: 4 gpus; +1m; runs low-0: 4 gpus; node n1: 4 gpus; +1m; runs low-1: 4 gpus; node n2: 4 gpus; +1m; runs low-2: 4 gpus
    submit x: interactive, 4 gpus & y: build, 4 gpus; selection.requests.*.job = y x; propose
    => PreemptionDecided preemptor.job=y victims.*.job=low-2; => PreemptionDecided preemptor.job=x victims.*.job=low-1

releasing resources count as future capacity, and their owner is no victim
    crowded; propose; submit also: interactive, 4 gpus; => JobPlaced also reserved=true
    yields low; => JobStarting high; => JobStarting also

a very long grace protects no job
    node n1: 8 gpus; runs low: 8 gpus, grace 3650d; submit high: interactive, 8 gpus; propose; => PreemptionDecided graces=3650d

an unnecessary proposal is not requested again at once
    node n1: 8 gpus; runs low: 8 gpus; submit high: interactive, 8 gpus; compute
    policy {preemption: {actions: [preempt]}}; ends low; submit low-2: 1 gpu  # nobody places what fits by itself
    deliver; => PreemptionRefused reason=not-needed; high.next_request_at = now + 1s
""")


def crowded(story, gpus=8):
    """One node, full of one preemptible job, and a request for half of it."""
    story.node("n1", gpus=gpus)
    story.runs("low", gpus=gpus)
    story.submit("high", gpus=4, cls="interactive", after=MINUTE)
    return story.expect("PreemptionRequested", job="high")


def test_invalid_proposals_evict_no_job(story):
    story.node("n1", gpus=8)
    story.runs("low", gpus=4)
    story.runs("serving", gpus=4, cls="inference")
    share = NodeShare(node=0, tasks="0", devices="4-7")
    low = VictimChoice(job="low", attempt=1, priority=50, gpus=4, lost_gpu_ms=0)
    serving = low.model_copy(update={"job": "serving"})
    for wrong, why in (
        ({"job": "other"}, "for another job"),
        ({"victims": (serving,)}, "protected by rule 'not-preemptible'"),
        ({"victims": (low, low)}, "named twice"),
        ({"placement": (NodeShare(node=7, tasks="0", devices="0-3"),)}, "is not schedulable"),
        ({"placement": (NodeShare(node=0, tasks="0", devices="0-2"),)}, "is invalid"),
        ({"placement": (NodeShare(node=0, tasks="0", devices="0-99999999"),)}, "is invalid"),
        ({"placement": (NodeShare(node=0, tasks="1", devices="0-3"),)}, "is invalid"),
        ({"placement": ()}, "has no place"),
        ({"placement": (share,)}, "task 0 does not fit"),
        ({"victims": ()}, "task 0 does not fit"),
    ):
        if "high" not in story.state.jobs:
            story.submit("high", gpus=4, cls="interactive")
        request = story.state.selection.requests[0].seq
        good = {"request": request, "job": "high", "victims": (low,), "placement": (NodeShare(node=0, tasks="0", devices="0-3"),)}
        story.propose(proposals=[Proposal.model_validate(good | wrong)])
        refused = story.expect("PreemptionRefused", reason="stale")
        assert why in refused.would_need, wrong
        assert story.job("low").phase == story.job("serving").phase == "running"
        story.wait(2 * MINUTE)
        story.expect("PreemptionRequested", job="high")


def test_proposals_for_closed_requests_are_ignored(story):
    crowded(story)
    answer = story.proposal().proposals[0]
    story.propose(proposals=[answer.model_copy(update={"request": 3})])
    story.expect("PreemptionRefused", reason="stale")

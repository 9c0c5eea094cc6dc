"""Cancelled evictions."""

from tests.kits.story_script import play, stories

from bailiff_bus.messages.commands import Evict
from bailiff_eviction_executor.pending_messages import pending_commands

test_eviction_cancellation_in_stories = stories("""
given evicting
    node n1: 8 gpus; runs low: 8 gpus; +1m; submit high: interactive, 8 gpus; propose; => PreemptionDecided

given evicting a gang of two
    node n1: 8 gpus; runs low: 2 x 4 gpus; +1m; submit high: interactive, 8 gpus; propose; => PreemptionDecided

resources that are released after all are allocated at once
    evicting; begin low; cancel high; submit next: 8 gpus; cancel_eviction_refused low; => JobPlaced next reserved=true

a member that fails during the cancellation
    node n1: 8 gpus; runs low: 2 x 4 gpus; +1m; submit high: interactive, 8 gpus; propose; => PreemptionDecided
    begin low; cancel high; ends low code=1 task=0; eviction_cancelled low task=1; => EvictionDecided low cause=gang-failure
    begin low; ends low code=143 task=1; => JobEnded low outcome=failed

a member that fails after the others confirmed the cancellation
    node n1: 8 gpus; runs low: 2 x 4 gpus; +1m; submit high: interactive, 8 gpus; propose; => PreemptionDecided
    begin low; cancel high; eviction_cancelled low task=1; exits low code=1 task=0; => EvictionDecided low cause=gang-failure

a member that fails before any notice
    node n1: 8 gpus; runs low: 2 x 4 gpus; +1m; submit high: interactive, 8 gpus; propose; => PreemptionDecided
    ends low code=1 task=0; cancel high; => EvictionCancelled low notified=false; => EvictionDecided low cause=gang-failure

a member that finished before the preemption was abandoned
    node n1: 8 gpus; runs low: 2 x 4 gpus; +1m; submit high: interactive, 8 gpus; propose; => PreemptionDecided
    exits low task=0; cancel high; => EvictionCancelled low notified=false; low is running
    releases low task=0; ends low task=1; => JobEnded low outcome=succeeded

a reserved preemptor is preempted and its victims keep running
    node n1: 8 gpus; node n2: 8 gpus; runs low-1: 8 gpus; runs steady: inference, 4 gpus; +1m; runs low-2: 4 gpus
    submit mid: interactive, 8 gpus; propose; => PreemptionDecided victims.*.job=low-1
    submit small: inference, 4 gpus; propose; => PreemptionDecided victims.*.job=mid victims.*.reserved=true; mid is pending
    low-1 is evicting; yields low-1; => JobStarting small

resources of a cancelled eviction are not allocated to another job
    rules {backfill: greedy}; node n1: 8 gpus; node n2: 8 gpus; runs low-1: 8 gpus; runs low-2: 8 gpus; submit waits: 8 gpus
    submit mid: interactive, 2 x 8 gpus; propose; submit top: inference, 8 gpus; propose
    => only PreemptionDecided EvictionCancelled JobPending PreemptionRequested; waits is pending; mid is pending

an inherited victim keeps running when its new preemption is abandoned
    node n1: 8 gpus; runs low: 8 gpus; submit mid: interactive, 8 gpus; propose; begin low; submit top: inference, 8 gpus; propose
    low.eviction.for_job = top; cancel mid; cancel top
    => EvictionCancelled low notified=true reason="top no longer needs the resources"

a job cancelled during the cancellation of its eviction ends
    evicting; cancel low; cancel high; => EvictionDecided low cause=cancelled; yields low; => JobEnded low outcome=cancelled

a job whose eviction is cancelled while starting runs once all its tasks do
    node n1: 8 gpus; submit low: 2 x 4 gpus; started low task=0; submit high: interactive, 8 gpus; propose; +1s
    started low task=1; low is evicting; +1s; cancel high; low is running; low.last_start = now - 1s

a job that fails after a cancelled eviction has failed
    evicting; begin low; staged low noticed; staged low acknowledged; cancel high; eviction_cancelled low; ends low code=1
    => JobEnded low outcome=failed

an eviction cancelled before its notice leaves no trace
    evicting; cancel high; => ReservationDropped high reason=cancelled; => JobEnded high outcome=cancelled
    => EvictionCancelled low notified=false reason="high no longer needs the resources"; low is running
    low.evictions = 0; low.last_start = now - 1m

a cancellation after the notice is confirmed by every agent
    evicting a gang of two; begin low; cancel high; => EvictionCancelled low notified=true; low is evicting
    submit next: 8 gpus; => only JobPending  # its resources are not releasing
    eviction_cancelled low task=0; low is evicting; eviction_cancelled low task=1; low is running
    low.tasks.*.eviction_cancelled = false false

surplus whose eviction is cancelled runs on, and the job is not evicting
    node n1: 8 gpus; runs low: 4 x 2 gpus, min 1; +1m; submit high: interactive, 2 gpus; propose; begin low; evicting = low
    cancel high; eviction_cancelled low task=3; evicting = nothing; low.running = 0 1 2 3
    low.tasks.*.noticed = false false false false; low.tasks.3.eviction = none

the whole gang is evicted if one member has exited
    evicting a gang of two; begin low; cancel high; eviction_cancelled low task=0; cancel_eviction_refused low task=1
    low.eviction.cancel_seq = none; low.eviction.preemption = none; low.eviction.started_seq != none
    low.tasks.*.eviction_cancelled = false false; ends low code=85; => JobRequeued low outcome=preempted

a reserved preemptor is preempted, and its victims leave for the new one
    node n1: 8 gpus; node n2: 8 gpus; runs low-1: 8 gpus; runs steady: inference, 4 gpus; +1m; runs low-2: 4 gpus
    submit mid: interactive, 8 gpus; propose; => PreemptionDecided victims.*.job=low-1; submit small: inference, 4 gpus; propose
    => PreemptionDecided victims.*.job=mid victims.*.reserved=true; mid is pending
    low-1 is evicting  # a reservation costs nothing
    yields low-1; => JobStarting small

only evictions whose resources are not needed are cancelled
    node n1: 8 gpus; node n2: 8 gpus; runs low-1: 8 gpus; runs low-2: 8 gpus; submit mid: interactive, 2 x 8 gpus; propose
    => PreemptionDecided victims.*.gpus="8 8"; submit top: inference, 8 gpus; propose
    => PreemptionDecided victims.*.job=mid placement.*.node=0
    => EvictionCancelled low-2 notified=false; low-1 is evicting; top is reserved; yields low-1; => JobStarting top
""")


def evicting(story, tasks=1):
    """`low` is being evicted for `high`."""
    story.node("n1", gpus=8)
    story.runs("low", gpus=8 // tasks, tasks=tasks)
    play("+1m; submit high: interactive, 8 gpus; propose; => PreemptionDecided", story=story)


def test_an_acknowledgement_of_a_cancelled_notice_does_not_count_for_a_later_eviction(story):
    """Its agent has withdrawn the notice, so a new one is sent; the earlier acknowledgement excuses no failure now."""
    evicting(story, tasks=2)
    play(
        "begin low; staged low noticed; staged low acknowledged; cancel high; eviction_cancelled low task=0",
        "cancel_eviction_refused low task=1",
        story=story,
    )
    pending_notices = {(body.tasks, body.ordered_by.seq) for body in pending_commands(story.state) if isinstance(body, Evict)}
    assert pending_notices == {((0,), story.job("low").eviction.started_seq)}


def test_a_partly_started_preemption_that_is_abandoned_cancels_evictions_without_notice_at_once(story):
    """The eviction of one victim of two has started when the preemptor is cancelled; the other gets no notice."""
    for name in ("n1", "n2"):
        story.node(name, gpus=8)
    play(
        "runs notified: 8 gpus; runs untold: 8 gpus; +1m; submit high: interactive, 2 x 8 gpus; propose; begin notified",
        "cancel high",
        story=story,
    )
    taken_back = {entry.job: entry.notified for entry in story.decisions("EvictionCancelled")}
    assert taken_back == {"notified": True, "untold": False}
    assert (story.job("untold").phase, story.job("notified").phase) == ("running", "evicting")
    assert [(type(body).__name__, body.job) for body in pending_commands(story.state)] == [("CancelEviction", "notified")]
    story.eviction_cancelled("notified")
    assert story.job("notified").phase == "running"

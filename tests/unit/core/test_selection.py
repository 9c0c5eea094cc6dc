"""One selection is out at a time: its timeout, its backoff, and the resources it holds back."""

from tests.kits.story_script import stories

test_selection_in_stories = stories("""
given half full
    node n1: 8 gpus; runs low: 4 gpus; submit high: interactive, 8 gpus; => PreemptionRequested high

only one selection is open
    half full; submit higher: build, 8 gpus; => only JobPending; propose; => PreemptionDecided
    => PreemptionRequested higher selection=2

jobs behind the preemptor wait for its proposal
    half full; submit small: 2 gpus; => nothing; propose; => PreemptionDecided; => JobPending small; small is pending

the wait ends with a refusal
    rules {backfill: greedy}; half full; submit small: 2 gpus; propose nothing; => PreemptionRefused reason=stale
    => JobPlaced small

with backfill reserve no job delays the preemptor meanwhile
    rules {backfill: reserve}; half full; submit small: 2 gpus; propose nothing; => JobPending small reason~high

a proposal at the deadline still counts
    half full; +5s; propose; => PreemptionDecided

a preemptor that is cancelled frees the held resources
    half full; submit small: 2 gpus; cancel high; => JobEnded high outcome=cancelled; => JobPlaced small; selection = none

a node reserved beyond its capacity adds no free resources
    node n1: 8 gpus, at most 3 tasks; runs steady: inference, 1 gpu; runs low: 1 gpu; runs stuck: 4 gpus; cancel stuck
    begin stuck; submit promised: interactive, 1 gpu; => JobPlaced promised reserved=true
    +270s; submit high: build, 8 gpus; => EvictionStuck stuck; => PreemptionRequested high; => ReservationDropped promised
    promised is pending; nodes.0.allocated.slots = 3

a job that is paused meanwhile requests nothing any more
    half full; pause high; selection = none; high is paused; low is running

jobs behind the preemptor then take resources that it does not need
    half full; submit small: 2 gpus; node n2: 6 gpus; => nothing; propose; => PreemptionDecided victims.0.moved_to.0.node=1
    => JobPlaced small

jobs ahead of the preemptor may take the resources
    half full; compute; submit first: inference, 4 gpus; => JobPlaced first reserved=false; deliver
    => PreemptionRefused reason=stale

no proposal in time
    rules {backfill: greedy}; half full; submit small: 2 gpus; wait 5s; => SelectionTimedOut selection=1 failures=1
    => JobPlaced small
    selection = none; wake = now + 2s; wait 2s; => PreemptionRequested high selection=2

after three timeouts a selection waits for its proposal
    rules {backfill: reserve}; half full; wait 1m; selection_failures = 3; selection.number = 4; selection.deadline = none
    submit small: 2 gpus; wait 1h; small is pending  # the head of the queue is not delayed
    propose; => PreemptionDecided; selection_failures = 0

a proposal restores the timeout of the next selection
    half full; wait 1m; propose nothing; wait 2s; => PreemptionRequested high; selection.deadline != none

a preemptor may be forgotten while its selection is open
    rules {retention: {ended_jobs: 0s}}; half full; submit other: interactive, 8 gpus; cancel high; jobs = low other
    submit small: 2 gpus; wait 1m; submit late: 1 gpu; jobs = low other small late
""")


def test_a_selection_has_at_most_64_requests(story):
    story.node("n1", gpus=8)
    story.runs("low", gpus=8)
    story.cycle(*(story.submitted(f"high-{n}", gpus=8, cls="interactive") for n in range(70)))
    assert len(story.state.selection.requests) == 64

"""Operator requests: evict, pause, resume, drain and migrate."""

from tests.kits.log_builder import policy
from tests.kits.story_script import stories

from bailiff_core.scheduling_snapshot import current_snapshot

test_operator_actions_in_stories = stories("""
given running
    node n1: 8 gpus; runs train: 4 gpus

an evicted job has its grace and is requeued at its old place
    running; evict train reason="benchmark at noon"
    => EvictionDecided train cause=requested grace=150s reason="eviction requested: benchmark at noon"
    yields train; => JobRequeued train cause=requested outcome=preempted not_before=0; => JobPlaced train attempt=2
    train.evictions = 1; train.failures = 0

evicting a job that has not started drops its reservation
    node n1: 8 gpus; runs one: 4 gpus; runs two: 4 gpus; submit next: interactive, 8 gpus; propose; next is reserved
    evict next; => ReservationDropped next reason=requested; => EvictionCancelled one; next.operator_request = none

a job that ends on eviction is not requeued
    node n1: 8 gpus; runs once: 4 gpus, on_eviction end; evict once; yields once; => JobEnded once outcome=evicted

a resumed job goes through the queue
    node n1: 8 gpus; runs one: 4 gpus; runs two: 4 gpus; pause one; yields one; runs three: 4 gpus; resume one; => JobPending one
    queue = one

pausing drops a reservation and its victims keep running
    node n1: 8 gpus; runs one: 4 gpus; runs two: 4 gpus; submit next: interactive, 8 gpus; propose; pause next
    => ReservationDropped next reason=paused; => EvictionCancelled one; next is paused

a paused head of the queue blocks no other job
    rules {backfill: reserve}; running; submit big: 8 gpus; submit small: 4 gpus; => JobPending small
    pause big; => JobPlaced small

a victim that is paused is suspended once its eviction is complete
    node n1: 8 gpus; runs one: 4 gpus; runs two: 4 gpus; submit next: interactive, 8 gpus; propose; pause one; => nothing
    yields one; => JobRequeued one cause=preemption; one is paused

a paused job is evicted although its earlier eviction was cancelled
    node n1: 8 gpus; runs one: 4 gpus; runs two: 4 gpus; submit next: interactive, 8 gpus; propose; pause one; cancel next
    => EvictionCancelled one; => EvictionDecided one cause=paused

a job resumed during its eviction is pending afterwards
    running; pause train; begin train; resume train; train is evicting; ends train code=85; => JobPlaced train attempt=2

a paused job is kept even if it ends on eviction
    node n1: 8 gpus; runs once: 4 gpus, on_eviction end; pause once; yields once; once is paused

a paused job can be cancelled
    running; pause train; yields train; cancel train; => JobEnded train outcome=cancelled

a job that succeeds within its grace has ended
    running; pause train; begin train; ends train; => JobEnded train outcome=succeeded

a drained node gets no new tasks
    node n1: 8 gpus; drain n1 graceful; submit train: 4 gpus; => JobPending train; undrain n1; => JobPlaced train

under a graceful drain jobs may finish until the deadline
    node n1: 8 gpus; runs short: 4 gpus; runs long: 4 gpus; drain n1 graceful 10m reason="new driver"; => nothing
    +1m; ends short; wait 10m; => DrainDeadlineReached node=n1
    => EvictionDecided long cause=drain grace=150s reason="n1 is drained (graceful): new driver"
    yields long; => JobRequeued long cause=drain; => JobPending long

an undrain cancels evictions without notice
    node n1: 8 gpus; runs told: 4 gpus; runs untold: 4 gpus; drain n1 quick; begin told; undrain n1
    => EvictionCancelled untold notified=false reason="its node is no longer drained"; untold is running; told is evicting
    untold.evictions = 0

an undrain keeps evictions for another drained node
    node n1: 8 gpus; node n2: 8 gpus; runs gang: 2 x 8 gpus; drain n1 quick; drain n2 quick; undrain n1; gang is evicting

a graceful drain without a deadline evicts no job
    running; drain n1 graceful; wait 1d; train is running

a deadline shortens the grace
    running; drain n1 quick 10s; => EvictionDecided train grace=10s

a second request replaces the first
    running; drain n1 graceful 1h; drain n1 fast; => EvictionDecided train grace=5s

reservations on a drained node are made anew elsewhere
    node n1: 8 gpus; runs low: 8 gpus; submit high: interactive, 8 gpus; propose; high is reserved
    node n2: 8 gpus; drain n1 graceful; => ReservationDropped high reason=drain; => EvictionCancelled low
    => JobPlaced high placement.*.node=1

a drain outlives the agent and its machine
    node n1: 8 gpus; drain n1 graceful reason=memory; lost n1; node n1: 8 gpus, boot 2; submit train: 4 gpus; => JobPending train
    nodes.0.drain.reason = memory

a migration uses the requested node
    running; node n2: 8 gpus; node n3: 8 gpus; migrate train n3; => MigrationDecided placement.*.node=2

releasing resources are no destination for a migration
    node n1: 4 gpus; runs train: 4 gpus; node n2: 4 gpus; runs there: 4 gpus; cancel there; migrate train
    => MigrationRefused train reason~"evicting jobs"

a migration respects the job's node list
    node n1: 8 gpus; runs here: 1 gpu, only on n1; node n2: 8 gpus; migrate here
    => MigrationRefused reason~"not in the job's node list"

a migration whose reservation is lost before the notice is cancelled
    running; node n2: 8 gpus; migrate train; silent n2; => ReservationDropped train reason=resources-lost
    => EvictionCancelled train; train is running

a migration whose reservation is lost after the notice requeues the job
    running; node n2: 8 gpus; migrate train; begin train; drain n2 graceful; => ReservationDropped train reason=drain
    ends train code=85; => JobRequeued train cause=migration; => JobPlaced train action=allocate placement.*.node=0

a migrating job that is paused loses its reservation
    running; node n2: 8 gpus; migrate train; begin train; pause train; nodes.1.reserved.devices = 0
    ends train code=85; train is paused

a job that ends on eviction can be migrated
    node n1: 8 gpus; runs once: 4 gpus, on_eviction end; node n2: 8 gpus; migrate once; yields once; => JobStarting once

a job that fails during its eviction has failed
    running; node n2: 8 gpus; migrate train; begin train; ends train code=3; => JobEnded train outcome=failed
    nodes.1.reserved.devices = 0

a pending job is paused at once and requests no preemption
    node n1: 8 gpus; runs one: 4 gpus; runs two: 4 gpus; submit urgent: interactive, 8 gpus; selection != none
    pause urgent; urgent is paused; selection = none; resume urgent; => PreemptionRequested urgent

other drain modes evict at once (quick, 150000000)
    running; drain n1 quick; => EvictionDecided train cause=drain grace=150s

other drain modes evict at once (fast, 5000000)
    running; drain n1 fast; => EvictionDecided train cause=drain grace=5s

a migrated job starts on its reservation
    running; node n2: 8 gpus; migrate train reason="n1 is noisy"
    => MigrationDecided train reason="n1 is noisy" placement.*.node=1
    n2.reserved.devices != 0; submit other: 8 gpus; => JobPlaced other reserved=true placement.*.node=0
    yields train; => JobRequeued train cause=migration; => JobPlaced train action=migrate attempt=2; => JobStarting train
    started train; train.tasks.*.node = 1; train.evictions = 0

a job that is evicted and cancelled in one cycle is evicted once, as cancelled
    running; fact JobEvictionRequested job=train & JobCancelled job=train; => only EvictionDecided
    => EvictionDecided cause=cancelled
    train.operator_request = none

a paused job frees its resources until it is resumed
    node n1: 8 gpus; runs train: 4 gpus; runs other: 4 gpus; submit waits: 4 gpus; pause train reason="data is being fixed"
    => EvictionDecided train cause=paused; yields train; => JobRequeued train cause=paused; => JobStarting waits; train is paused
    queue = nothing; train.evictions = 0; started waits; ends waits; train is paused; wait 1h; resume train
    => JobPlaced train attempt=2

under a graceful drain a cooperative job moves to free resources
    node n1: 8 gpus; runs listens: 4 gpus; runs deaf: 4 gpus; report TaskProgressed listens step=1; node n2: 8 gpus
    drain n1 graceful 1h reason="new driver"
    => MigrationDecided listens cause=migration reason="n1 is drained (graceful): new driver" placement.*.node=1; deaf is running
    yields listens; => JobStarting listens; listens.evictions = 0

it moves once resources are free, or once it registers as cooperative
    node n1: 8 gpus; runs early: 4 gpus; runs late: 4 gpus; report TaskProgressed early step=1; drain n1 graceful; => nothing
    node n2: 8 gpus; => MigrationDecided early; late is running; report TaskProgressed late step=1; => MigrationDecided late

an undrain cancels evictions of single members without notice
    node n1: 2 gpus; node n2: 2 gpus; runs wide: 4 x 1 gpu, min 2; drain n2 quick; undrain n2
    => EvictionCancelled wide notified=false; wide.tasks.*.eviction = none none none none

of two drains under a gang the one with less grace counts
    node n1: 8 gpus; node n2: 8 gpus; runs gang: 2 x 8 gpus; fact NodeDrained node=n1 mode=quick & NodeDrained node=n2 mode=fast
    => EvictionDecided gang grace=5s reason="n2 is drained (fast)"

of two drains under a gang the one with less grace counts, whichever comes first
    node n1: 8 gpus; node n2: 8 gpus; runs gang: 2 x 8 gpus
    fact NodeDrained node=n1 mode=fast & NodeDrained node=n2 mode=graceful
    => EvictionDecided gang grace=5s reason="n1 is drained (fast)"

an elastic job continues without its members on a drained node
    node n1: 2 gpus; node n2: 2 gpus; runs wide: 4 x 1 gpu, min 2; drain n2 quick; => EvictionDecided wide cause=drain tasks=2-3
    yields wide; => JobShrunk wide cause=drain; wide is running

a jump of the clock moves no deadline
    running; drain n1 graceful 1h; clock steps 2h; train is running; wait 1h; => DrainDeadlineReached node=n1

a gang migrates whole and never onto its own resources
    node n1: 4 gpus; node n2: 4 gpus; runs gang: 2 x 4 gpus; node n3: 8 gpus; migrate gang; => MigrationDecided placement.*.node=2

a migration without a placement is refused
    running; node n2: 2 gpus; migrate train; => MigrationRefused train; train is running; train.operator_request = none

what a job evicted on request releases is kept for it, as it returns
    node n1: 4 gpus; node n2: 4 gpus; runs wide: interactive, 2 x 4 gpus; submit low: 4 gpus; evict wide; begin wide
    ends wide code=85 task=0; low is pending; ends wide code=85 task=1; wide is starting

what a job evicted on request releases is free where it does not return
    node n1: 4 gpus; node n2: 4 gpus; runs wide: interactive, 2 x 4 gpus, ends when evicted; submit low: 4 gpus; evict wide
    begin wide
    ends wide code=85 task=0; low is starting; ends wide code=85 task=1; wide is failed
""")


# --- pause


def test_a_paused_job_has_no_demand_for_fair_share(tell):
    story = tell(policy(projects=[{"name": "red", "quota": {"gpus": 4}}, {"name": "blue", "quota": {"gpus": 4}}]))
    story.node("n1", gpus=8)
    story.runs("there", gpus=8, project="blue")
    story.submit("train", gpus=8, project="red")
    story.pause("train")
    assert current_snapshot(story.state).usage.requested("red")[0] == 0
    story.resume("train")
    assert current_snapshot(story.state).usage.requested("red")[0] == 8000

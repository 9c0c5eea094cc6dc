"""Resources reserved for a pending gang, and how a reservation ends."""

from tests.kits.story_script import stories

test_reservations_in_stories = stories("""
given promised
    node n1: 8 gpus; runs low: 8 gpus; submit high: interactive, 8 gpus; propose; => PreemptionDecided; high is reserved

a reservation ends with its node
    promised; silent n1; => ReservationDropped high reason=resources-lost; => EvictionCancelled low notified=false; low is running
    high is pending

a reservation ends when a device fails
    promised; node n1: 8 gpus, sick 3; => ReservationDropped high reason=resources-lost

an abandoned preemption drops its reservation
    promised; node n2: 8 gpus; abandon high; => ReservationDropped high reason=abandoned; => EvictionCancelled low notified=false
    => JobPlaced high reserved=false; low is running; high is starting

an expired reservation is made again
    node n1: 8 gpus; runs done: 8 gpus; exits done; submit next: 8 gpus; wait 10m; => only ReservationDropped JobPlaced
    releases done; => JobStarting next attempt=2

a stuck eviction is not counted on
    promised; begin low; wait 270s; => EvictionStuck low; => ReservationDropped high reason=resources-lost
    nodes.0.releasing.devices = 0; submit other: 1 gpu; => JobPending other; ends low code=85; low is pending
    => JobPlaced high reserved=false

a victim that runs beyond the reservation expiry
    promised; wait 1h; => ReservationDropped high reason=expired; => EvictionCancelled low notified=false; low is running

reserved resources go to no other job
    promised; begin low; submit higher: interactive, 8 gpus; exits low code=85; submit another: 1 gpu; queue = higher another
    releases low; => JobStarting high

a reservation expires
    promised; +749s; begin low; wait 1s; => ReservationDropped high reason=expired; => EvictionCancelled low notified=true

a reservation by allocate
    node n1: 8 gpus; runs done: 8 gpus; submit next: 8 gpus; exits done; => JobPlaced next reserved=true
    next.reserved_until = now + 600s; releases done; => JobStarting next

CPU and memory are reserved, too
    node n1: 0 gpus, 10 cpus, 10 GiB; runs low: 8 cpus; submit high: interactive, 5 cpus; propose; => PreemptionDecided
    submit small: 1 cpu; => JobPlaced small reserved=false; submit more: 2 cpus; => JobPlaced more reserved=true
    yields low; => JobStarting high; => JobStarting more
""")

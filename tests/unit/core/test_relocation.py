"""Relocated jobs, and relocated surplus tasks of jobs that continue: eviction with a reservation elsewhere."""

from tests.kits.story_script import stories

test_relocation_in_stories = stories("""
given moving
    node n1: 8 gpus; runs low: 4 gpus; submit high: interactive, 8 gpus; node n2: 4 gpus; propose
    => PreemptionDecided victims.0.moved_to.*.node=1 victims.0.moved_to.*.devices=0-3

given shrinking
    node n1: 8 gpus; runs wide: 4 x 2 gpus, min 1; submit high: interactive, 4 gpus; node n2: 2 gpus; propose
    => PreemptionDecided victims.0.tasks=2-3 victims.0.moved_to.*.node=1 victims.0.moved_to.*.tasks=2

it starts on its reservation
    moving; yields low; => JobRequeued low cause=preemption; => JobPlaced low attempt=2 reserved=true action=preempt
    => JobStarting low; => JobStarting high; low.reservation = nothing

an abandoned preemption frees the reservation
    moving; cancel high; => EvictionCancelled low; low.reservation = nothing; nodes.1.reserved.devices = 0

the reservation is lost
    moving; silent n2; => ReservationDropped low reason=resources-lost; low.reservation = nothing

a cancelled job loses its reservation
    moving; +1m; cancel low; nodes.1.reserved.devices = 0

a scaled job is placed anew
    moving; scale low 2; low.reservation = nothing; nodes.1.reserved.devices = 0

relocated surplus rejoins its job in the same attempt
    shrinking; yields wide; => JobShrunk wide tasks=2-3; => JobGrown wide attempt=1 reserved=true action=preempt
    => JobStarting wide tasks=2; => JobStarting high; wide.reservation = nothing; wide.tasks.2.node = 1
    started wide; wide.running = 0 1 2

surplus of an abandoned preemption stays and loses its reservation
    shrinking; cancel high; => EvictionCancelled wide tasks=2-3 notified=false; wide.reservation = nothing
    nodes.1.reserved.devices = 0; wide.running = 0 1 2 3

surplus whose eviction is cancelled after the notice loses its reservation
    shrinking; begin wide; cancel high; wide.reservation = nothing; nodes.1.reserved.devices = 0
    eviction_cancelled wide task=2; cancel_eviction_refused wide task=3; yields wide; => JobShrunk wide tasks=3

the reservation of surplus is lost with its node
    shrinking; silent n2; => ReservationDropped wide reason=resources-lost tasks=2; wide.reservation = nothing
    yields wide; => JobShrunk wide tasks=2-3; wide.members = 0 1

the reservation of surplus expires
    rules {preemption: {reservation_expiry: 1m}}; shrinking; begin wide; wait 1h; wide.reservation = nothing

a member that succeeds during its eviction loses its reservation
    shrinking; begin wide; ends wide task=2; wide.reservation = nothing; nodes.1.reserved.devices = 0

the reservation is kept during the eviction
    moving; low.reservation.*.node = 1; nodes.1.reserved.devices = 15; submit other: 2 gpus; => JobPending other

evicted surplus has a reservation while its job continues
    shrinking; wide is running; wide.reservation.*.index = 2; wide.reservation.*.node = 1
    submit other: 2 gpus; => JobPending other

the reservation ends at its expiry and not before
    rules {preemption: {reservation_expiry: 1m}}; moving; begin low; low.reservation_until = now + 210s; +209s; tick
    low.reservation != nothing; wake = now + 1s; +1s; tick; => ReservationDropped low reason=expired; low.reservation = nothing

its reservation may be on resources of another victim of the decision
    node n1: 8 gpus; runs low: 4 gpus; runs lower: 4 gpus; node n2: 4 gpus; submit pair: interactive, 2 x 4 gpus; propose
    submit urgent: inference, 8 gpus; propose; pair is pending; low.reservation.*.node = 1; n2.reserved.devices = 15

a job that is cancelled while surplus moves does not restart on its reservation
    shrinking; begin wide; cancel wide; wide.reservation = nothing; n2.reserved.devices = 0

nor does one that fails
    shrinking; begin wide; exits wide code=1 task=0; => EvictionDecided wide cause=gang-failure tasks=-
    wide.reservation = nothing
    n2.reserved.devices = 0

nor one of which all tasks leave
    shrinking; begin wide; ends wide code=85; wide.reservation = nothing; n2.reserved.devices = 0

to free one node only surplus is relocated
    rules {preemption: {max_migrations: null}}; node n1: 8 gpus; runs wide: 4 x 2 gpus, min 1; submit peer: 4 gpus
    node n2: 2 gpus; node n3: 2 gpus; propose
    => PreemptionDecided action=consolidate victims.*.tasks=2-3 victims.*.relocated=true
    yields wide; => JobStarting peer; started wide; wide.tasks.*.node = 0 0 1 2; wide.attempt = 1
""")

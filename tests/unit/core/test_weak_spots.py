"""Weak spots of the peers (semantics §7) that no snapshot can show, because they lie in what comes after the decision.

Those that one can show are in tests/scenarios; the last test here holds that none of the list is missing.
"""

from tests.kits.story_script import stories

test_weak_spots_in_stories = stories("""
given low is inside its grace window
    node n1: 4 gpus; runs low: 4 gpus, max_failures 3; +1m; submit high: inference, 4 gpus; propose; begin low
    staged low noticed; staged low term_sent; +5s

Slurm: exit 85 in the grace window is a preemption
    low is inside its grace window; ends low code=85; => JobRequeued low outcome=preempted; low.failures = 0

Slurm: exit 0 in the grace window is one, too, as most shell scripts answer TERM so
    low is inside its grace window; ends low code=0; => JobRequeued low outcome=preempted; low.failures = 0

Slurm: death by our TERM is an unclean preemption
    low is inside its grace window; ends low code=143; => JobRequeued low outcome=preempted-unclean; low.failures = 0

Slurm: so is any other code in the grace window, as launchers turn TERM into 1
    low is inside its grace window; ends low code=1; => JobRequeued low outcome=preempted-unclean; low.failures = 0

Slurm: so is a KILL that is not ours, out of memory perhaps
    low is inside its grace window; ends low code=137; => JobRequeued low outcome=preempted-unclean; low.failures = 0

Slurm: the same exit before any notice is no preemption
    node n1: 4 gpus; runs low: 4 gpus; +1m; submit high: inference, 4 gpus; propose; +1s; ends low code=143
    => JobEnded low outcome=failed

KAI: a failed eviction is recorded, and nothing starts on its resources
    low is inside its grace window; wait 5m; => EvictionStuck low; high is pending; low is evicting; n1.allocated.devices = 15

Koordinator: a reservation whose resources are gone is dropped and requested anew
    low is inside its grace window; node n2: 4 gpus; runs other: 4 gpus; +1m; lost n1
    => ReservationDropped high reason=resources-lost
    propose; => PreemptionDecided victims.*.job=other
""")

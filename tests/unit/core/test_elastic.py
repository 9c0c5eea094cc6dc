"""Gangs that run with fewer members than they ask for: they grow, shrink one by one, and never lose a part of their core."""

from tests.kits.story_script import play, stories

from bailiff_core.model.demand import TaskGroup

test_elastic_in_stories = stories("""
given elastic
    node n1: 8 gpus; runs wide: 8 x 1 gpu, min 4

it starts with the tasks that fit and waits for more
    node n1: 6 gpus; runs wide: 8 x 1 gpu, min 4; wide.running = 0 1 2 3 4 5; queue = wide

below its minimum the whole job is pending
    node n1: 3 gpus; submit wide: 8 x 1 gpu, min 4; => JobPending wide; wide.members = nothing

surplus is evicted before any core and the job continues
    elastic; submit demo: interactive, 2 gpus; propose; => PreemptionDecided victims.*.job=wide victims.*.tasks=6-7
    wide is running; yields wide; => JobShrunk wide tasks=6-7 outcome=preempted cause=preemption lost_gpu_ms=120000
    => JobStarting demo; wide.members = 0 1 2 3 4 5; started demo; ends demo; wide.members = 0 1 2 3 4 5 6 7

at its minimum it is evicted whole
    elastic; submit demo: interactive, 5 gpus; propose; => PreemptionDecided victims.*.tasks=-; wide is evicting; queue = nothing

evicted surplus that exits with an error does not fail the job
    elastic; submit demo: interactive, 1 gpu; propose; yields wide code=1; => JobShrunk wide outcome=preempted-unclean
    wide is running

one selection takes only once from a job that stops as a whole
    node n1: 3 gpus; runs other: 1 gpu; runs batch: 2 x 1 gpu, min 1, elastic restart, on_eviction end; wait 30m
    submit first: interactive, 1 gpu; submit second: interactive, 1 gpu; submit third: interactive, 1 gpu; propose
    => PreemptionDecided preemptor.job=first; propose; => PreemptionDecided preemptor.job=second victims.*.job=batch
    => PreemptionRefused preemptor.job=third

surplus lost with its machine only shrinks the job
    node n1: 6 gpus; runs wide: 8 x 1 gpu, min 4; node n2: 2 gpus; started wide; lost n2
    => JobShrunk wide tasks=6-7 outcome=lost cause=exit; wide is running; node n3: 1 gpu; wide.members = 0 1 2 3 4 5
    # it grows again only after a while
    wait 1m; wide.members = 0 1 2 3 4 5 6

a core member lost stops the gang
    node n1: 4 gpus; node n2: 2 gpus; runs wide: 6 x 1 gpu, min 5; lost n2; => EvictionDecided wide cause=gang-failure tasks=""

a member that fails stops the gang surplus or not
    elastic; exits wide code=1 task=7; => EvictionDecided wide cause=gang-failure tasks=""

a member that is replaced stops no other whatever its exit code
    node n1: 8 gpus; runs serve: 3 x 1 gpu, min 1, max_failures 0, on_failure replace; ends serve code=0 task=1
    => JobShrunk serve tasks=1 outcome=lost cause=exit; serve is running; ends serve code=7 task=2; => JobShrunk serve tasks=2
    serve.running = 0; wait 16s; serve.members = 0 1 2; serve is running

members that are replaced do not end their job together either
    node n1: 8 gpus; runs serve: 2 x 1 gpu, min 1, max_failures 0, on_failure replace; ends serve code=0
    => JobRequeued serve outcome=lost

a member that is replaced was preempted if it had its notice
    node n1: 3 gpus; runs serve: 3 x 1 gpu, min 1, on_failure replace; submit demo: interactive, 1 gpu; propose
    => PreemptionDecided victims.*.tasks=2; yields serve code=0; => JobShrunk serve outcome=preempted

with a grace for stale gangs it may get another member
    rules {protections: {stale_gang: 1m}}; node n1: 2 gpus; node n2: 1 gpu; runs gang: 3 x 1 gpu; lost n2
    => JobShrunk gang tasks=0 outcome=lost; gang.stale_since = now; node n3: 1 gpu; wait 30s; => JobGrown gang
    gang.stale_since = none

a stale gang is evicted when its grace is over
    rules {protections: {stale_gang: 1m}}; node n1: 2 gpus; node n2: 1 gpu; runs gang: 3 x 1 gpu; lost n2; wait 1m
    => EvictionDecided gang cause=stale-gang

pending growth does not stop the job
    node n1: 4 gpus; runs short: 2 gpus; runs wide: 4 x 1 gpu, min 2; exits short; => JobGrown wide reserved=true; wide is running
    wide.reserved = 2 3; releases short; => JobStarting wide tasks=2-3; wide.starting = 2 3

no task joins a gang without members
    node n1: 3 gpus; runs short: 2 gpus; runs wide: 3 x 1 gpu, min 1, max_failures 3; exits short; => JobGrown wide reserved=true
    exits wide code=1 task=0; releases short; wide.reserved = 1 2; releases wide task=0
    => JobRequeued wide attempt=1 outcome=failed; wait 1m; => JobPlaced wide attempt=2

it succeeds when all started members have
    node n1: 6 gpus; runs wide: 8 x 1 gpu, min 4; exits wide task=5; queue = nothing
    # a gang of which a member has finished does not grow
    releases wide; ends wide; wide is succeeded

a member whose eviction is cancelled keeps running
    elastic; submit demo: interactive, 2 gpus; propose; begin wide; cancel demo; => EvictionCancelled wide tasks=6-7
    eviction_cancelled wide task=6; wide.tasks.6.eviction = none; cancel_eviction_refused wide task=7; exits wide code=85 task=7
    releases wide; => JobShrunk wide tasks=7; => JobGrown wide

it grows in the same attempt when resources are free
    node n1: 6 gpus; runs wide: 8 x 1 gpu, min 4; node n2: 8 gpus; => JobGrown placement.0.tasks=6
    => JobGrown placement.0.tasks=7
    +1m; started wide; wide is running; wide.attempt = 1; wide.last_start = now - 1m; wide.running = 0 1 2 3 4 5 6 7
    queue = nothing

a reservation for growth is lost with its node
    node n1: 2 gpus; node n2: 2 gpus; runs short: 2 gpus; runs tall: 4 x 1 gpu, min 2; exits short; tall.reserved = 2 3; silent n1
    => ReservationDropped tall reason=resources-lost tasks=2-3; tall.members = 0 1

an eviction cancelled before its notice changes nothing
    node n1: 8 gpus; runs wide: 8 x 1 gpu, min 4; submit demo: interactive, 2 gpus; propose; cancel demo
    => EvictionCancelled wide tasks=6-7 notified=false; wide.tasks.6.eviction = none; wide.tasks.7.eviction = none

the whole job is evicted while some members are being evicted
    node n1: 8 gpus; runs wide: 8 x 1 gpu, min 4; submit demo: interactive, 2 gpus; propose; begin wide; cancel wide
    => EvictionDecided wide cause=cancelled tasks=-; yields wide; wide is cancelled
""")


def elastic(story, gpus=8, size=8, least=4):
    """`wide` runs on as many of `size` one-GPU tasks as the node takes, at least `least`."""
    story.node("n1", gpus=gpus)
    story.runs("wide", gpus=1, tasks=size, min_tasks=least)


def test_members_whose_eviction_is_overdue_are_stuck_and_not_counted_on(story):
    elastic(story)
    play("submit demo: interactive, 2 gpus; propose; begin wide; wait 1h; wide is running", story=story)
    assert [stuck.tasks for stuck in story.decisions("EvictionStuck")] == ["6-7"]


def test_task_groups_grow_in_their_declared_order(story):
    story.node("n1", gpus=2)
    workers = (TaskGroup(count=1, gpu_milli=1000), TaskGroup(count=3, gpu_milli=1000, order=1))
    story.runs("mixed", *workers, min_tasks=2)
    assert story.members("mixed") == [1, 2]

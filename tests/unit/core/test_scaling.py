"""Jobs that change their number of tasks, or reach their run-time limit."""

from tests.kits.story_script import stories

test_scaling_in_stories = stories("""
given serving
    node n1: 8 gpus; runs serve: inference, 2 x 1 gpu

tasks that do not fit are pending
    node n1: 3 gpus; runs serve: inference, 2 x 1 gpu; scale serve 6; serve.members = 0 1 2; queue = serve

growth may preempt other jobs
    serving; runs train: 6 gpus; scale serve 4; => PreemptionRequested serve tasks=2; propose
    => PreemptionDecided tasks=2 attempt=1 victims.*.job=train; serve is running; yields train; => JobStarting serve tasks=2
    started serve; serve.running = 0 1 2 3

scaling down evicts the last tasks
    serving; scale serve 6; started serve; scale serve 3; => EvictionDecided serve cause=scaled tasks=3-5
    yields serve; => JobShrunk serve tasks=3-5; serve is running; serve.members = 0 1 2; queue = nothing

scaling down while growth is reserved
    node n1: 4 gpus; runs short: 2 gpus; runs serve: inference, 2 x 1 gpu; exits short; scale serve 4; serve.reserved = 2 3
    scale serve 3; => ReservationDropped serve reason=scaled tasks=3; serve.reserved = 2

scaling a pending job changes its request
    node n1: 4 gpus; submit gang: 6 x 1 gpu; scale gang 4; => JobPlaced gang placement.0.tasks=0-3; gang.minimum = 4

scaling a reserved job places it anew
    node n1: 4 gpus; runs short: 4 gpus; submit gang: 4 x 1 gpu; exits short; => JobPlaced gang reserved=true
    scale gang 2 minimum=2; => ReservationDropped gang reason=scaled; => JobPlaced gang placement.0.tasks=0-1

a job that succeeds within the grace has succeeded
    node n1: 8 gpus; runs bounded: 4 gpus, run_time_limit 1h; wait 1h; ends bounded; => JobEnded bounded outcome=succeeded

a running job grows in place and needs no more than before
    serving; scale serve 6; => only JobGrown JobGrown JobGrown JobGrown; => JobGrown placement.0.tasks=2
    => JobGrown placement.0.tasks=5
    serve.minimum = 2; serve.size = 6; started serve; serve.attempt = 1

a job runs no longer than it may
    node n1: 8 gpus; runs bounded: 4 gpus, ends within 1h; runs free: 4 gpus; wait 3599999999us; => nothing; wait 1us
    => EvictionDecided bounded cause=time-limit reason="its run-time limit of 3600 s is reached"; yields bounded
    => JobEnded bounded outcome=timed-out reason="it ran longer than its limit of 3600 s"; free is running

the limit counts each attempt from its start
    node n1: 8 gpus; runs bounded: 8 gpus, ends within 1h; +1m; submit urgent: inference, 8 gpus; propose; yields bounded
    started urgent; wait 2h; run_time_limits = nothing; ends urgent; started bounded; wake = now + 1h
""")

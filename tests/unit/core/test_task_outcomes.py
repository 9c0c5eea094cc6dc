"""The meaning of exits: exits after a notice, yields, and restarts. The table itself is in test_attempt_outcomes.py."""

from tests.kits.story_script import stories

# --- the meaning of exits, for one task and for gangs


test_task_outcomes_in_stories = stories("""
given running
    node n1: 8 gpus; runs job: 2 x 4 gpus

a job that is to end with its first eviction
    node n1: 8 gpus; runs job: 2 x 4 gpus, on_eviction end; submit high: interactive, 8 gpus; propose; yields job code=85
    => JobEnded job outcome=evicted; job is failed

exit code 143 without an eviction is a failure
    running; ends job code=143; => JobEnded job outcome=failed

what was lost is counted from the present start
    running; +10m; submit high: interactive, 8 gpus; propose; yields job; => JobRequeued lost_gpu_ms=5280000
    +10m; ends high; => JobPlaced job attempt=2; +1m; submit higher: interactive, 8 gpus; propose
    => PreemptionDecided victims.*.lost_gpu_ms=480000

an unobserved exit of a member is a loss and no failure
    running; report TaskExited job exit_code=-9 unobserved=true; => EvictionDecided job cause=gang-failure
    releases job task=0; ends job code=85 task=1; => JobRequeued job outcome=lost; job.failures = 0; job.losses = 1

preemptions do not count as failures
    node n1: 8 gpus; runs job: 2 x 4 gpus, max_failures 1; submit high-0: interactive, 8 gpus; propose; yields job code=143
    => JobRequeued job outcome=preempted-unclean not_before=0; started high-0; +2m; ends high-0; +1m; started job
    submit high-1: interactive, 8 gpus; propose; yields job code=143; => JobRequeued job outcome=preempted-unclean not_before=0
    started high-1; +2m; ends high-1; +1m; started job; submit high-2: interactive, 8 gpus; propose; yields job code=143
    => JobRequeued job outcome=preempted-unclean not_before=0; started high-2; ends high-2; +1m; started job; job.failures = 0
    job.evictions = 3; job.last_eviction != none

success
    running; ends job task=0; => nothing; ends job task=1; => JobEnded job outcome=succeeded exit_codes=nothing

a failure stops the others and ends the job
    running; exits job code=3 task=1
    => EvictionDecided job cause=gang-failure grace=150s reason="task 1 ended, so the gang is stopped"
    releases job; staged job term_sent task=0; ends job code=143 task=0
    => JobEnded job outcome=failed exit_codes.0=143 exit_codes.1=3 reason="task 1 ended with exit code 3"

a failure within the limit is retried after a backoff
    node n1: 8 gpus; runs job: 2 x 4 gpus, max_failures 2; ends job code=1; => JobRequeued job outcome=failed cause=exit
    job.not_before = now + 2s; wait 2s; => JobPlaced job; started job; ends job code=1; job.not_before = now + 4s; wait 4s
    started job; ends job code=1; => JobEnded job outcome=failed

an unsolicited yield requeues the job after its backoff
    running; ends job code=85; => JobRequeued job outcome=yielded cause=exit; job.not_before = now + 2s; wait 2s
    => JobPlaced job attempt=2

a start that the agent refused is a loss and no failure
    node n1: 8 gpus; submit job: 2 x 4 gpus; started job task=0; report TaskStartRefused job task=1 reason="the device is busy"
    => EvictionDecided job cause=gang-failure; begin job; staged job term_sent; ends job code=143; => JobRequeued job outcome=lost
    job.failures = 0; job.not_before != 0
""")


# --- exit code 85 without an eviction notice is no preemption: the job backs off, and such restarts are counted and bounded


test_exit_85_without_notice_in_stories = stories("""
given the limited
    rules {restarts: {max_yields: 2, backoff: 2s}}; node n1: 8 gpus

given two such restarts are allowed
    rules {restarts: {max_yields: 2, backoff: 2s}}; node n1: 8 gpus

given two yields
    two such restarts are allowed; runs job: 1 gpu; exits job code=85; releases job
    => JobRequeued job outcome=yielded cause=exit rule=exit-85-without-notice; job is pending; job.last_eviction = none
    job.not_before = now + 2s; wait 2s; started job; exits job code=85; releases job; job.not_before = now + 4s; wait 4s
    started job

one member of a gang that leaves takes the others along
    the limited; runs gang: 2 x 1 gpu; exits gang code=85 task=0; => EvictionDecided gang cause=gang-failure
    releases gang task=0; begin gang; staged gang noticed task=1; ends gang code=85 task=1
    => JobRequeued gang outcome=yielded cause=gang-failure rule=exit-85-without-notice

a cancelled job is cancelled
    the limited; runs job: 1 gpu; exits job code=85; cancel job; releases job; => JobEnded job outcome=cancelled

it backs off twice as long each time, and then it has failed
    two yields; job.yields = 2; job.failures = 0; job.losses = 0; job.evictions = 0; exits job code=85; releases job
    => JobEnded job outcome=failed reason="it exited with 85 without an eviction notice, 3 times (rule exit-85-without-notice)"

yields do not count as failures or extend their backoff
    two such restarts are allowed; runs job: 1 gpu, max_failures 1; ends job code=1; wait 2s; started job; exits job code=85
    releases job; => JobRequeued job outcome=yielded; job.not_before = now + 2s; job.failures = 1

after a notice it is a preemption as ever
    two such restarts are allowed; runs low: 8 gpus; submit high: interactive, 8 gpus; propose; begin low; staged low noticed
    exits low code=85; releases low; => JobRequeued low outcome=preempted cause=preemption rule=- not_before=0; low.yields = 0

an exit between decision and notice is a preemption
    two such restarts are allowed; runs low: 8 gpus; submit high: interactive, 8 gpus; propose; exits low code=85; releases low
    => JobRequeued low outcome=preempted cause=preemption

an eviction after the last such restart is not counted as one, and not the end
    two yields; evict job; yields job; => JobRequeued job outcome=preempted; job.yields = 2; job.evictions = 1
""")


# --- exit code 0 after an eviction notice is a preemption, unless the job said that it was done


test_exit_after_notice_in_stories = stories("""
given two victims
    node n1: 4 gpus; runs low-0: 2 gpus; runs low-1: 2 gpus; submit high: interactive, 4 gpus; propose

every victim that answers TERM with 0 comes back
    two victims; yields low-0 code=0; => JobRequeued low-0 outcome=preempted cause=preemption rule=exit-0-after-notice
    low-0 is pending
    yields low-1 code=0; started high; ends high; low-0 is starting; low-1 is starting

a notice alone is enough
    two victims; begin low-0; staged low-0 noticed; ends low-0; => JobRequeued low-0 rule=exit-0-after-notice

a job that reported done has finished
    two victims; begin low-0; staged low-0 noticed; report TaskExited low-0 exit_code=0 done=true; releases low-0
    => JobEnded low-0 outcome=succeeded

a job with on_term finish has finished
    node n1: 4 gpus; runs low: 4 gpus, on_term finish; submit high: interactive, 4 gpus; propose; yields low code=0
    => JobEnded low outcome=succeeded

a job that ends when evicted is evicted, and the record says why
    node n1: 4 gpus; runs low: 4 gpus, ends when evicted; submit high: interactive, 4 gpus; propose; yields low code=0
    => JobEnded low outcome=evicted reason~exit-0-after-notice

a job that exits with 0 before its notice has finished
    two victims; begin low-0; ends low-0; => JobEnded low-0 outcome=succeeded

the same holds for a job that is evicted by request
    node n1: 4 gpus; runs job: 4 gpus; evict job; yields job code=0; => JobRequeued job rule=exit-0-after-notice; job is starting

the same holds for a job that is paused
    node n1: 4 gpus; runs job: 4 gpus; pause job; yields job code=0; => JobRequeued job rule=exit-0-after-notice; job is paused

the same holds for a job that migrates
    node n1: 4 gpus; runs job: 4 gpus; node n2: 4 gpus; migrate job; yields job code=0
    => JobRequeued job rule=exit-0-after-notice
    job is starting

the same holds for a job on a drained node
    node n1: 4 gpus; runs job: 4 gpus; node n2: 4 gpus; drain n1 quick; yields job code=0
    => JobRequeued job rule=exit-0-after-notice
    job is starting

a cancelled job that answers TERM with 0 is cancelled
    node n1; runs job: 1 gpu; cancel job; yields job code=0; => JobEnded job outcome=cancelled

surplus that answers TERM with 0 leaves, and the job runs on
    node n1: 4 gpus; runs wide: 4 x 1 gpu, min 2, elastic live; submit high: interactive, 2 gpus; propose; yields wide code=0
    wide.running = 0 1; wide is running
""")


# --- jobs that failed, lost a member, or ran too long: whether and when they restart


test_restarts_in_stories = stories("""
given again
    wait 1h; started train; train is running

a member's failure stops and restarts the whole gang
    node n1: 8 gpus; runs train: 2 x 1 gpu, max_failures 1; ends train code=1 task=1; => EvictionDecided train cause=gang-failure
    begin train; ends train code=85; => JobRequeued outcome=failed; again; train.running = 0 1

a gang that ends with its first member may be evicted
    node n1: 8 gpus; runs train: 2 x 1 gpu, on_failure end; evict train; yields train; => JobPlaced train attempt=2

a job that ran for as long as it may has timed out
    node n1: 8 gpus; runs train: 2 x 1 gpu, run_time_limit 1h, max_failures 3; wait 1h; => EvictionDecided train cause=time-limit
    yields train; => JobEnded train outcome=timed-out

what it had run before it was paused does not count
    node n1: 8 gpus; runs train: 2 x 1 gpu, run_time_limit 1h; wait 50m; pause train; yields train; +1m; resume train
    started train; wait 50m; train is running

a gang that is to end with its first member does (fails)
    node n1: 8 gpus; runs train: 2 x 1 gpu, max_failures 3, on_failure end; ends train code=7 task=1; begin train
    ends train code=85; => JobEnded train outcome=failed reason="task 1 ended with exit code 7, and on_failure is end"

a gang that is to end with its first member does (is lost)
    node n1: 8 gpus; runs train: 2 x 1 gpu, max_failures 3, on_failure end; vanished train 1; begin train; ends train code=85
    => JobEnded train outcome=failed reason="task 1 was lost, and on_failure is end"

the backoff doubles with each failure up to its maximum
    rules {restarts: {backoff: 3s, max_backoff: 10s}}; node n1: 8 gpus; runs train: 2 x 1 gpu, max_failures 5
    ends train code=1; train.not_before = now + 3s; wait 1h; started train; ends train code=1; train.not_before = now + 6s
    wait 1h
    started train; ends train code=1; train.not_before = now + 10s; wait 1h; started train; ends train code=1
    train.not_before = now + 10s

a job may set its own backoff
    node n1: 8 gpus; runs train: 2 x 1 gpu, max_failures 2, restart_backoff 5m; ends train code=1; train.not_before = now + 5m

it starts again at the end of its backoff and not before
    node n1; runs job: 1 gpu, max_failures 9; ends job code=1; +1999999us; tick; job is pending; +1us; tick; job is starting

a job that may not fail ends with its first failure
    node n1; runs job: 1 gpu, max_failures 0; ends job code=1; job is failed

evictions neither extend the backoff nor count as failures
    node n1: 8 gpus; runs train: 2 x 1 gpu, max_failures 1; evict train; yields train; started train; evict train; yields train
    started train; train.attempt = 3; train.failures = 0; ends train code=1; train.not_before = now + 2s; wait 1h; started train
    ends train code=1; => JobEnded train outcome=failed

losses extend the backoff and do not count as failures
    node n1: 8 gpus; runs train: 2 x 1 gpu, max_failures 1; vanished train 0 1; => JobRequeued outcome=lost
    train.not_before = now + 2s; wait 1h; started train; vanished train 0 1; train.not_before = now + 4s; wait 1h; started train
    ends train code=1; train.not_before = now + 8s; train.failures = 1; train.losses = 2
""")

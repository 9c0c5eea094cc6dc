"""Jobs with idle GPUs: recorded once, paused where the policy says so, and ignored by default."""

from tests.kits.story_script import stories

test_idle_in_stories = stories("""
given a lazy job
    rules {idle: {after: 10m, action: pause}}; node n1: 8 gpus; runs train: 2 x 2 gpus

only tasks that run on GPUs count
    rules {idle: {after: 10m, action: pause}}; node n1: 8 gpus; runs train: 2 x 1 gpu | 1 cpu; report TaskIdle train duration=1m
    wait 4m; report TaskIdle train task=1 duration=1m; wait 8m; => nothing  # the second GPU is idle for nine minutes only
    wait 1m; => JobIdle train duration=10m

a clock step adds no idle time
    a lazy job; report TaskIdle train duration=1m & TaskIdle train task=1 duration=1m; clock steps 1h; => nothing; wait 9m
    => JobIdle train

a warning is given once until it works again
    rules {idle: {after: 10m}}; node n1: 8 gpus; runs train: 2 x 2 gpus
    report TaskIdle train duration=1m & TaskIdle train task=1 duration=1m; wait 1h; => JobIdle train action=warn duration=10m
    decided JobIdle: train; train is running; report TaskIdle train duration=1m idle=false; report TaskIdle train duration=1m
    wait 1h; decided JobIdle: train train

the default policy ignores idle jobs
    node n1: 8 gpus; runs train: 2 x 2 gpus; report TaskIdle train duration=1m & TaskIdle train task=1 duration=1m; wait 1d
    decided JobIdle:
""")

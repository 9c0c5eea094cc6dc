"""Order of the queue, skipped jobs, and the reason of a pending job."""

from tests.kits.story_script import stories

test_queue_in_stories = stories("""
a job that fits is placed at once
    node n1: 8 gpus; submit train-1: 4 gpus
    => JobPlaced train-1 attempt=1 reserved=false placement.*.node=0 placement.*.devices=0-3; train-1 is starting

jobs of one cycle keep their order
    node n1: 2 gpus; submit b: 1 gpu & a: 1 gpu & c: 1 gpu; decided JobPlaced: b a; => JobPending c

a job that does not fit is skipped
    node n1: 4 gpus; submit big: 8 gpus & small: 4 gpus; => only JobPending JobPlaced; => JobPlaced small

a gang is placed together or not at all
    node n1: 8 gpus; submit gang: 2 x 8 gpus; => JobPending gang reason="needs 2 nodes with 8 free GPUs each, 1 has them"
    nodes.0.allocated.devices = 0; node n2: 8 gpus
    => JobPlaced gang placement.*.node="0 1" placement.*.tasks="0 1" placement.*.devices="0-7 0-7"
    started gang task=0; gang is starting; started gang task=1; gang is running

the pending reason is recorded once each time the job joins the queue
    node n1: 8 gpus; runs busy: 8 gpus; submit waiting: 8 gpus
    => JobPending waiting reason="needs a node with 8 free GPUs, no node has them"; node n2: 4 gpus; => nothing
    restart; => nothing; ends busy; => JobPlaced waiting; runs other: 4 gpus; lost n1; wait 1m; => only JobPending
    decided JobPending: waiting waiting

a gang of different tasks
    node n1: 4 gpus, 8 cpus; node n2: 0 gpus, 64 cpus; submit mixed: 1 gpu | 2 x 32 cpus
    => JobPlaced mixed placement.*.node="0 1" placement.*.tasks="0 1-2"

higher priority goes first, then age
    submit old: 8 gpus; submit young: 8 gpus; submit high: interactive, 8 gpus; submit top: inference, 8 gpus
    queue = top high old young
    node n0; started top; node n1; started high; node n2; started old; node n3; decided JobPlaced: top high old young

without an action nothing is placed
    rules {preemption: {actions: []}}; node n1: 8 gpus; submit job: 1 gpu; => nothing; policy {}; => JobPlaced job
""")

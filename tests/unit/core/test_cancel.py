"""A job cancelled in every phase of its life."""

from tests.kits.story_script import stories

test_cancel_in_stories = stories("""
cancelled while pending
    submit job: 1 gpu; cancel job; => only JobEnded; => JobEnded job outcome=cancelled

cancelled while reserved
    node n1: 8 gpus; runs low: 8 gpus; submit job: interactive, 8 gpus; propose; cancel job
    => only ReservationDropped JobEnded EvictionCancelled

cancelled while running
    node n1: 8 gpus; runs job: 8 gpus; cancel job; => EvictionDecided job cause=cancelled
    submit next: 8 gpus; => JobPlaced next reserved=true; yields job code=143; => JobEnded job outcome=cancelled
    => JobStarting next

resources of a cancelled job are reserved at once for a pending job
    node n1: 8 gpus; runs job: 8 gpus; submit next: 8 gpus; cancel job; => JobPlaced next reserved=true

cancelled while exited
    node n1: 8 gpus; runs job: 8 gpus; exits job code=1; cancel job; => nothing; releases job; => JobEnded job outcome=cancelled

cancelled during its eviction
    node n1: 8 gpus; runs job: 8 gpus; submit high: interactive, 8 gpus; propose; begin job; cancel job; => nothing
    ends job code=85; => JobEnded job outcome=cancelled; => JobStarting high

cancelled during its restart backoff
    node n1: 8 gpus; runs job: 8 gpus, max_failures 3; ends job code=1; => JobRequeued
    cancel job; => JobEnded job outcome=cancelled

a job that finished before its cancellation is finished
    node n1: 8 gpus; runs job: 8 gpus; cancel job; ends job; => JobEnded job outcome=succeeded

a second cancellation has no effect
    node n1: 8 gpus; runs job: 8 gpus; cancel job; cancel job; => nothing

cancelled while another job is in the same selection
    node n1: 8 gpus; runs low: 8 gpus; submit x: interactive, 8 gpus & y: interactive, 8 gpus; cancel x
    selection.requests.*.job = y; propose; => PreemptionDecided

cancelled while its selection is open
    node n1: 8 gpus; runs low: 8 gpus; submit job: interactive, 8 gpus; cancel job; => JobEnded job outcome=cancelled
    selection = none; selections = 1; low is running

cancelled while starting
    node n1: 8 gpus; submit job: 2 x 4 gpus; started job task=0; cancel job
    => EvictionDecided job cause=cancelled reason="cancellation requested"; yields job
    => JobEnded job outcome=cancelled exit_codes.0=85 exit_codes.1=85
""")

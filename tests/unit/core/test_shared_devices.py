"""Devices that several tasks share: never more than all of one, exactly."""

from tests.kits.story_script import stories

test_shared_devices_in_stories = stories("""
a shared device is not allocated whole
    node n1: 1 gpu; runs part: 1GiB of a gpu; submit whole: 1 gpu; => JobPending whole
    ends part; nodes.0.allocated.shares = nothing; => JobPlaced whole

thirds do not add up to more than one
    node n1: 1 gpu; runs one: 0.334 gpu; runs two: 0.334 gpu; submit three: 0.334 gpu; => JobPending three

two halves fill a device, and a third waits
    node n1: 1 gpu; runs one: 0.5 gpu; runs two: 0.5 gpu; n1.allocated.shares.0 = 85899345920000; submit three: 0.5 gpu
    => JobPending three; ends one; => JobPlaced three

a reservation of a share waits for its release
    node n1: 1 gpu; runs whole: 1 gpu; submit part: 0.5 gpu; exits whole; => JobPlaced part reserved=true
    n1.reserved.shares.0 = 42949672960000; releases whole; => JobStarting part; n1.reserved.shares = nothing
    n1.allocated.shares.0 = 42949672960000

parts of several devices leave neither whole
    node n1: 2 gpus; runs wide: 0.5 of each of 2 gpus; n1.allocated.shares.0 = 42949672960000
    n1.allocated.shares.1 = 42949672960000
    submit whole: 1 gpu; => JobPending whole
""")

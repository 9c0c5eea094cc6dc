"""What a training script imports to survive preemption by Bailiff; outside Bailiff it does nothing.

    job = attach()
    for step in range(job.restore(load), total):
        train_step()
        job.progress(step, total)
        if job.should_checkpoint(step):
            job.checkpoint(step, save)
        if job.preempted:
            job.exit()

`job` is what a script sees; `agreement` and `workers` make all ranks of a gang save the same step; `board`, `line` and
`notice` are the three ways to and from the node; `store` keeps checkpoints on disk, `manifest` says what is in one.
Standard library only: nothing that a script's own environment could lack or hold in another version.
"""

from .job import Job, attach
from .notice import Notice
from .saving import Saving
from .store import Checkpoint, CheckpointProblem, Superseded

__all__ = ["Checkpoint", "CheckpointProblem", "Job", "Notice", "Saving", "Superseded", "attach"]

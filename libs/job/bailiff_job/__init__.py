"""The library for training scripts that Bailiff may preempt. Outside Bailiff it does nothing.

    job = attach()
    for step in range(job.restore(load), total):
        train_step()
        job.progress(step, total)
        if job.should_checkpoint(step):
            job.checkpoint(step, save)
        if job.preempted:
            job.exit()

`job` is the API; `step_barrier` and `workers` make all ranks of a gang checkpoint the same step; `shared_steps`,
`control_socket` and `notice` connect job and node; `store` keeps checkpoints on disk, `manifest` describes one.
Standard library only, since a script's own environment may have anything else in another version, or not at all.
"""

from .checkpoint_write import CheckpointWrite
from .job import Job, attach
from .notice import Notice
from .store import Checkpoint, CheckpointError, Superseded

__all__ = ["Checkpoint", "CheckpointError", "CheckpointWrite", "Job", "Notice", "Superseded", "attach"]

"""A job that saves when it is told to, and damages what it has saved: the names are there, the manifests cannot be read."""

import os
import time
from pathlib import Path

from bailiff_job import attach

job = attach()
step = job.restore(lambda folder: None)
(Path(os.environ["LYING_MARKS"]) / f"{os.environ['BAILIFF_JOB_ID']}.{os.environ['BAILIFF_ATTEMPT']}").touch()
while True:
    job.progress(step, 1_000_000)
    if job.should_checkpoint(step):
        job.checkpoint(step, lambda folder: (folder / "weights").write_text("1"))
        for manifest in Path(os.environ["BAILIFF_CHECKPOINT_DIR"]).rglob("manifest.json"):
            manifest.write_text("{")
    if job.preempted:
        job.exit()
    step += 1
    time.sleep(0.02)

# usage: train.py STEPS (a sum stands for the weights)
import sys

from bailiff_job import attach

total, weights = int(sys.argv[1]), 0
job = attach("checkpoints")  # outside Bailiff: in this folder


def save(folder):
    (folder / "weights").write_text(str(weights))


def load(folder):
    global weights
    weights = int((folder / "weights").read_text())


for step in range(job.restore(load), total):
    weights += step * step  # the training
    job.progress(step, total)
    if job.should_checkpoint(step):
        job.checkpoint(step, save)
    if job.preempted:
        job.exit()
print("weights", weights)

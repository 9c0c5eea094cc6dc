# usage: train_torch.py STEPS
import hashlib
import sys

import torch

from bailiff_job import attach
from bailiff_job.pytorch import TrainingState

total = int(sys.argv[1])
torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.Dropout(0.1), torch.nn.Linear(64, 1))
optimizer = torch.optim.Adam(model.parameters())
state = TrainingState(model=model, optimizer=optimizer)
job = attach("checkpoints", every_steps=500)

for step in range(job.restore(state.load), total):
    x = torch.randn(32, 16)
    loss = ((model(x) - x.sum(1, keepdim=True)) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    job.progress(step, total)
    if job.should_checkpoint(step):
        job.checkpoint(step, state.save, wait=False)  # written in a thread, from a copy
    if job.preempted:
        job.exit()  # waits for the thread
weights = torch.cat([weight.detach().flatten() for weight in model.parameters()])
print("weights", hashlib.sha256(weights.numpy().tobytes()).hexdigest())

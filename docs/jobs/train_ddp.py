# usage: torchrun --nproc-per-node 4 train_ddp.py STEPS
import hashlib
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from bailiff_job import attach
from bailiff_job.pytorch import TrainingState

total = int(sys.argv[1])
dist.init_process_group("gloo")  # nccl on GPUs
torch.manual_seed(1)
model = DistributedDataParallel(
    torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1)),
    find_unused_parameters=True,  # keeps the order of DDP's sums the same after each start
)
optimizer = torch.optim.Adam(model.parameters())
state = TrainingState(replicated=True, model=model, optimizer=optimizer)  # rank 0 saves the weights for all
job = attach("checkpoints", every_steps=500)

torch.manual_seed(dist.get_rank())  # other data on each rank; a checkpoint holds the generator's state of each
for step in range(job.restore(state.load), total):
    x = torch.randn(32, 16)
    loss = ((model(x) - x.sum(1, keepdim=True)) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    job.progress(step, total)
    if job.should_checkpoint(step):  # true at the same step on every rank
        job.checkpoint(step, state.save)
    if job.preempted:
        job.exit()
weights = torch.cat([weight.detach().flatten() for weight in model.parameters()])
if dist.get_rank() == 0:
    print("weights", hashlib.sha256(weights.numpy().tobytes()).hexdigest())
dist.destroy_process_group()

# usage: train_lightning.py STEPS
import hashlib
import sys

import pytorch_lightning as pl
import torch

from bailiff_job import attach
from bailiff_job.lightning import BailiffCallback


class Batches:  # a loader that can go on in the middle of an epoch, as torchdata's StatefulDataLoader can
    def __init__(self):
        self.data, self.next = torch.randn(80, 8, 16), 0

    def __len__(self):
        return len(self.data)

    def __iter__(self):
        self.next %= len(self.data)
        while self.next < len(self.data):
            self.next += 1
            yield self.data[self.next - 1]

    def state_dict(self):
        return {"next": self.next}

    def load_state_dict(self, state):
        self.next = state["next"]


class Model(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(16, 1)

    def training_step(self, batch, _):
        return ((self.layer(batch) - batch.sum(1, keepdim=True)) ** 2).mean()

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())


total = int(sys.argv[1])
pl.seed_everything(1)
model = Model()
bailiff = BailiffCallback(attach("checkpoints"))
trainer = pl.Trainer(
    max_steps=total, accelerator="cpu", callbacks=[bailiff], logger=False, enable_checkpointing=False, enable_progress_bar=False
)
trainer.fit(model, Batches(), ckpt_path=bailiff.resume_from())
weights = torch.cat([weight.detach().flatten() for weight in model.parameters()])
print("weights", hashlib.sha256(weights.numpy().tobytes()).hexdigest())

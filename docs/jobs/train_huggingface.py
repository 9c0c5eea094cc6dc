# usage: train_huggingface.py STEPS
import hashlib
import sys

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

from bailiff_job import attach
from bailiff_job.huggingface import BailiffCallback

total = int(sys.argv[1])
torch.manual_seed(1)
model = GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=16, n_embd=16, n_layer=1, n_head=2))
tokens = [torch.randint(0, 64, (16,)) for _ in range(512)]
data = [{"input_ids": each, "labels": each} for each in tokens]
bailiff = BailiffCallback(attach("checkpoints"))
arguments = TrainingArguments("output", max_steps=total, save_strategy="no", report_to=[], disable_tqdm=True, use_cpu=True)
trainer = Trainer(model, arguments, train_dataset=data, callbacks=[bailiff])
trainer.train(resume_from_checkpoint=bailiff.resume_from())
weights = torch.cat([weight.detach().flatten() for weight in model.parameters()])
print("weights", hashlib.sha256(weights.numpy().tobytes()).hexdigest())

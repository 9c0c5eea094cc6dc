"""Hugging Face Trainer callback: saves at the step that Bailiff requests; each save becomes a checkpoint of the job."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback

from .job import Job, attach


class BailiffCallback(TrainerCallback):
    """`Trainer(callbacks=[bailiff])`, then `trainer.train(resume_from_checkpoint=bailiff.resume_from())`.

    Each save of the Trainer, also at its own intervals, is copied from its output directory into the job's checkpoints.
    The process exits from within `train()` when it is preempted.
    """

    def __init__(self, job: Job | None = None) -> None:
        self.job = job or attach()

    def resume_from(self) -> str | None:
        """The newest verified checkpoint as `resume_from_checkpoint`, or None. In a gang every rank must call it."""
        found: list[Path] = []
        self.job.restore(found.append)
        return str(found[0]) if found else None

    def on_step_end(self, _args: Any, state: Any, control: Any, **_: Any) -> None:
        """After each optimizer step."""
        self.job.progress(state.global_step - 1, state.max_steps)
        if self.job.should_checkpoint(state.global_step - 1):
            control.should_save = True

    def on_save(self, args: Any, state: Any, _control: Any, **_: Any) -> None:
        """After the Trainer has saved."""
        saved = Path(args.output_dir) / f"checkpoint-{state.global_step}"
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            torch.distributed.barrier()  # each rank adds a file of its own to what rank 0 saves

        def save(folder: Path) -> None:
            if state.is_world_process_zero:
                shutil.copytree(saved, folder, dirs_exist_ok=True)

        self.job.checkpoint(state.global_step - 1, save)
        if self.job.preempted:
            self.job.exit()

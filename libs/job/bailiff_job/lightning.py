"""Lightning Trainer callback: saves a Lightning checkpoint at the step that Bailiff requests."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .job import Job, attach

if TYPE_CHECKING or ("pytorch_lightning" in sys.modules and "lightning" not in sys.modules):
    from pytorch_lightning import Callback
else:
    try:
        from lightning.pytorch import Callback
    except ImportError:
        from pytorch_lightning import Callback

FILE = "lightning.ckpt"


class BailiffCallback(Callback):
    """`Trainer(callbacks=[bailiff])`, then `trainer.fit(model, ckpt_path=bailiff.resume_from())`.

    The process exits from within `fit()` when it is preempted.
    """

    def __init__(self, job: Job | None = None) -> None:
        self.job = job or attach()
        self._step = -1

    def resume_from(self) -> str | None:
        """The newest verified checkpoint as `ckpt_path`, or None. In a gang every rank must call it."""
        found: list[Path] = []
        self._step = self.job.restore(found.append) - 1
        return str(found[0] / FILE) if found else None

    def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
        """After each batch; only one that ended with an optimizer step counts."""
        step = trainer.global_step - 1
        if step <= self._step:
            return
        self._step = step
        self.job.progress(step, trainer.max_steps if trainer.max_steps > 0 else None)
        if self.job.should_checkpoint(step):
            self.job.checkpoint(step, lambda folder: trainer.save_checkpoint(folder / FILE))
        if self.job.preempted:
            self.job.exit()

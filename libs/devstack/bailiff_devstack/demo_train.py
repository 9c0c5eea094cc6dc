"""A training job, small but real: a network of two layers learns a function, one step every tenth of a second.

Deterministic to the last bit, so that a run that was preempted can be compared with one that was left alone.
"""

import hashlib
import json
import sys
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bailiff_job import attach

STEP_SECONDS = 0.1
CHECKPOINT_EVERY = 40
LEARNING_RATE, MOMENTUM = 0.05, 0.9
Weights = list[NDArray[np.float64]]


class Training:
    """The network, where its optimizer stands, and the chance that its batches are drawn by."""

    def __init__(self) -> None:
        self.chance = np.random.default_rng(7)
        self.weights: Weights = [self.chance.normal(size=(8, 32)) / 8, self.chance.normal(size=(32, 1)) / 32]
        self.speed: Weights = [np.zeros_like(layer) for layer in self.weights]

    def step(self) -> None:
        """One batch."""
        x = self.chance.normal(size=(64, 8))
        hidden = np.tanh(x @ self.weights[0])
        error = (hidden @ self.weights[1] - np.sin(x.sum(1, keepdims=True))) / len(x)
        back = error @ self.weights[1].T * (1 - hidden**2)
        for layer, gradient in enumerate((x.T @ back, hidden.T @ error)):
            self.speed[layer] = MOMENTUM * self.speed[layer] - LEARNING_RATE * gradient
            self.weights[layer] = self.weights[layer] + self.speed[layer]

    def save(self, folder: Path) -> None:
        """Everything that the next step depends on."""
        np.savez(folder / "arrays.npz", *self.weights, *self.speed)
        (folder / "chance.json").write_text(json.dumps(self.chance.bit_generator.state))

    def load(self, folder: Path) -> None:
        """As it was saved."""
        with np.load(folder / "arrays.npz") as arrays:
            one, two, *speed = (arrays[name] for name in arrays.files)
        self.weights, self.speed = [one, two], speed
        self.chance.bit_generator.state = json.loads((folder / "chance.json").read_text())

    def digest(self) -> str:
        """SHA-256 of the weights."""
        return hashlib.sha256(b"".join(layer.tobytes() for layer in self.weights)).hexdigest()


def left_alone(total: int) -> str:
    """The digest of the weights after so many steps that nobody interrupts."""
    training = Training()
    for _ in range(total):
        training.step()
    return training.digest()


def main() -> None:
    """`demo_train.py STEPS [SECONDS A STEP [FILE]]`; once the file exists, steps take no longer than they must."""
    total, pause = int(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else STEP_SECONDS
    hurry = Path(sys.argv[3]) if len(sys.argv) > 3 else None
    training, job = Training(), attach(every_steps=CHECKPOINT_EVERY)
    start = job.restore(training.load)
    print(f"from step {start} of {total}", flush=True)
    for step in range(start, total):
        training.step()
        if hurry is not None and hurry.exists():
            pause = 0.0
        time.sleep(pause)
        job.progress(step, total)
        if job.should_checkpoint(step):
            job.checkpoint(step, training.save)
        if job.preempted:
            print(f"told to leave: saved at step {step}", flush=True)
            job.exit()
    print(f"done: weights {training.digest()}")


if __name__ == "__main__":
    main()

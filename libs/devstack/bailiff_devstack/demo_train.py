"""Training script of the demo: a network of two layers learns a function, one step per 0.1 s.

Deterministic bit for bit, so that a preempted run can be compared with an uninterrupted one.
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
    """The network, the state of its optimizer, and its random number generator."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(7)
        self.weights: Weights = [self.rng.normal(size=(8, 32)) / 8, self.rng.normal(size=(32, 1)) / 32]
        self.velocity: Weights = [np.zeros_like(layer) for layer in self.weights]

    def step(self) -> None:
        """Train on one batch."""
        x = self.rng.normal(size=(64, 8))
        hidden = np.tanh(x @ self.weights[0])
        error = (hidden @ self.weights[1] - np.sin(x.sum(1, keepdims=True))) / len(x)
        hidden_gradient = error @ self.weights[1].T * (1 - hidden**2)
        for layer, gradient in enumerate((x.T @ hidden_gradient, hidden.T @ error)):
            self.velocity[layer] = MOMENTUM * self.velocity[layer] - LEARNING_RATE * gradient
            self.weights[layer] = self.weights[layer] + self.velocity[layer]

    def save(self, folder: Path) -> None:
        """Save everything that the next step depends on."""
        np.savez(folder / "arrays.npz", *self.weights, *self.velocity)
        (folder / "rng.json").write_text(json.dumps(self.rng.bit_generator.state))

    def load(self, folder: Path) -> None:
        """Load the state that `save` wrote."""
        with np.load(folder / "arrays.npz") as arrays:
            one, two, *velocity = (arrays[name] for name in arrays.files)
        self.weights, self.velocity = [one, two], velocity
        self.rng.bit_generator.state = json.loads((folder / "rng.json").read_text())

    def digest(self) -> str:
        """SHA-256 of the weights."""
        return hashlib.sha256(b"".join(layer.tobytes() for layer in self.weights)).hexdigest()


def uninterrupted(total: int) -> str:
    """The digest of the weights after `total` steps without interruption."""
    training = Training()
    for _ in range(total):
        training.step()
    return training.digest()


def main() -> None:
    """`demo_train.py STEPS [SECONDS A STEP [FILE]]`; once the file exists, steps run at full speed."""
    total, pause = int(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else STEP_SECONDS
    full_speed_file = Path(sys.argv[3]) if len(sys.argv) > 3 else None
    training, job = Training(), attach(every_steps=CHECKPOINT_EVERY)
    start = job.restore(training.load)
    print(f"starting at step {start} of {total}", flush=True)
    for step in range(start, total):
        training.step()
        if full_speed_file is not None and full_speed_file.exists():
            pause = 0.0
        time.sleep(pause)
        job.progress(step, total)
        if job.should_checkpoint(step):
            job.checkpoint(step, training.save)
        if job.preempted:
            print(f"preempted: checkpoint saved at step {step}", flush=True)
            job.exit()
    print(f"done: weights {training.digest()}")


if __name__ == "__main__":
    main()

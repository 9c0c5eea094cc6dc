"""One of two ranks under torchrun that share a GPU: `ranks.py FOLDER GIB`. They train together, save one step, and leave.

Where there is no GPU they train on the CPU, so that the program itself can be tested.
"""

import os
import sys
from functools import partial
from pathlib import Path

sys.path[:0] = os.environ.get("MEASURED_JOB_LIBRARY", "").split(os.pathsep)

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

from bailiff_job import attach  # noqa: E402


def save(weights: torch.Tensor, folder: Path) -> None:
    torch.save(weights, folder / "weights.pt")


def main() -> None:
    """Until preempted; the second attempt ends after a step."""
    marks, gib = Path(sys.argv[1]), float(sys.argv[2])
    dist.init_process_group("gloo")
    device = torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")
    weights = torch.zeros(int(gib * (1 << 30)) // 4, device=device)
    job = attach()
    step = job.restore(lambda folder: weights.copy_(torch.load(folder / "weights.pt", map_location=device)))
    resumed = step > 0
    (marks / f"rank-{dist.get_rank()}").write_text(str(os.getpid()))
    while True:
        gradient = torch.ones(1, device=device).cpu()
        dist.all_reduce(gradient)
        weights += gradient.item()
        job.progress(step)
        if resumed:
            expected = float(2 * (step + 1))
            (marks / f"same-{dist.get_rank()}").write_text(str(bool((weights == expected).all().item())))
            job.done()
            return
        if job.should_checkpoint(step):
            job.checkpoint(step, partial(save, weights))
        if job.preempted:
            job.exit()
        step += 1


if __name__ == "__main__":
    main()

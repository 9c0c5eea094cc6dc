"""A stand-in for a training job: counts steps, saves where it is when told to leave, and goes on from there."""

import os
import signal
import sys
import time
from pathlib import Path

YIELDED = 85
STEP_SECONDS = 0.1


def main() -> int:
    """Run to the number of steps given; 85 says: I was told to leave, and I am saved."""
    total = int(sys.argv[1])
    told_to_leave: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: told_to_leave.append(number))
    saved = Path(os.environ["BAILIFF_CHECKPOINT_DIR"]) / "step"
    saved.parent.mkdir(parents=True, exist_ok=True)
    start = int(saved.read_text()) if saved.exists() else 0
    print(f"attempt {os.environ['BAILIFF_ATTEMPT']}: from step {start} of {total}", flush=True)
    for step in range(start, total):
        if told_to_leave:
            unfinished = saved.with_suffix(".new")
            unfinished.write_text(str(step))
            unfinished.replace(saved)
            print(f"told to leave: saved at step {step}", flush=True)
            return YIELDED
        time.sleep(STEP_SECONDS)
    print("done", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

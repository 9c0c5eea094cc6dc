"""An older engine: a copy of this core with `LOGIC` 1, which counts one GPU-ms more of work lost.

`python -m tests.kits.older_engine LOG`, with such a copy first in the path, decides the first part of a log or the next one.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.kits import log_builder as builder
from tests.kits.history_files import from_lines, to_lines

from bailiff_core.records import ChainHead, continues, decode
from bailiff_log.engine_identity import engine_identity

ROOT = Path(__file__).parents[2]
OTHERWISE = """

_as_now = lost_gpu_ms


def lost_gpu_ms(state: PoolState, job: Job, gpu_milli: int, *, for_good: bool = False, moved: bool = False) -> int:
    return _as_now(state, job, gpu_milli, for_good=for_good, moved=moved) + 1
"""


def copy_core(folder: Path) -> None:
    """Copy the core into the folder, and make it older. A process that has the folder first in its path has this engine."""
    core = folder / "bailiff_core"
    shutil.copytree(ROOT / "libs/core/bailiff_core", core, ignore=shutil.ignore_patterns("__pycache__"))
    numbers = (core / "engine.py").read_text().splitlines()
    (core / "engine.py").write_text("\n".join("LOGIC = 1" if line.startswith("LOGIC") else line for line in numbers) + "\n")
    with (core / "model" / "work_lost.py").open("a") as source:
        source.write(OTHERWISE)


def continue_log(log: Path, core: Path | None = None) -> None:
    """Continue the log in another process. core: the folder of the engine that decides; None: this tree's."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, filter(None, (core, ROOT))))}
    command = [sys.executable, "-m", "tests.kits.older_engine", str(log)]
    subprocess.run(command, env=environment, check=True, capture_output=True)


def main(log: Path) -> None:
    """Jobs run, urgent ones preempt them, and some end."""
    engine = engine_identity()
    builder.ENGINE_DIGEST, builder.ENGINE = engine.digest, str(engine)
    story = builder.Story(pool="a100")
    if log.exists():
        story.wires = from_lines(log.read_text(encoding="utf-8"))
        story.records = [decode(wire) for wire in story.wires]
        story.head = ChainHead(story.pool)
        for wire in story.wires:
            after = continues(story.head, wire)
            assert isinstance(after, ChainHead), after
            story.head = after
        story.state = builder.folded(story.wires)
        story.time, story._ids, story._writers = story.state.now, 1000, 10
        story._offsets = dict.fromkeys(story._offsets, 1000) | {builder.REQUESTS: 1000, builder.REPORTS: 1000}
        story.restart(after=builder.MINUTE)
    else:
        for name in ("gpu-01", "gpu-02", "gpu-03"):
            story.node(name, gpus=8)
    begun = len(story.state.jobs)
    for number in range(4):
        story.submit(f"train-{begun + number}", gpus=4 + number, after=builder.MINUTE)
    for _ in range(3):
        story.submit(f"serve-{len(story.state.jobs)}", gpus=8, cls="inference", after=builder.MINUTE)
        run_round(story)
    for name in [name for name in story.state.active if story.state.jobs[name].phase == "running"][:3]:
        story.ends(name, 0, after=builder.HOUR)
        run_round(story)
    log.write_text(to_lines(story.wires), encoding="utf-8")


def run_round(story: builder.Story) -> None:
    """One round of the services: a selection is answered, evicted tasks exit, placed tasks start."""
    if story.state.selection is not None:
        story.propose(after=builder.SECOND)
    for name in list(story.state.evicting):
        story.yields(name, after=builder.SECOND)
    for name in list(story.state.starting):
        story.started(name, after=builder.SECOND)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

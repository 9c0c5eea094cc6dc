"""Records what releases decide, one after the other: `python tests/histories/releases/record.py LOG COMMIT…`.

Each commit's core decides in a process of its own, with that commit's `tests/log_builder.py`; its `WriterStarted` names the
digest of its sources. A log that exists is never overwritten.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[3]
NEEDED = ("libs/core", "libs/bus", "libs/log", "tests/log_builder.py", "tests/history_files.py")


def main(log: Path, commits: list[str]) -> None:
    """Unpack each commit, and let it continue the log."""
    if log.exists():
        sys.exit(f"{log} exists: a recorded history is never recorded again")
    for commit in commits:
        with tempfile.TemporaryDirectory() as folder:
            archive = Path(folder) / "release.tar"
            subprocess.run(["git", "-C", str(ROOT), "archive", f"--output={archive}", commit, *NEEDED], check=True)
            subprocess.run(["tar", "-xf", archive, "-C", folder], check=True)
            path = os.pathsep.join(f"{folder}/{folder_name}" for folder_name in (".", "libs/core", "libs/bus", "libs/log"))
            command = [sys.executable, str(Path(__file__).resolve()), "--continue", str(log.resolve())]
            subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, cwd=folder, check=True)


def continue_log(log: Path) -> None:
    """In a process of the release: its engine starts the log, or continues it."""
    from tests import log_builder as builder
    from tests.history_files import from_lines, to_lines

    from bailiff_core.records import ChainHead, continues, decode
    from bailiff_log.engine_identity import engine_identity

    mine = engine_identity()
    builder.ENGINE_DIGEST, builder.ENGINE = mine.digest, str(mine)
    story = builder.Story(pool="a100")
    if log.exists():
        story.wires = from_lines(log.read_text(encoding="utf-8"))
        story.records = [decode(wire) for wire in story.wires]
        story.head = ChainHead("a100")
        for wire in story.wires:
            story.head = continues(story.head, wire)
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
        run_round(story, builder.SECOND)
    for name in [name for name in story.state.active if story.state.jobs[name].phase == "running"][:3]:
        story.ends(name, 0, after=builder.HOUR)
        run_round(story, builder.SECOND)
    log.write_text(to_lines(story.wires), encoding="utf-8")
    print(json.dumps({"engine": str(mine), "digest": mine.digest, "records": len(story.wires)}))


def run_round(story, second: int) -> None:  # type: ignore[no-untyped-def]
    """One round of the services: a selection is answered, evicted tasks exit, placed tasks start."""
    if story.state.selection is not None:
        story.propose(after=second)
    for name in list(story.state.evicting):
        story.yields(name, after=second)
    for name in list(story.state.starting):
        story.started(name, after=second)


if __name__ == "__main__":
    if sys.argv[1] == "--continue":
        continue_log(Path(sys.argv[2]))
    else:
        main(Path(sys.argv[1]), sys.argv[2:])

"""`kill -9` at every line that a commit executes: what is restored afterwards is always a verified checkpoint.

A child commits step 2 over step 1 and is killed by a tracer at its nth line of the package. Every system call of a
commit is on a line of it, so the kill comes just before each and, at the next line, just after.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bailiff_job.rank_env import RankEnv
from bailiff_job.store import Store

CHILD = """
import json, os, signal, sys
from pathlib import Path
from bailiff_job.clock import monotonic
from bailiff_job.rank_env import RankEnv
from bailiff_job.store import Store

directory, functions = Path(sys.argv[1]), sys.argv[2:]


def commit(store, step):
    draft = store.draft(step)
    (draft / "deep").mkdir()
    (draft / "deep" / "w").write_text(str(step) * 1000)
    store.commit(draft, step, agreed=True, began=monotonic())


def until_line(number, place):
    count = 0

    def trace(frame, event, argument):
        nonlocal count
        if "bailiff_job" not in frame.f_code.co_filename or (functions and frame.f_code.co_name not in functions):
            return None
        if event == "line":
            count += 1
            if count == number:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    store = Store(place, RankEnv("j", 1), keep=1)
    store.start_attempt()
    commit(store, 1)
    sys.settrace(trace)
    commit(store, 2)
    sys.settrace(None)


outcomes = []
for number in range(1, 100_000):
    place = directory / str(number)
    child = os.fork()
    if child == 0:
        try:
            until_line(number, place)
            os._exit(0)
        except BaseException:
            os._exit(1)
    outcomes.append((number, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])))
    if outcomes[-1][1] != -signal.SIGKILL:
        break
print(json.dumps(outcomes))
"""


def killed_at_every_line_of(directory: Path, *functions: str) -> list[tuple[int, int]]:
    """(line, exit code) of each child, the last one of which was not killed. All functions of the package if none is named."""
    child = subprocess.run([sys.executable, "-c", CHILD, str(directory), *functions], capture_output=True, check=True, text=True)
    return [(line, code) for line, code in json.loads(child.stdout)]


def check(directory: Path, outcomes: list[tuple[int, int]]) -> None:
    assert outcomes[-1][1] == 0, "the last one was beyond the end and committed"
    seen = set()
    for number, code in outcomes:
        again = Store(directory / str(number), RankEnv("j", 2))
        checkpoint, damaged = again.latest()
        assert checkpoint is not None, f"killed at line {number}: nothing to restore"
        assert (checkpoint.folder / "deep" / "w").read_text() == str(checkpoint.step) * 1000
        assert damaged == 0
        assert code != 0 or checkpoint.step == 2
        again.clean_up(checkpoint)
        assert not list(again._directory.glob("attempt-*/.tmp-*"))
        seen.add(checkpoint.step)
    assert seen == {1, 2}, "some were killed before the commit counted, and some after"


@pytest.mark.slow
def test_at_every_line_that_changes_what_can_be_seen(tmp_path: Path) -> None:
    outcomes = killed_at_every_line_of(tmp_path, "commit", "_remove")
    assert len(outcomes) > 20
    check(tmp_path, outcomes)


@pytest.mark.long
def test_at_every_line(tmp_path: Path) -> None:
    outcomes = killed_at_every_line_of(tmp_path)
    assert len(outcomes) > 100
    check(tmp_path, outcomes)

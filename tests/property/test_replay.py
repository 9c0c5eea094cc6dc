"""Replays of a log are byte for byte equal: in this process, under another hash seed, and in another Python.

`BAILIFF_OTHER_PYTHONS` lists interpreters (paths, separated by colons) that have the core's dependencies.
"""

import json
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from tests.kits.examples import examples
from tests.kits.history_files import from_lines, to_lines
from tests.kits.log_builder import Story, folded, replayed
from tests.property.random_stories import Chance, Step, steps

from bailiff_core.fold import apply
from bailiff_core.fold.snapshot import from_snapshot, state_digest, to_snapshot
from bailiff_core.records import decode

CHILD = Path(__file__).with_name("replay_child.py")
ROOT = Path(__file__).parents[2]
QUICK = examples(15)
VERSIONS = ("3.12", "3.13", "3.14")


def random_log(seed: int, cycles: int) -> Story:
    """A history that depends on the seed alone."""
    dice = Random(seed)
    chance = Chance()
    for _ in range(cycles):
        chance.cycle([(dice.randint(0, 59), dice.randint(0, 11), dice.randint(0, 23)) for _ in range(dice.randint(1, 3))])
    return chance.story


@cache
def logs(many: int = 8, cycles: int = 50) -> tuple[str, ...]:
    """Histories as text."""
    return tuple(to_lines(random_log(seed, cycles).wires) for seed in range(many))


def run_by(python: str, hash_seed: str, *texts: str, patience_s: float = 150) -> list[dict[str, object]]:
    """The results of that Python for these logs."""
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)}
    if python != sys.executable:
        environment["PYTHONPATH"] = str(ROOT / "libs/core")
    run = subprocess.run(
        [python, str(CHILD)],
        input="\n".join(texts),
        capture_output=True,
        text=True,
        env=environment,
        timeout=patience_s,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return [json.loads(line) for line in run.stdout.splitlines()]


def other_pythons() -> list[str]:
    """Interpreters named by the environment, else other versions on the path or in pyenv."""
    named = os.environ.get("BAILIFF_OTHER_PYTHONS")
    if named:
        return [entry for entry in named.split(os.pathsep) if entry]
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = [str(path) for version in VERSIONS for path in sorted(pyenv.glob(f"{version}.*/bin/python"))]
    found += [path for version in VERSIONS if (path := shutil.which(f"python{version}")) and "/shims/" not in path]
    return list(dict.fromkeys(found)) or ["python"]


@given(steps(40))
@QUICK
def test_a_log_replays_to_the_same_bytes(cycles: list[list[Step]]) -> None:
    story = Chance().play(cycles)
    story.holds()
    assert from_lines(to_lines(story.wires)) == story.wires


@given(steps(40))
@QUICK
def test_a_restored_state_folds_on_identically(cycles: list[list[Step]]) -> None:
    story = Chance().play(cycles)
    ends = [at for at, record in enumerate(story.records) if record.cycle_end]
    middle = ends[len(ends) // 2]
    state = from_snapshot(to_snapshot(folded(story.wires[: middle + 1])))
    for wire in story.wires[middle + 1 :]:
        apply(state, decode(wire))
    assert state_digest(state) == state_digest(story.state)


def test_these_histories_contain_rare_records() -> None:
    kinds = [decode(wire).data for text in logs() for wire in from_lines(text)]
    names = {type(data).__name__ for data in kinds}
    assert {"PreemptionDecided", "PreemptionRefused", "SelectionTimedOut", "JobRequeued", "EvictionStuck"} <= names
    assert {"EvictionDecided", "EvictionCancelled", "ReservationDropped", "JobStarting", "NodeLost"} <= names


@pytest.mark.parametrize("hash_seed", ["0", "4242"])
def test_the_hash_seed_decides_nothing(hash_seed: str) -> None:
    found = run_by(sys.executable, hash_seed, *logs())
    expected = [replayed(from_lines(text)) for text in logs()]
    assert [entry["digest"] for entry in found] == [state_digest(again.state) for again in expected]
    assert [entry["restored"] for entry in found] == [entry["digest"] for entry in found]
    assert not any(entry["difference"] for entry in found)
    assert sum(int(str(entry["decisions"])) for entry in found) > 300


@pytest.mark.parametrize("hash_seed", ["0", "1"])
def test_the_same_steps_make_the_same_log_under_any_hash_seed(hash_seed: str) -> None:
    program = "import sys; from tests.property.test_replay import random_log; print(random_log(7, 60).head.hash)"
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment, cwd=ROOT, timeout=150, check=False
    )
    assert run.stdout.strip() == random_log(7, 60).head.hash, run.stderr


@pytest.mark.parametrize("python", other_pythons())
def test_other_pythons_replay_the_same(python: str) -> None:
    able(python)
    assert run_by(python, "random", *logs()) == run_by(sys.executable, "0", *logs())


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("batch", range(20))
@pytest.mark.parametrize("python", other_pythons())
def test_ten_thousand_histories_replay_identically_in_two_pythons(python: str, batch: int) -> None:
    able(python)
    texts = [to_lines(random_log(10_000 + seed, 4 + seed % 9).wires) for seed in range(batch * 500, batch * 500 + 500)]
    ours, theirs = (run_by(which, seed, *texts, patience_s=1500) for which, seed in ((sys.executable, "0"), (python, "random")))
    assert len(ours) == 500
    assert ours == theirs
    assert not any(entry["difference"] for entry in ours)


def able(python: str) -> None:
    """Skip if this Python cannot run the core; fail if the environment lists it."""
    probe = subprocess.run(
        [python, "-c", "import numpy, orjson, pydantic, sys; assert sys.version_info >= (3, 11)"],
        capture_output=True,
        text=True,
        check=False,
    )
    if probe.returncode != 0:
        if os.environ.get("BAILIFF_OTHER_PYTHONS"):
            pytest.fail(f"{python} is in BAILIFF_OTHER_PYTHONS and cannot import numpy, orjson and pydantic: {probe.stderr}")
        pytest.skip(f"{python} has no numpy, orjson or pydantic (name interpreters that have them in BAILIFF_OTHER_PYTHONS)")


def test_a_clock_step_moves_the_expected_completion_of_jobs() -> None:
    """A writer that starts right after the step recomputes the expected ends; a replay has them from before the step."""
    random_log(1021, 112).holds()


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100))
def test_longer_histories_replay(seed: int) -> None:
    random_log(1000 + seed, 400).holds()

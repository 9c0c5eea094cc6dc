"""The agent's durable state after a crash or a power loss, in a real folder and in memory."""

import multiprocessing
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bailiff_node_agent.disk import (
    AgentLock,
    DamagedFile,
    EvictionStore,
    Fences,
    FolderInUse,
    FolderStorage,
    MemoryStorage,
    NotWritable,
    Reports,
    RunningEviction,
    Storage,
    new_incarnation,
    renewed,
)
from bailiff_node_agent.disk.fences import Verdict

Reopen = Callable[[], Storage]


@pytest.fixture(params=["folder", "memory"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Reopen:
    """Called again, it is the same disk under a restarted agent."""
    memory = MemoryStorage()
    return (lambda: FolderStorage(tmp_path)) if request.param == "folder" else (lambda: memory)


# --- storage


def test_a_file_that_was_never_written_is_not_an_empty_one(disk: Reopen) -> None:
    assert disk().read("fences") is None
    disk().replace("fences", b"")
    assert disk().read("fences") == b""


def test_what_was_written_and_added_is_read_back(disk: Reopen) -> None:
    disk().append("log", b"one")
    disk().append("log", b"two")
    assert disk().read("log") == b"onetwo"
    disk().replace("log", b"three")
    disk().append("log", b"four")
    assert disk().read("log") == b"threefour"


def test_only_the_owner_can_read_the_folder(tmp_path: Path) -> None:
    storage = FolderStorage(tmp_path / "state")
    storage.append("a", b"")
    storage.replace("b", b"")
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "state", *(tmp_path / "state").iterdir())}
    assert modes == {"state": 0o700, "a": 0o600, "b": 0o600}


# --- fences


def obey(
    fences: Fences, job: str, devices: Sequence[str], position: tuple[int, int], *, attempt: int = 1, task: int = 0
) -> Verdict:
    """What the fences say to a command about one task."""
    return fences.obey(job, attempt, {task: devices}, position)[task]


G0, G1 = ["gpu-0"], ["gpu-1"]


@pytest.mark.parametrize(
    ("commands", "verdicts"),
    [
        pytest.param([("a", G0, 20), ("a", G0, 20), ("a", G0, 19)], "new same stale", id="obeyed once, and an older one never"),
        pytest.param(
            [("a", G0, 20, 1, 0), ("a", [], 30, 1, 5), ("a", G1, 25, 1, 6), ("a", G1, 29, 1, 5), ("a", G1, 40, 1, 5)],
            "new new new stale new",
            id="members of one attempt are ordered each by itself",
        ),
        pytest.param(
            [("a", G0, 20, 1, 0), ("a", G0, 50, 2, 0), ("a", G1, 21, 1, 1), ("a", G1, 20, 2, 1), ("a", G1, 49, 2, 1)],
            "new new stale stale new",
            id="nothing of an older attempt counts",
        ),
        pytest.param([("a", [], (2, 5)), ("a", [], (1, 900)), ("a", [], (3, 1))], "new stale new", id="the epoch comes first"),
        pytest.param(
            [("new tenant", G0, 60), ("old tenant", G0, 50), ("old tenant", G1, 50)],
            "new stale new",
            id="an older command does not touch a device that was given to another job",
        ),
        pytest.param(
            [("a", G0, 60), ("b", [*G0, *G1], 50), ("c", G1, 40), ("b", [], 45)],
            "new stale new new",
            id="a stale command leaves no mark",
        ),
        pytest.param(
            [("gang", G0, 10), ("gang", G1, 10, 1, 1), ("half of gpu-1", G1, 10)],
            "new new new",
            id="one record may start several tasks and evict several jobs",
        ),
    ],
)
@pytest.mark.parametrize("restarts", [False, True])
def test_commands_are_obeyed_in_the_order_of_the_log(disk: Reopen, commands: list[Any], verdicts: str, restarts: bool) -> None:
    """Each command: job, devices, position (in epoch 1 if not said), attempt, task. Agents in between make no difference."""
    fences, found = Fences(disk()), []
    for job, devices, at, *which in commands:
        attempt, task = which or (1, 0)
        fences = Fences(disk()) if restarts else fences
        found.append(obey(fences, job, devices, at if isinstance(at, tuple) else (1, at), attempt=attempt, task=task))
    assert found == verdicts.split()


def test_several_tasks_of_one_command(disk: Reopen) -> None:
    fences = Fences(disk())
    obey(fences, "a", ["gpu-0"], (1, 20), task=0)
    assert fences.obey("a", 1, {0: ["gpu-0"], 1: ["gpu-1"]}, (1, 20)) == {0: "same", 1: "new"}


def test_fences_stand_after_a_restart(disk: Reopen) -> None:
    before = Fences(disk())
    obey(before, "a", ["gpu-0"], (1, 20))
    before.admission_epoch_ok(7)

    fences = Fences(disk())
    assert obey(fences, "a", ["gpu-0"], (1, 20)) == "same"
    assert obey(fences, "a", ["gpu-0"], (1, 19)) == "stale"
    assert not fences.admission_epoch_ok(6)
    assert fences.highest == (1, 20)


def test_admission_epochs_only_rise(disk: Reopen) -> None:
    fences = Fences(disk())
    assert [fences.admission_epoch_ok(epoch) for epoch in (0, 3, 3, 2, 4)] == [True, True, True, False, True]
    assert fences.admission_epoch == 4


def test_the_file_does_not_grow_with_the_number_of_commands(disk: Reopen) -> None:
    fences = Fences(MemoryStorage()) if isinstance(disk(), FolderStorage) else Fences(disk())
    for seq in range(5000):
        fences.admission_epoch_ok(3)
        assert obey(fences, "a", ["gpu-0"], (1, seq)) == "new"
    assert len(fences._journal) < 2000


@given(
    st.lists(
        st.tuples(
            st.sampled_from("ab"),
            st.lists(st.sampled_from(["0", "1"]), unique=True),
            st.tuples(st.integers(0, 2), st.integers(0, 3)),
            st.tuples(st.integers(1, 2), st.integers(0, 1)),
        ),
        max_size=30,
    )
)
@pytest.mark.slow
def test_restarted_or_not_and_rewritten_or_not_fences_say_the_same(
    commands: list[tuple[str, list[str], tuple[int, int], tuple[int, int]]],
) -> None:
    steady, restarted = Fences(MemoryStorage()), MemoryStorage()
    for job, devices, position, (attempt, task) in commands:
        fences = Fences(restarted)
        known = {"attempt": attempt, "task": task}
        assert obey(steady, job, devices, position, **known) == obey(fences, job, devices, position, **known)
        fences._journal.rewrite(fences._compacted())
        assert steady.highest == Fences(restarted).highest
        assert obey(steady, job, devices, position, **known) != "new"


# --- reports


def test_reports_are_numbered_without_a_gap_and_kept_until_sent(disk: Reopen) -> None:
    reports = Reports(disk())
    assert [reports.append(report) for report in (b"a", b"b", b"c")] == [0, 1, 2]
    reports.sent(1)
    assert reports.unsent() == [(2, b"c")]


def test_the_spool_continues_after_a_restart(disk: Reopen) -> None:
    before = Reports(disk())
    every_byte = bytes(range(256))
    before.append(b"a")
    before.append(every_byte)
    before.sent(0)

    reports = Reports(disk())
    assert reports.unsent() == [(1, every_byte)]
    assert reports.next_number == 2
    assert reports.append(b"c") == 2


def test_a_spool_that_was_sent_out_keeps_its_number(disk: Reopen) -> None:
    reports = Reports(disk())
    for number in range(200):
        assert reports.append(b"x") == number
        reports.sent(number)
    assert len(reports._journal) <= 102
    assert Reports(disk()).append(b"y") == 200


def test_a_spool_that_is_never_empty_does_not_grow(disk: Reopen) -> None:
    reports = Reports(disk())
    reports.append(b"0")
    for number in range(300):
        reports.append(b"%d" % (number + 1))
        reports.sent(number)
    assert len(reports._journal) <= 104
    assert Reports(disk()).unsent() == [(300, b"300")]


def test_what_was_never_written_cannot_have_been_sent(disk: Reopen) -> None:
    reports = Reports(disk())
    reports.append(b"a")
    reports.sent(0)
    reports.sent(0)
    with pytest.raises(ValueError, match="report 1"):
        reports.sent(1)


# --- evictions


def eviction(key: str, notice: int = 1_000_000) -> RunningEviction:
    return RunningEviction(key, notice, 120_000_000, 30_000_000, "notice", "boot-1", {"epoch": 1, "seq": 20})


def test_a_restarted_agent_keeps_the_deadlines_of_an_eviction(disk: Reopen) -> None:
    EvictionStore(disk()).begin(eviction("a"))
    EvictionStore(disk()).reached("a", "term sent")
    [found] = EvictionStore(disk()).running()
    assert (found.stage, found.boot_id, found.detail) == ("term sent", "boot-1", {"epoch": 1, "seq": 20})
    assert (found.term_boottime_us, found.kill_boottime_us) == (121_000_000, 151_000_000)


def test_a_repeated_command_gives_no_more_time(disk: Reopen) -> None:
    evictions = EvictionStore(disk())
    evictions.begin(eviction("a"))
    evictions.begin(eviction("a", notice=99_000_000))
    assert evictions.get("a") == eviction("a")


def test_an_ended_eviction_is_gone_for_good(disk: Reopen) -> None:
    evictions = EvictionStore(disk())
    for round_ in range(100):
        evictions.begin(eviction("a", notice=round_))
        evictions.end("a")
    evictions.end("a")
    assert evictions.running() == []
    assert EvictionStore(disk()).running() == []
    assert len(evictions._journal) <= 102


# --- damage


def test_a_line_cut_off_by_a_crash_never_happened_and_the_next_one_does(disk: Reopen) -> None:
    reports = Reports(disk())
    reports.append(b"a")
    whole = disk().read("reports") or b""
    reports.append(b"bbbb")
    for length in range(len(whole), len(disk().read("reports") or b"")):
        storage = MemoryStorage()
        storage.replace("reports", (disk().read("reports") or b"")[:length])
        reports = Reports(storage)
        assert reports.append(b"c") == 1
        assert Reports(storage).unsent() == [(0, b"a"), (1, b"c")]


@pytest.mark.parametrize(
    ("name", "opens"), [("fences", Fences), ("reports", Reports), ("evictions", EvictionStore), ("machine", new_incarnation)]
)
@pytest.mark.parametrize("content", [b"\n", b"00000000 {}\n", b"nonsense\n", b"\0" * 100 + b"\n"])
def test_a_damaged_file_is_an_error_and_never_empty(
    disk: Reopen, name: str, opens: Callable[[Storage], object], content: bytes
) -> None:
    disk().replace(name, content)
    with pytest.raises(DamagedFile, match=name):
        opens(disk())


def test_every_single_flipped_bit_is_noticed() -> None:
    storage = MemoryStorage()
    obey(Fences(storage), "a", ["gpu-0"], (1, 20))
    obey(Fences(storage), "b", ["gpu-1"], (1, 21))
    sound = storage.read("fences") or b""
    for at in range(len(sound) - 1):
        broken = bytearray(sound)
        broken[at] ^= 1
        storage.replace("fences", bytes(broken))
        with pytest.raises(DamagedFile):
            Fences(storage)


def test_after_a_write_that_failed_nothing_is_written_behind_it() -> None:
    class FullDisk(MemoryStorage):
        full = False

        def append(self, name: str, content: bytes) -> None:
            if self.full:
                super().append(name, content[: len(content) // 2])
                raise OSError(28, "No space left on device")
            super().append(name, content)

    storage = FullDisk()
    reports = Reports(storage)
    reports.append(b"a")
    storage.full = True
    with pytest.raises(OSError, match="No space"):
        reports.append(b"b")
    storage.full = False
    with pytest.raises(NotWritable):
        reports.append(b"b")
    assert Reports(storage).append(b"b") == 1


# --- who this is


def test_the_machine_stays_and_the_incarnation_is_new_at_each_start(disk: Reopen) -> None:
    first, second = new_incarnation(disk()), new_incarnation(disk())
    assert first.machine_id == second.machine_id
    assert first.boot_id == second.boot_id
    assert first.incarnation != second.incarnation


def test_earlier_incarnations_are_known_as_many_as_are_needed(disk: Reopen) -> None:
    first = new_incarnation(disk())
    second = renewed(disk(), first, "second")
    assert new_incarnation(disk()).earlier == (first.incarnation, second.incarnation)
    for _ in range(300):
        new_incarnation(disk())
    last = new_incarnation(disk())
    assert 100 <= len(last.earlier) <= 200
    assert last.machine_id == first.machine_id
    assert first.incarnation not in last.earlier


def test_a_simulation_can_choose_its_identity(disk: Reopen) -> None:
    drawn = new_incarnation(disk(), machine_id="m1", boot_id="b1", incarnation="i1")
    assert (drawn.machine_id, drawn.boot_id, drawn.incarnation) == ("m1", "b1", "i1")
    with pytest.raises(DamagedFile, match="belongs to machine m1"):
        new_incarnation(disk(), machine_id="m2")


# --- one agent on a folder


def test_a_second_agent_on_the_folder_is_refused_by_name(tmp_path: Path) -> None:
    with AgentLock(tmp_path / "state"):
        second = "import sys, pathlib; from bailiff_node_agent.disk import AgentLock; AgentLock(pathlib.Path(sys.argv[1]))"
        refused = subprocess.run([sys.executable, "-c", second, tmp_path / "state"], stderr=subprocess.PIPE, text=True)
    assert refused.returncode == 1
    assert f"another agent (process {multiprocessing.current_process().pid})" in refused.stderr
    assert str(tmp_path / "state") in refused.stderr


def test_a_folder_is_free_again_after_its_agent(tmp_path: Path) -> None:
    with AgentLock(tmp_path):
        with pytest.raises(FolderInUse):
            AgentLock(tmp_path)
        with AgentLock(tmp_path / "another node's"):
            pass
    AgentLock(tmp_path).release()


def test_the_lock_of_a_killed_agent_is_free(tmp_path: Path) -> None:
    holds = """
import pathlib, sys, time
from bailiff_node_agent.disk import AgentLock
lock = AgentLock(pathlib.Path(sys.argv[1]))
print("held", flush=True)
time.sleep(300)
"""
    with subprocess.Popen([sys.executable, "-c", holds, tmp_path], stdout=subprocess.PIPE, text=True) as agent:
        assert agent.stdout
        agent.stdout.readline()
        with pytest.raises(FolderInUse, match=str(agent.pid)):
            AgentLock(tmp_path)
        agent.kill()
    AgentLock(tmp_path).release()

"""A whole agent on a machine with CRIU: evictions in which the platform saves the task, starts that restore it, and snapshots of
tasks that go on.
"""

import json
import signal
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.kits.agent import carry_out
from tests.kits.criu import criu_program, kill_criu, needs_criu, paused_criu
from tests.kits.saving_node import SECOND, WAITS, World
from tests.kits.small_disk import SmallDisk
from tests.kits.waiting import until

from bailiff_bus.messages import reports
from bailiff_bus.messages.commands import RemoveSnapshots, TaskSnapshot
from bailiff_node_agent.settings import SNAPSHOTS
from bailiff_node_agent.snapshots import Criu

pytestmark = [pytest.mark.slow, needs_criu]
HELD = "server = socket.create_server(('127.0.0.1', 0))\nheld = socket.create_connection(server.getsockname())\n"


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    world = World(tmp_path)
    await world.agent_starts()
    yield world
    runtime = world.agent.context.runtimes["process"]
    for task in world.agent.tasks.running():
        with suppress(Exception):
            await runtime.kill(task.key)
    await world.agent_dies()


async def test_a_job_that_knows_nothing_is_saved_and_goes_on_in_its_next_attempt(world: World) -> None:
    await world.starts_and_is_ready()
    await world.evict()
    snapshot = await world.stored()
    assert world.stages() == ["noticed", "frozen", "dumped", "stored"]
    [exited] = world.of(reports.TaskExitedReport)
    assert (exited.exit_code, world.output(0)) == (-signal.SIGKILL, "ready\n")  # it had no TERM
    dumped = world.of(reports.EvictionStageReport)[2]
    assert dumped.bytes > 1 << 20
    await world.starts("print('started anew')", 1, snapshot)
    restored = await world.seen(reports.TaskRestoredReport)
    assert (restored.from_attempt, restored.driver, restored.bytes) == (0, "criu", snapshot.bytes)
    assert restored.verified > 0
    assert restored.restored > 0
    world.go()
    ended = await world.seen(reports.TaskExitedReport, 2)
    assert (ended.exit_code, world.output(1)) == (0, "went on 2\n")
    await world.seen(reports.TaskReleasedReport, 2)
    assert world.images() == []  # it has ended well: nobody needs them


async def test_of_two_snapshots_only_the_newer_one_is_kept(world: World) -> None:
    await world.starts_and_is_ready("wait()\nos.unlink('go')\nwait()\nprint('went on')")
    await world.evict()
    await world.starts("", 1, await world.stored())
    world.go()
    await until(lambda: "ready" in world.output(1))
    await world.evict(1)
    await world.seen(reports.TaskReleasedReport, 2)
    assert [each.parent.name for each in world.images()] == ["attempt-0001"]


async def test_that_of_a_job_that_has_ended_is_removed_and_no_other_in_its_place(world: World) -> None:
    await world.starts_and_is_ready()
    await world.evict()
    kept = await world.stored()
    assert len(world.images()) == 1
    for sha256, left in (("0" * 64, 1), (kept.sha256, 0), (kept.sha256, 0)):
        ended = [TaskSnapshot(job=job, attempt=0, task=0, sha256=sha256) for job in ("unknown", "job")]
        await carry_out(world.agent, RemoveSnapshots(sender="admission", **world._common(), snapshots=tuple(ended)))
        await until(lambda left=left: len(world.images()) == left)  # type: ignore[misc]


async def test_what_cannot_be_saved_is_told_and_has_term_with_what_is_left(world: World) -> None:
    await world.starts_and_is_ready(HELD + WAITS)
    await world.evict()
    exited = await world.seen(reports.TaskExitedReport)
    assert world.stages() == ["noticed", "frozen", "save_failed", "term_sent"]
    assert world.of(reports.EvictionStageReport)[2].reason.startswith("it has an open TCP connection")
    assert (exited.exit_code, "had TERM" in world.output(0)) == (3, True)


async def test_who_was_not_started_for_it_has_term(world: World) -> None:
    await world.starts_and_is_ready(checkpoint="job")
    await world.evict()
    assert (await world.seen(reports.TaskExitedReport)).exit_code == 3
    assert world.of(reports.EvictionStageReport)[2].reason == "it was not started so that it can be saved"


async def test_a_node_without_criu_says_so(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.criu = None  # type: ignore[assignment]
    await world.agent_starts()
    await world.starts_and_is_ready()
    await world.evict()
    assert (await world.seen(reports.TaskExitedReport)).exit_code == 3
    assert world.of(reports.EvictionStageReport)[1].reason == "this node has no program that saves tasks"
    await world.agent_dies()


@pytest.mark.parametrize("save", ["job", "none"])
async def test_without_a_snapshot_it_has_term_at_once(world: World, save: str) -> None:
    await world.starts_and_is_ready()
    await world.evict(save=save)
    assert (await world.seen(reports.TaskExitedReport)).exit_code == 3
    assert (world.stages(), world.images()) == (["noticed", "term_sent"], [])


ATTACHED = """
connection = socket.socket(socket.AF_UNIX)
folder = os.open(os.environ["BAILIFF_CONTROL_DIR"], os.O_RDONLY)
connection.connect(f"/proc/self/fd/{folder}/socket")
def say(text):
    connection.sendall(text + b"\\n")
    connection.recv(1000)
say(b'{"type": "hello", "v": 1, "rank": 0, "pid": 1}')
"""
ANSWERS = """
print("ready", flush=True)
while not os.path.exists(os.environ["BAILIFF_CONTROL_DIR"] + "/notice.json"):
    time.sleep(0.01)
say(b'{"type": "acknowledged", "step": 1}')
os._exit(85)
"""


async def test_with_auto_a_job_that_answers_its_notice_saves_itself(world: World) -> None:
    await world.starts_and_is_ready(ATTACHED + ANSWERS, checkpoint="auto")
    await world.evict(save="auto")
    assert (await world.seen(reports.TaskExitedReport)).exit_code == 85
    assert world.stages() == ["noticed", "acknowledged"]


async def test_with_auto_a_job_that_does_not_answer_is_saved_when_term_is_due(world: World) -> None:
    """This one listened once; its connection is closed, so that it can be saved."""
    closes = "\nconnection.close(); os.close(folder)\n"
    await world.starts_and_is_ready(ATTACHED + closes + WAITS, checkpoint="auto")
    await world.evict(save="auto", term_after=SECOND)
    await world.stored()
    noticed, frozen, *_ = world.of(reports.EvictionStageReport)
    assert (noticed.attached, noticed.term_after) == (True, SECOND)
    assert frozen.elapsed >= SECOND
    assert "had TERM" not in world.output(0)


async def test_with_auto_a_job_that_never_listened_is_saved_at_once(world: World) -> None:
    await world.starts_and_is_ready(checkpoint="auto")
    await world.evict(save="auto")
    await world.stored()
    assert world.stages() == ["noticed", "frozen", "dumped", "stored"]


async def test_a_snapshot_that_was_tampered_with_is_not_restored_and_the_job_starts_anew(world: World) -> None:
    await world.starts_and_is_ready()
    await world.evict()
    snapshot = await world.stored()
    pages = next(world.images()[0].glob("pages-*"))
    with pages.open("r+b") as file:
        file.write(b"\0\1\2\3")
    await world.starts("print('started anew')", 1, snapshot)
    failed = await world.seen(reports.TaskRestoreFailedReport)
    assert (failed.from_attempt, failed.driver, failed.reason) == (0, "criu", f"{pages.name} was changed")
    await world.seen(reports.TaskExitedReport, 2)
    assert world.output(1) == "started anew\n"
    assert [type(each) for each in world.sent if isinstance(each, reports.TaskStartedReport | reports.TaskRestoreFailedReport)][
        1:
    ] == [
        reports.TaskStartedReport,
        reports.TaskRestoreFailedReport,
    ]


async def test_another_cpu_does_not_restore_it(world: World) -> None:
    await world.starts_and_is_ready()
    await world.evict()
    snapshot = await world.stored()
    world.agent.context.cpu_features = "0" * 64
    await world.starts("print('started anew')", 1, snapshot)
    failed = await world.seen(reports.TaskRestoreFailedReport)
    assert failed.reason == "this node's CPU has other features than the one on which it was saved"


async def test_a_disk_that_is_full_is_told_and_the_job_goes_on_to_term(world: World, tmp_path: Path) -> None:
    disk = SmallDisk(tmp_path / "checkpoints", "4m")
    try:
        await world.starts_and_is_ready()
        with disk.full():
            await world.evict()
            assert (await world.seen(reports.TaskExitedReport)).exit_code == 3
    finally:
        disk.close()
    assert world.stages()[-2:] == ["save_failed", "term_sent"]
    reason = next(each.reason for each in world.of(reports.EvictionStageReport) if each.stage == "save_failed")
    assert "No space left" in reason or "disk is full" in reason


# --- who dies meanwhile, and deadlines


async def saving(world: World) -> None:
    """In the middle of an eviction: the task is frozen, and CRIU has written its state."""
    world.criu = str(paused_criu(world.folder))
    await world.agent_dies()
    await world.agent_starts()
    await world.starts_and_is_ready()
    await world.evict()
    await until(lambda: (world.folder / "frozen").exists())


def goes_on(world: World) -> None:
    (world.folder / "gate").touch()


async def test_an_agent_that_is_killed_meanwhile_goes_on_with_it_when_it_is_back(world: World) -> None:
    await saving(world)
    await world.agent_dies()
    await world.agent_starts()
    goes_on(world)
    snapshot = await world.stored()
    assert world.stages() == ["noticed", "frozen", "dumped", "stored"]
    await world.starts("", 1, snapshot)
    await world.seen(reports.TaskRestoredReport)
    world.go()
    await world.seen(reports.TaskExitedReport, 2)
    assert world.output(1) == "went on 2\n"


async def test_an_agent_that_comes_back_after_the_dump_goes_on_with_it(world: World) -> None:
    await saving(world)
    await world.agent_dies()
    goes_on(world)
    await until(lambda: any(world.folder.glob("tasks/*/saved.json")))
    await world.agent_starts()
    await world.stored()


async def test_an_agent_that_stays_away_leaves_no_task_behind(world: World) -> None:
    """Its supervisor keeps the deadline; what was not finished is no snapshot."""
    world.criu = str(paused_criu(world.folder))
    await world.agent_dies()
    await world.agent_starts()
    await world.starts_and_is_ready()
    await world.evict(grace=2 * SECOND)
    await until(lambda: (world.folder / "frozen").exists())
    await world.agent_dies()
    await until(lambda: any(world.folder.glob("tasks/*/exit.json")))
    await world.agent_starts()
    await until(lambda: not world.agent.tasks.running())
    assert "stored" not in world.stages()
    assert not [each for each in world.images() if (each / "manifest.json").exists()]


async def test_a_killed_criu_ends_the_task(world: World) -> None:
    """Nobody knows what it has left of it."""
    await saving(world)
    kill_criu(world.images()[0])
    exited = await world.seen(reports.TaskExitedReport)
    assert (exited.exit_code, world.stages()) == (-9, ["noticed", "frozen", "save_failed", "kill_sent"])
    assert "had TERM" not in world.output(0)


async def test_a_save_that_takes_too_long_ends_with_the_deadline(world: World) -> None:
    world.criu = str(paused_criu(world.folder))
    await world.agent_dies()
    await world.agent_starts()
    await world.starts_and_is_ready()
    await world.evict(grace=2 * SECOND)
    exited = await world.seen(reports.TaskExitedReport)
    assert exited.exit_code == -9
    assert (world.stages()[2], world.stages()[-1]) == ("save_failed", "kill_sent")


async def test_a_shortened_grace_holds_for_a_save_that_has_begun(world: World) -> None:
    await saving(world)
    await world.evict(grace=SECOND)
    assert (await world.seen(reports.TaskExitedReport)).exit_code == -9
    assert world.stages()[-1] == "kill_sent"


async def test_it_is_not_cancelled_once_it_has_begun(world: World) -> None:
    await saving(world)
    await world.cancel()
    await world.seen(reports.TaskCancelEvictionRefusedReport)
    goes_on(world)
    await world.stored()


async def test_the_node_says_what_it_can_save(tmp_path: Path) -> None:
    world = World(tmp_path)
    await world.agent_starts(criu=Criu(criu_program(), "4.2"))
    inventory = await world.seen(reports.NodeInventory, 2)
    [offer] = inventory.snapshots
    assert (offer.driver, offer.version, offer.why_not, len(offer.cpu)) == ("criu", "4.2", "", 64)
    assert offer.bytes_per_s > 0
    assert [*world.checkpoints.rglob("*")] == [world.checkpoints / SNAPSHOTS]
    await world.agent_dies()


async def test_a_node_that_cannot_save_says_why(tmp_path: Path) -> None:
    program = tmp_path / "criu"
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    world = World(tmp_path)
    await world.agent_starts(criu=Criu(str(program), "4.2"))
    [offer] = (await world.seen(reports.NodeInventory, 2)).snapshots
    assert offer.why_not
    assert json.loads(offer.model_dump_json())["bytes_per_s"] == 0
    await world.agent_dies()


# --- while it runs

COUNTS = """
signal.signal(signal.SIGTERM, lambda *_: (print("had TERM", flush=True), os._exit(3)))
counted = 0
print("ready", flush=True)
while not os.path.exists("go"):
    counted += 1
    with open("counted.new", "w") as file:
        file.write(str(counted))
    os.rename("counted.new", "counted")
    time.sleep(0.01)
print("counted", counted)
"""


def counted(world: World) -> int:
    path = world.folder / "work/counted"
    return int(path.read_text()) if path.exists() else 0


async def test_a_running_task_is_saved_and_goes_on_and_what_was_saved_is_restored_after_it_is_lost(world: World) -> None:
    await world.starts_and_is_ready(COUNTS)
    order = await world.save()
    snapshot = await world.saved(order)
    assert world.saving_stages(order) == ["frozen", "dumped", "stored"]
    then = counted(world)
    await until(lambda: counted(world) > then + 100)
    assert (world.output(0), world.of(reports.TaskExitedReport)) == ("ready\n", []), "it was told nothing"
    [task] = world.agent.tasks.running()
    await world.agent.context.runtimes["process"].kill(task.key)
    await world.seen(reports.TaskReleasedReport)
    lost = counted(world)
    await world.starts("print('started anew')", 1, snapshot)
    await world.seen(reports.TaskRestoredReport)
    world.go()
    assert (await world.seen(reports.TaskExitedReport, 2)).exit_code == 0
    assert 0 < int(world.output(1).split()[1]) < lost, "it went on from where it was saved"


async def test_a_newer_one_stands_beside_the_older_until_that_is_discarded(world: World) -> None:
    await world.starts_and_is_ready()
    older, newer = await world.saved(await world.save()), await world.saved(await world.save())
    assert len(world.images()) == 2
    gone = (TaskSnapshot(job="job", attempt=0, task=0, sha256=older.sha256),)
    await carry_out(world.agent, RemoveSnapshots(sender="admission", **world._common(), snapshots=gone))
    await until(lambda: len(world.images()) == 1)
    await world.evict()
    await world.seen(reports.TaskReleasedReport)
    world.go()
    await world.starts("print('started anew')", 1, newer)
    assert (await world.seen(reports.TaskExitedReport, 2)).exit_code == 0
    assert world.output(1) == "went on 2\n"
    await world.seen(reports.TaskReleasedReport, 2)
    assert world.images() == [], "all of its task were removed with its end"


async def test_what_cannot_be_saved_while_it_runs_goes_on(world: World) -> None:
    await world.starts_and_is_ready(HELD + WAITS)
    order = await world.save()
    await world.saved(order, "save_failed")
    assert world.saving_stages(order) == ["frozen", "save_failed"]
    assert world.why_not_saved().startswith("it has an open TCP connection")
    assert world.images() == []
    world.go()
    assert (await world.seen(reports.TaskExitedReport)).exit_code == 0


async def test_a_full_disk_is_told_and_the_task_goes_on(world: World, tmp_path: Path) -> None:
    disk = SmallDisk(tmp_path / "checkpoints", "4m")
    try:
        await world.starts_and_is_ready()
        with disk.full():
            await world.saved(await world.save(), "save_failed")
        world.go()
        assert (await world.seen(reports.TaskExitedReport)).exit_code == 0
    finally:
        disk.close()
    assert "No space left" in world.why_not_saved() or "disk is full" in world.why_not_saved()


async def running_and_saving(world: World) -> int:
    """In the middle of it: CRIU has written its state."""
    world.criu = str(paused_criu(world.folder))
    await world.agent_dies()
    await world.agent_starts()
    await world.starts_and_is_ready()
    order = await world.save()
    await until(lambda: (world.folder / "frozen").exists())
    return order


async def test_an_agent_that_dies_meanwhile_leaves_the_task_running_and_the_next_one_gives_the_snapshot_up(world: World) -> None:
    order = await running_and_saving(world)
    await world.agent_dies()
    await world.agent_starts()
    assert await world.save(again=True) == order
    await world.saved(order, "save_failed")
    assert world.why_not_saved() == "the node's agent was started anew"
    goes_on(world)
    await world.saved(await world.save())
    assert len(world.images()) == 1, "what the first one has left was removed"
    world.go()
    assert (await world.seen(reports.TaskExitedReport)).exit_code == 0


async def test_an_order_that_is_repeated_is_carried_out_once(world: World) -> None:
    order = await running_and_saving(world)
    await world.save(again=True)
    goes_on(world)
    await world.saved(order)
    await world.save(again=True)
    assert world.saving_stages(order) == ["frozen", "dumped", "stored"]
    assert len(world.images()) == 1


async def test_a_killed_criu_ends_a_task_that_was_to_go_on(world: World) -> None:
    order = await running_and_saving(world)
    kill_criu(world.images()[0])
    assert (await world.seen(reports.TaskExitedReport)).exit_code == -9
    assert world.saving_stages(order) == ["frozen", "save_failed"]


async def test_an_eviction_meanwhile_saves_the_task_after_it(world: World) -> None:
    order = await running_and_saving(world)
    await world.evict()
    goes_on(world)
    snapshot = await world.stored()
    assert world.stages() == ["noticed", "frozen", "dumped", "stored"]
    assert "stored" in world.saving_stages(order)
    world.go()
    await world.starts("print('started anew')", 1, snapshot)
    assert (await world.seen(reports.TaskExitedReport, 2)).exit_code == 0
    assert world.output(1) == "went on 2\n"


CONNECTS_LATER = """
print("ready", flush=True)
while not os.path.exists("hold"):
    time.sleep(0.01)
"""


async def test_an_eviction_that_cannot_save_it_leaves_the_snapshot_from_while_it_ran(world: World) -> None:
    await world.starts_and_is_ready(CONNECTS_LATER + HELD + "print('held', flush=True)\n" + WAITS)
    snapshot = await world.saved(await world.save())
    (world.folder / "work/hold").touch()
    await until(lambda: "held" in world.output(0))
    await world.evict()
    await world.seen(reports.TaskReleasedReport)
    assert "save_failed" in world.stages()
    await world.starts("print('started anew')", 1, snapshot)
    await world.seen(reports.TaskRestoredReport)
    world.go()
    await world.seen(reports.TaskExitedReport, 2)
    assert world.output(1) == "held\nready\nwent on 2\n"

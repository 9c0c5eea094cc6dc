"""As whom a task runs: the user who submitted its job, with what that user needs and nothing else; or a sentence why not."""

import asyncio
import os
import pwd
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from tests.kits.agent import carry_out, context_on
from tests.kits.waiting import PATIENCE_S, until

from bailiff_bus.messages.commands import Fence, RecordRef, StartTask, TaskAssignment
from bailiff_bus.messages.reports import ReportBody, TaskExitedReport, TaskStartedReport, TaskStartRefusedReport
from bailiff_core.model.job_spec import JobSpec
from bailiff_devstack.simulated_node import SimulatedInventory
from bailiff_node_agent.agent import Agent
from bailiff_node_agent.disk import MemoryStorage
from bailiff_node_agent.reporter import decode_report
from bailiff_node_agent.runtime import Exit, TaskKey, User, job_files
from bailiff_node_agent.runtime.process import ProcessRuntime
from bailiff_node_agent.users import NotRunnable, Users, allow_traversal, first_inaccessible, make_owned
from bailiff_service.clock_and_ids import SYSTEM
from bailiff_service.metrics import Metrics

SUBMITTER = "nobody"
KEY = TaskKey("job", 1, "0")

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can start a process as another user")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A place that other users can reach, as pytest's own is not."""
    made = Path(tempfile.mkdtemp(prefix="bailiff-users-"))
    made.chmod(0o711)
    yield made
    shutil.rmtree(made)


class Node:
    """An agent of root's that runs real processes."""

    def __init__(self, folder: Path, users: Users) -> None:
        storage = MemoryStorage()
        for part in ("logs", "checkpoints"):
            (folder / part).mkdir()
            allow_traversal(folder / part)
        self.runtime = ProcessRuntime(folder)
        nobody = SimulatedInventory("0", "n1", lambda _: None)
        self.context = context_on(storage, inventory=nobody, runtimes={"process": self.runtime}, folder=folder, users=users)
        self.agent = Agent(self.context, SYSTEM, Metrics(), lambda: None)

    async def start(self, command: str, user: str) -> None:
        common = {"node": "n1", "incarnation": self.context.incarnation.incarnation, "sender": "admission", "sender_epoch": 1}
        await carry_out(self.agent, Fence.model_validate(common))
        order = {
            "ordered_by": RecordRef(epoch=1, seq=5),
            "job": "job",
            "attempt": 1,
            "tasks": (TaskAssignment(task=0),),
            "grace": 1,
            "user": user,
            "master_node": "n1",
            "spec": JobSpec(command=command),
        }
        await carry_out(self.agent, StartTask.model_validate({**common, **order}))

    async def ends(self) -> Exit:
        return await asyncio.wait_for(self.runtime.wait_exit(), PATIENCE_S)

    def messages(self) -> list[ReportBody]:
        return [decode_report(kept) for _, kept in self.context.reports.unsent()]

    def refusal(self) -> str:
        return next(report.reason for report in self.messages() if isinstance(report, TaskStartRefusedReport))

    def output(self) -> list[str]:
        return (self.context.folder / "logs" / f"{KEY}.log").read_text().splitlines()


@pytest.fixture
async def node(folder: Path) -> AsyncIterator[Node]:
    node = Node(folder, Users("submitter"))
    yield node
    with suppress(Exception):
        await node.runtime.kill(KEY)
    await node.runtime.close()


async def test_a_task_is_the_submitters_with_its_groups_and_its_home(node: Node) -> None:
    await node.start('id -u; id -g; id -G; echo "$HOME $USER $LOGNAME"; pwd', SUBMITTER)
    assert (await node.ends()).code == 0
    found = pwd.getpwnam(SUBMITTER)
    uid, gid, groups, names, where = node.output()
    assert (int(uid), int(gid)) == (found.pw_uid, found.pw_gid)
    assert sorted(map(int, groups.split())) == sorted(os.getgrouplist(SUBMITTER, found.pw_gid))
    home = found.pw_dir if os.path.isdir(found.pw_dir) else "/"  # noqa: ASYNC240, PTH112
    assert (names, where) == (f"{home} {SUBMITTER} {SUBMITTER}", home)


@pytest.mark.parametrize(("owner", "begins"), [(SUBMITTER, "/step-00000007"), ("root", "at the beginning")])
async def test_its_checkpoints_are_read_with_its_rights_and_not_the_agents(node: Node, owner: str, begins: str) -> None:
    """The agent, as root, could read what a link, a container or another account has put there; its user cannot."""
    step = node.context.folder / "checkpoints/job/attempt-0001/step-00000007"
    step.mkdir(parents=True)
    (step / "manifest.json").write_text('{"agreed": true}')
    (step / "manifest.json").chmod(0o600)
    for each in (step, step.parent, step.parent.parent):
        shutil.chown(each, SUBMITTER)
    shutil.chown(step / "manifest.json", owner)
    await node.start('echo "${BAILIFF_RESUME_FROM:-at the beginning}"', SUBMITTER)
    assert (await node.ends()).code == 0
    assert node.output()[0].endswith(begins)
    (started,) = (each for each in node.messages() if isinstance(each, TaskStartedReport))
    assert started.damaged_checkpoints == (owner == "root")


async def test_it_can_use_what_the_contract_gives_it_and_read_nothing_of_the_nodes(node: Node) -> None:
    await node.start(
        """
        set -e
        echo new > "$BAILIFF_CONTROL_DIR/workers-0"
        test -r "$BAILIFF_CONTROL_DIR/steps" && test -w "$BAILIFF_CONTROL_DIR/steps" && test -w "$BAILIFF_SOCKET"
        mkdir "$BAILIFF_CHECKPOINT_DIR/attempt-0001"
        echo x > "$BAILIFF_SCRATCH_DIR/x"
        echo to-stdout > /dev/stdout
        cd "$BAILIFF_CONTROL_DIR/../.."
        for hidden in . tasks tasks/job-1-0 control checkpoints logs scratch; do
          if ls "$hidden" 2>/dev/null; then echo "can list $hidden"; exit 1; fi
        done
        if cat tasks/job-1-0/task.json 2>/dev/null; then exit 2; fi
        if kill -0 "$(cut -d' ' -f4 /proc/$$/stat)" 2>/dev/null; then exit 3; fi
        """,
        SUBMITTER,
    )
    end = await node.ends()
    assert (end.code, node.output()) == (0, ["to-stdout"])


async def test_other_users_have_no_access(node: Node) -> None:
    await node.start("sleep 300", SUBMITTER)
    uid = pwd.getpwnam(SUBMITTER).pw_uid
    own = node.runtime.folders.control(KEY)
    for folder in (own, node.context.folder / "checkpoints" / "job", node.context.folder / "scratch" / str(KEY)):
        assert (folder.stat().st_uid, folder.stat().st_mode & 0o777) == (uid, 0o700)
    assert {path.name: (path.lstat().st_uid, path.lstat().st_mode & 0o777) for path in own.iterdir()} == {
        "steps": (uid, 0o600),
        "socket": (uid, 0o600),
    }
    await node.runtime.kill(KEY)
    await node.ends()


async def test_its_notice_and_its_messages_arrive(node: Node) -> None:
    script = """
        import json, os, socket, time
        while not os.path.exists(os.environ["BAILIFF_CONTROL_DIR"] + "/notice.json"):
            time.sleep(0.01)
        notice = json.load(open(os.environ["BAILIFF_CONTROL_DIR"] + "/notice.json"))
        line = socket.socket(socket.AF_UNIX)
        line.connect(os.environ["BAILIFF_SOCKET"])
        for said in ({"type": "hello", "v": 1, "rank": 0, "pid": os.getpid()}, {"type": "acknowledged", "step": 7}):
            line.sendall(json.dumps(said).encode() + b"\\n")
            print(json.loads(line.recv(1000)), notice["reason"], flush=True)
        """
    await node.start(f"exec python3 - <<'END'\n{_dedented(script)}END\n", SUBMITTER)
    await node.runtime.notice(KEY, {"reason": "preemption", "preemptor": None}, 10**15, 10**15)
    assert (await node.ends()).code == 0
    assert node.output() == ["{'ok': True} preemption"] * 2
    assert [line.type for line in node.runtime.messages(KEY)] == ["hello", "acknowledged"]


async def test_a_folder_or_a_pipe_or_a_link_in_place_of_the_nodes_files_is_harmless(node: Node) -> None:
    victim = node.context.folder / "roots-own"
    victim.write_bytes(b"r" * 100)
    await node.start(
        'cd "$BAILIFF_CONTROL_DIR"; mkdir notice.json; rm steps; ln -s ../../roots-own steps; touch ready; sleep 9', SUBMITTER
    )
    await until((node.runtime.folders.control(KEY) / "ready").exists)
    await node.runtime.notice(KEY, {"reason": "preemption", "preemptor": None}, 10**15, 10**15)
    assert victim.read_bytes() == b"r" * 100
    steps = node.runtime.folders.control(KEY) / "steps"
    steps.unlink()
    os.mkfifo(steps)
    node.runtime.propose_step(KEY, 3, agreed=True)
    steps.unlink()
    steps.hardlink_to(victim)
    node.runtime.propose_step(KEY, 3, agreed=True)
    assert victim.read_bytes() == b"r" * 100
    await node.runtime.kill(KEY)
    await node.ends()


async def test_the_next_agent_adopts_it_and_removes_what_it_forgets(node: Node) -> None:
    await node.start("sleep 300", SUBMITTER)
    await node.runtime.close()
    node.runtime = ProcessRuntime(node.context.folder)
    (found,) = await node.runtime.adopt()
    assert found.key == KEY
    assert node.runtime.folders.control(KEY).parent.name == "control"
    await node.runtime.kill(KEY)
    await node.ends()
    await node.runtime.forget(KEY)
    assert [*(node.context.folder / "control").iterdir()] == []


async def test_the_control_directory_of_an_unknown_task_is_removed(node: Node) -> None:
    (node.context.folder / "control" / "old-1-0").mkdir(parents=True)
    await node.runtime.adopt()
    assert [*(node.context.folder / "control").iterdir()] == []


# --- who may not


@pytest.mark.parametrize(
    ("submitter", "users", "says"),
    [
        ("", Users("submitter"), "this job has no submitter: submit it with --actor"),
        ("carol-of-elsewhere", Users("submitter"), "this node has no user 'carol-of-elsewhere'"),
        ("console/alice", Users("submitter"), "this node has no user 'console/alice'"),
        ("root", Users("submitter"), "the user 'root' has uid 0, below this node's run_as_lowest_uid 1000"),
        ("daemon", Users("submitter"), "the user 'daemon' has uid 1"),
        ("a\0b", Users("submitter"), "this node has no user"),
    ],
)
async def test_a_forbidden_start_is_refused_with_a_reason(folder: Path, submitter: str, users: Users, says: str) -> None:
    node = Node(folder, users)
    await node.start("touch /nowhere", submitter)
    assert says in node.refusal()
    assert not [report for report in node.messages() if isinstance(report, TaskStartedReport | TaskExitedReport)]


def test_a_node_may_name_users_for_submitters_and_permit_root() -> None:
    users = Users("submitter", {"console/alice": SUBMITTER}, lowest_uid=0)
    alice, root = users.of("console/alice"), users.of("root")
    assert alice is not None
    assert alice.name == SUBMITTER
    assert root is not None
    assert root.uid == 0


def test_an_agent_that_is_not_root_or_is_configured_so_runs_all_tasks_as_itself() -> None:
    assert Users("agent").of("alice") is None
    assert Users("submitter", is_root=False).of("alice") is None


def test_an_inaccessible_path_is_named(folder: Path) -> None:
    user = Users("submitter").of(SUBMITTER)
    assert user is not None
    (folder / "state" / "n1").mkdir(parents=True)
    (folder / "state").chmod(0o750)
    assert first_inaccessible(user, folder / "state" / "n1") == folder / "state"
    assert first_inaccessible(replace(user, groups=(0,)), folder / "state" / "n1") is None
    (folder / "state").chmod(0o711)
    assert first_inaccessible(user, folder / "state" / "n1") is None


def test_checkpoints_of_another_user_are_not_handed_over(folder: Path) -> None:
    mine, other = User("mine", 60_001, 60_001), User("other", 60_002, 60_002)
    make_owned(folder / "job", mine)
    make_owned(folder / "job", mine)
    with pytest.raises(NotRunnable, match=r"belongs to uid 60001, not to other: remove it"):
        make_owned(folder / "job", other)


def test_a_link_in_the_place_of_the_checkpoints_is_not_handed_over(folder: Path) -> None:
    """A container would be given what it leads to."""
    (folder / "other").mkdir()
    for kind, user in (("link", 0), ("own link", 60_001)):
        (folder / kind).symlink_to(folder / "other")
        os.chown(folder / kind, user, user, follow_symlinks=False)
        with pytest.raises(NotRunnable, match="is no folder, but a link or a file"):
            make_owned(folder / kind, User("mine", 60_001, 60_001))
    assert (folder / "other").stat().st_uid == 0


async def test_what_is_read_for_a_user_is_read_with_its_rights_by_that_thread_alone(folder: Path) -> None:
    """A checkpoint may lie where root has no rights, and a job may leave what its user may not read."""
    secret = folder / "secret"
    secret.write_text("root's")
    secret.chmod(0o600)
    assert await job_files.reading(secret.read_text) == "root's"
    with pytest.raises(PermissionError):
        await job_files.reading(secret.read_text, user=User("mine", 60_001, 60_001))
    assert await job_files.reading(secret.read_text) == "root's"
    assert secret.read_text() == "root's"


def _dedented(script: str) -> str:
    return "\n".join(line[8:] for line in script.splitlines()).lstrip("\n") + "\n"

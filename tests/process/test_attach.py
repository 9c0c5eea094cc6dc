"""Ada works in a terminal on a GPU: real CLI in a pseudo-terminal, real Kafka, admission, agent and job.

Others try to get in; the agent is killed while she is attached; her job ends, and so does her command, with the job's exit code.
"""

import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml
from tests.kits.pty_program import PtyProgram
from tests.kits.system import POLICY, System, Watch

from bailiff_core.model.policy import Policy
from bailiff_core.records.facts import AttachEnded, AttachGranted, AttachStarted, InputRejected, TaskExited
from bailiff_log.keys import key_id, make_private_key

pytestmark = pytest.mark.kafka

AGENT, JOB = "node-agent", "shell-1"


class Desks:
    """The people at their terminals. Each signs with a key of their own."""

    def __init__(self, system: System, folder: Path) -> None:
        self._system, self._stack = system, ExitStack()
        self._files = {name: folder / f"{name}.key" for name in ("ada", "bob", "ops")}
        self._keys = {name: make_private_key(file) for name, file in self._files.items()}

    def policy(self, *operators: str) -> Policy:
        identity = {"keys": {key_id(key): name for name, key in self._keys.items()}, "operators": list(operators)}
        return Policy.model_validate({**POLICY.model_dump(mode="json"), "identity": identity}, strict=False)

    def bailiff(self, person: str, *arguments: str) -> PtyProgram:
        env = {
            **self._system.stack.kafka_environment("operator"),
            "BAILIFF_POOL": "pool-a",
            "BAILIFF_KEY": str(self._files[person]),
            "BAILIFF_ACTOR": person,
        }
        program = PtyProgram(arguments, env, rows=30, columns=100)
        self._stack.callback(program.close)
        return program

    def close(self) -> None:
        self._stack.close()


@pytest.fixture
def desks(battered: System, tmp_path: Path) -> Iterator[Desks]:
    found = Desks(battered, tmp_path)
    yield found
    found.close()


def say(program: PtyProgram, word: str) -> None:
    """Have the shell print a word that stands in no command line."""
    program.type(f"echo {word[:2]}''{word[2:]}\r")
    program.until(word)


async def test_a_terminal_is_its_owners_survives_the_agent_and_ends_with_the_job(battered: System, desks: Desks) -> None:
    async with battered.watch("pool-a") as watch:
        await watch.apply(desks.policy())
        ada = desks.bailiff(
            "ada", "submit", "--interactive", "--name", JOB, "--gpus", "1", "--env", "PS1=ready> ", "--", "sh", "-i"
        )
        await watch.until_running(JOB)
        ada.until("ready> ")
        say(ada, "hello")

        ada.type("stty size; tty\r")
        ada.until("30 100")
        ada.until("/dev/pts/")
        ada.resize(40, 120)
        ada.type('until [ "$(stty size)" = "40 120" ]; do sleep 0.05; done\r')
        say(ada, "resized")

        ada.type("exec 3<&0; cat\r")
        ada.type("swallowed\r")
        ada.until("swallowed\r\nswallowed")
        ada.type("\x03")
        ada.until("ready> ")
        say(ada, "interrupted")

        elsewhere = desks.bailiff("ada", "attach", JOB)
        elsewhere.until("interrupted")  # what was printed before is shown again
        say(elsewhere, "from-elsewhere")
        ada.until("from-elsewhere")
        elsewhere.type("\x10\x11")
        assert elsewhere.ended() == 0
        assert elsewhere.is_restored

        bob = desks.bailiff("bob", "attach", JOB)
        assert bob.ended() == 3, bob.screen
        assert "may not attach to" in bob.screen
        assert (await watch.record(InputRejected, code="not-permitted", job=JOB)).rule == "permissions.attach"

        shown = desks.bailiff("ada", "describe", JOB, "--spec")
        assert shown.ended() == 0, shown.screen
        assert "sh -i" in shown.screen
        again = desks.bailiff("ada", "resubmit", JOB, "--dry-run", "--no-tty")
        assert again.ended() == 0, again.screen
        assert "PS1" in again.screen
        denied = desks.bailiff("bob", "describe", JOB, "--spec")
        assert denied.ended() == 3, denied.screen
        assert "may not read the command" in denied.screen

        battered.kill_and_restart(AGENT)
        ada.until("attaching again")
        await watch.record(AttachEnded, reason="agent-restarted", job=JOB)
        say(ada, "still-here")

        ada.type("exit 7\r")
        assert ada.ended() == 7, ada.screen
        assert ada.is_restored
        await watch.until_ended(JOB, "failed")
        await check_records(watch)
        logs = desks.bailiff("ada", "logs", JOB)
        logs.until("still-here")
        verified = desks.bailiff("ada", "audit", "verify")
        assert verified.ended() == 0, verified.screen
        await watch.apply(POLICY)


async def test_a_job_too_short_to_attach_to_shows_its_output_and_ends_with_its_exit_code(battered: System, desks: Desks) -> None:
    async with battered.watch("pool-a") as watch:
        await watch.apply(desks.policy())
        ada = desks.bailiff("ada", "submit", "--interactive", "--name", "short", "--", "sh", "-c", "echo so short; exit 4")
        assert ada.ended() == 4, ada.screen
        assert "so short" in ada.screen
        await watch.apply(POLICY)


async def test_a_shell_beside_a_batch_job_is_its_owners_and_ends_with_the_job(battered: System, desks: Desks) -> None:
    async with battered.watch("pool-a") as watch:
        await watch.apply(desks.policy())
        submitted = desks.bailiff("ada", "submit", "--name", "batch-1", "--gpus", "1", "--env", "LR=0.1", "--", "sleep", "600")
        assert submitted.ended() == 0, submitted.screen
        await watch.until_running("batch-1")
        attach = desks.bailiff("ada", "attach", "batch-1")
        assert attach.ended() == 3, attach.screen
        assert "the task has no terminal" in attach.screen

        ada = desks.bailiff("ada", "shell", "batch-1")
        await watch.record(AttachStarted, job="batch-1")
        ada.type("echo LR=$LR in $BAILIFF_TASK of $(stty size)\r")
        ada.until("LR=0.1 in batch-1-1-0 of 30 100")
        say(ada, "whispered")
        await watch.record(AttachGranted, shell=True, job="batch-1")

        bob = desks.bailiff("bob", "shell", "batch-1")
        assert bob.ended() == 3, bob.screen
        assert "may not attach to" in bob.screen

        leaving = desks.bailiff("ada", "shell", "batch-1")
        say(leaving, "briefly")
        leaving.type("exit\r")
        assert leaving.ended() == 0, leaving.screen
        assert leaving.is_restored
        await watch.record(AttachEnded, reason="detached", job="batch-1")
        assert watch.running("batch-1")

        cancelled = desks.bailiff("ada", "cancel", "batch-1")
        assert cancelled.ended() == 0, cancelled.screen
        assert ada.ended() == 0, ada.screen
        assert ada.is_restored
        await watch.until_ended("batch-1", "cancelled")
        assert not any(b"whispered" in entry.wire.value for entry in watch.entries)
        await watch.apply(POLICY)


async def check_records(watch: Watch) -> None:
    """Who was attached, and from when to when; nothing of what was typed or shown."""
    await watch.record(AttachEnded, reason="task-ended", job=JOB)
    grants = [entry.record for entry in watch.entries if isinstance(entry.record.data, AttachGranted)]
    ends = {data.grant: data.reason for data in watch.facts(AttachEnded, job=JOB)}
    assert {record.actor for record in grants} == {"ada"}
    assert {record.auth for record in grants} == {"signed"}
    assert [ends[record.seq] for record in grants if record.seq in ends][:2] == ["agent-restarted", "detached"]
    assert {data.grant for data in watch.facts(AttachStarted, job=JOB)} <= ends.keys()
    assert watch.facts(TaskExited, job=JOB, exit_code=7)
    for word in (b"still-here", b"swallowed", b"stty"):
        assert not any(word in entry.wire.value for entry in watch.entries)


async def test_a_preemption_ends_the_terminal_with_a_notice_and_the_jobs_exit_code(
    battered: System, desks: Desks, tmp_path: Path
) -> None:
    """An operator is attached to her job, too. One of them leaves by a signal, and gets the terminal back as it was."""
    async with battered.watch("pool-a") as watch:
        await watch.apply(desks.policy("ops"))
        shell = "trap 'exit 0' TERM; echo started; while :; do sleep 0.1; done"
        ada = desks.bailiff(
            "ada",
            "submit",
            "--tty",
            "--name",
            "shell-2",
            "--gpus",
            "8",
            "--class",
            "train",
            "--grace",
            "5s",
            "--",
            "sh",
            "-c",
            shell,
        )
        assert ada.ended() == 0, ada.screen
        await watch.until_running("shell-2")
        ada = desks.bailiff("ada", "attach", "shell-2")
        ada.until("started")
        operator = desks.bailiff("ops", "attach", "shell-2")
        operator.until("started")
        leaves = desks.bailiff("ada", "attach", "shell-2")
        leaves.until("started")
        leaves.process.send_signal(signal.SIGTERM)
        assert leaves.ended() == 128 + signal.SIGTERM, leaves.screen
        assert leaves.is_restored
        await watch.until("three are granted", lambda _: len(watch.facts(AttachGranted, job="shell-2")) == 3)

        urgent = desks.bailiff(
            "ops", "submit", "--name", "serve-all", "--gpus", "8", "--class", "inference", "--", "sleep", "1000"
        )
        assert urgent.ended() == 0, urgent.screen
        for program in (ada, operator):
            program.until("[bailiff]")
            program.until("serve-all")  # whose job it is for
            assert program.ended() == 0, program.screen  # its command's, which handled TERM; the job is queued again
            assert program.is_restored
        await watch.until_running("serve-all")
        assert watch.job("shell-2").phase == "pending"
        actors = [entry.record.actor for entry in watch.entries if isinstance(entry.record.data, AttachGranted)]
        assert actors[-3:] == ["ada", "ops", "ada"]
        late = desks.bailiff("ada", "attach", "shell-2")
        assert late.ended() == 3, late.screen
        assert "you can attach only to a running task" in late.screen
        assert desks.bailiff("ops", "cancel", "shell-2", "serve-all").ended() == 0
        await watch.until_ended("shell-2", "cancelled")
        await watch.until_ended("serve-all", "cancelled")
        before = tmp_path / "policy.yaml"
        before.write_text(yaml.safe_dump(POLICY.to_data()))
        applied = desks.bailiff("ops", "policy", "apply", str(before), "--yes")
        assert applied.ended() == 0, applied.screen

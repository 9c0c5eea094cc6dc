"""The training scripts of the guides, run as they stand: preempted, started again, the same weights in the end.

Those of frameworks need a Python that has them: `make test-long` installs one, or BAILIFF_TEST_FRAMEWORKS names one.
"""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.kits.job_node import STEP, GangOfNodes, JobNode

from bailiff_devstack.ports import free_port

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "docs/jobs"
FRAMEWORKS = Path(os.environ.get("BAILIFF_TEST_FRAMEWORKS", ROOT / ".venv-frameworks/bin/python"))
PATIENCE_S = 300


def frameworks() -> str:
    if not FRAMEWORKS.exists():
        pytest.skip(f"no Python with PyTorch, Transformers and Lightning at {FRAMEWORKS}: run make test-long")
    return str(FRAMEWORKS)


class Attempts:
    """One job, attempt after attempt."""

    def __init__(self, folder: Path, arguments: list[str]) -> None:
        self.folder, self.arguments = folder, arguments
        self.kept = folder / "kept"
        (folder / "bin").mkdir(parents=True)
        command = folder / "bin/bailiff-job"
        command.write_text(f'#!/bin/sh\nexec {sys.executable} -m bailiff_job "$@"\n')
        command.chmod(0o755)
        self.env = {name: value for name, value in os.environ.items() if not name.startswith(("BAILIFF", "RANK", "WORLD"))}
        self.env |= {
            "PYTHONPATH": str(ROOT / "libs/job"),
            "PATH": f"{folder / 'bin'}:{self.env['PATH']}",
            "OMP_NUM_THREADS": "1",
            "CUDA_VISIBLE_DEVICES": "",
            "HF_HUB_OFFLINE": "1",
        }

    @contextmanager
    def running(self, place: str, attempt: int | None = None, node: JobNode | None = None, **more: str) -> Iterator[Any]:
        """Outside Bailiff where there is no attempt."""
        where = self.folder / place
        where.mkdir(exist_ok=True)
        env = self.env
        if attempt is not None:
            env = {
                **env,
                "BAILIFF_JOB_ID": "train-7",
                "BAILIFF_ATTEMPT": str(attempt),
                "BAILIFF_CHECKPOINT_DIR": str(self.kept),
                "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "60",
            }
        if node is not None:
            env = {**env, "BAILIFF_CONTROL_DIR": str(node.control), "BAILIFF_SOCKET": str(node.control / "socket")}
        output = (where / f"output-{attempt}-{more.get('RANK', 0)}").open("w+")
        process = subprocess.Popen(
            self.arguments, cwd=where, env={**env, **more}, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            yield process, output
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            output.close()

    def end(self, running: tuple[Any, Any], code: int) -> str:
        process, output = running
        got = process.wait(PATIENCE_S)
        output.seek(0)
        text = str(output.read())
        assert got == code, text
        return text

    def weights(self, *arguments: Any, **more: Any) -> str:
        """What an attempt that ran to its end came to."""
        with self.running(*arguments, **more) as running:
            found = re.findall(r"^weights (\S+)$", self.end(running, 0), re.MULTILINE)
        assert len(found) == 1
        return str(found[0])


@contextmanager
def node_in(folder: Path) -> Iterator[JobNode]:
    node = JobNode(folder)
    try:
        yield node
    finally:
        node.close()


STAGES = ["resumed", "acknowledged", "checkpoint_started", "checkpoint_committed", "yielding"]


def preempted_twice(attempts: Attempts, *, at: tuple[int, int], code: int = 85) -> None:
    """The weights are those of a run that was left alone, to the last bit."""
    alone = attempts.weights("alone")
    for attempt, step in enumerate(at, 1):
        with node_in(attempts.folder / f"node-{attempt}") as node, attempts.running("under", attempt, node) as running:
            node.wait_for(lambda: node.word(STEP) >= step or running[0].poll() is not None, PATIENCE_S)  # noqa: B023
            node.notice(agreed=0)
            text = attempts.end(running, code)
            stages = [stage for stage in node.stages() if stage != "saving_in_flight"]
            assert stages[0] == "resumed", text
            assert "acknowledged" in stages[:-2], text
            assert stages[-2:] == STAGES[-2:], text
            (resumed,) = node.messages("resumed")
            assert resumed["from_attempt"] == (attempt - 1 or None), text
            assert node.messages("checkpoint_committed")[-1]["step"] == node.word(STEP)
    assert attempts.weights("under", len(at) + 1) == alone


def test_bare_python(tmp_path: Path) -> None:
    preempted_twice(Attempts(tmp_path, [sys.executable, str(SCRIPTS / "train.py"), "1000000"]), at=(1000, 20_000))


@pytest.mark.long
def test_shell(tmp_path: Path) -> None:
    preempted_twice(Attempts(tmp_path, ["sh", str(SCRIPTS / "train.sh"), "12"]), at=(2, 6))


@pytest.mark.long
def test_pytorch(tmp_path: Path) -> None:
    preempted_twice(Attempts(tmp_path, [frameworks(), str(SCRIPTS / "train_torch.py"), "3000"]), at=(100, 1000))


@pytest.mark.long
def test_hugging_face(tmp_path: Path) -> None:
    preempted_twice(Attempts(tmp_path, [frameworks(), str(SCRIPTS / "train_huggingface.py"), "200"]), at=(10, 80))


@pytest.mark.long
def test_lightning(tmp_path: Path) -> None:
    preempted_twice(Attempts(tmp_path, [frameworks(), str(SCRIPTS / "train_lightning.py"), "600"]), at=(20, 200))


@pytest.mark.long
@pytest.mark.parametrize("ranks", [2, 4])
def test_torchrun_with_all_ranks_in_one_task(tmp_path: Path, ranks: int) -> None:
    arguments = [
        *(frameworks(), "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)),
        *(str(SCRIPTS / "train_ddp.py"), "300"),
    ]
    preempted_twice(Attempts(tmp_path, arguments), at=(10, 120), code=1)  # torchrun makes 1 of every worker's code


@pytest.mark.long
def test_the_ranks_that_are_measured_on_a_gpu(tmp_path: Path) -> None:
    """Two ranks of `make test-gpu`, here on the CPU: preempted at one step, both restored, weights as computed."""
    arguments = [
        *(frameworks(), "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"),
        *(str(ROOT / "tests/gpu/ranks.py"), str(tmp_path), "0.001"),
    ]
    attempts = Attempts(tmp_path, arguments)
    with node_in(tmp_path / "node") as node, attempts.running("under", 1, node) as running:
        node.wait_for(lambda: node.word(STEP) >= 10 or running[0].poll() is not None, PATIENCE_S)
        node.notice(agreed=0)
        attempts.end(running, 1)
        saved = node.messages("checkpoint_committed")[-1]["step"]
    assert not [*tmp_path.glob("same-*")]
    with node_in(tmp_path / "node-2") as node, attempts.running("under", 2, node) as running:
        attempts.end(running, 0)
        assert node.messages("resumed")[0]["step"] == saved + 1  # the first step that is not in the checkpoint
    assert [(tmp_path / f"same-{rank}").read_text() for rank in (0, 1)] == ["True", "True"]


@pytest.mark.long
@pytest.mark.parametrize("workers", [1, 2])
def test_a_gang_on_two_nodes(tmp_path: Path, workers: int) -> None:
    """The nodes agree on the step: with a task of one rank on each, and with a torchrun of two ranks on each."""
    script = [str(SCRIPTS / "train_ddp.py"), "300"]
    torchrun = ["-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", str(workers)]
    code = 85 if workers == 1 else 1

    def weights_of(attempts: list[Attempts], attempt: int | None) -> str:
        with both(attempts, attempt, None) as running:
            texts = [each.end(process, 0) for each, process in zip(attempts, running, strict=True)]
        return str(re.findall(r"^weights (\S+)$", "".join(texts), re.MULTILINE)[0])

    @contextmanager
    def both(attempts: list[Attempts], attempt: int | None, nodes: list[JobNode] | None) -> Iterator[list[Any]]:
        port = str(free_port())
        with ExitStack() as stack:
            running = []
            for rank, each in enumerate(attempts):
                if workers > 1:
                    place = ["--node-rank", str(rank), "--master-addr", "127.0.0.1", "--master-port", port]
                    each.arguments = [frameworks(), *torchrun, *place, *script]
                env = {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
                node = nodes[rank] if nodes else None
                running.append(stack.enter_context(each.running(f"place-{attempt}", attempt, node, **env)))
            yield running

    attempts = [Attempts(tmp_path / f"machine-{rank}", [frameworks(), *script]) for rank in range(2)]
    for each in attempts:
        each.kept = tmp_path / "kept"  # a directory that all members see
    alone = weights_of(attempts, None)
    with node_in(tmp_path / "node-a") as a, node_in(tmp_path / "node-b") as b:
        with both(attempts, 1, [a, b]) as running:
            a.wait_for(lambda: min(a.word(STEP), b.word(STEP)) >= 30 or running[0][0].poll() is not None, PATIENCE_S)
            gang = GangOfNodes(a, b)
            gang.notice()
            gang.propose()
            a.wait_for(lambda: gang.reconcile() is not None, PATIENCE_S)
            texts = [each.end(process, code) for each, process in zip(attempts, running, strict=True)]
        assert a.messages("checkpoint_committed")[-1]["step"] == b.messages("checkpoint_committed")[-1]["step"], texts
        assert a.stages()[-4:] == b.stages()[-4:] == STAGES[-4:], texts
    assert weights_of(attempts, 2) == alone


def test_the_page_shows_the_scripts_that_are_run() -> None:
    shown = "".join((ROOT / f"docs/how-to/{name}.md").read_text() for name in ("survive-preemption", "frameworks"))
    for script in sorted(SCRIPTS.iterdir()):
        assert script.read_text().strip() in shown, f"the guides show another text than {script.name}"

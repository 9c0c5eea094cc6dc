"""One process and its notice: acknowledged, saved at the next step, exited; or cancelled, or too late."""

import logging
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from tests.kits.job_node import AGREED, NOTICE, PACE, STEP, JobNode
from tests.kits.job_ranks import Training, expected, place

import bailiff_job
from bailiff_job import Job


def job(directory: Path, node: JobNode | None = None, **more: Any) -> Job:
    placed = {name: more.pop(name) for name in ("attempt", "rank", "world_size") if name in more}
    return Job(place(directory / "checkpoints", node, **placed), **more)


def test_outside_bailiff_it_does_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BAILIFF_JOB_ID", raising=False)
    monkeypatch.chdir(tmp_path)
    training = Training(bailiff_job.attach())
    assert not training.run(10)
    assert training.weight == expected(10)
    assert not training.job.preempted
    assert training.job.notice is None
    assert training.job.checkpoint(9, training.save) is None
    assert list(tmp_path.iterdir()) == []
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_outside_bailiff_it_keeps_checkpoints_in_the_given_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BAILIFF_JOB_ID", raising=False)
    for total in (10, 25):
        training = Training(bailiff_job.attach(tmp_path / "kept", every_steps=5))
        training.run(total)
        assert training.weight == expected(total)
    assert [path.name for path in sorted((tmp_path / "kept").glob("*/step-*"))] == ["step-00000019", "step-00000024"]


def test_the_rank_comes_from_the_environment(tmp_path: Path, node: JobNode, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "BAILIFF_JOB_ID": "train-7",
        "BAILIFF_ATTEMPT": "3",
        "BAILIFF_CONTROL_DIR": str(node.control),
        "RANK": "0",
        "BAILIFF_SOCKET": str(node.control / "socket"),
        "BAILIFF_CHECKPOINT_DIR": str(tmp_path / "c"),
        "WORLD_SIZE": "1",
        "LOCAL_WORLD_SIZE": "2",
        "LOCAL_RANK": "1",  # two tasks of one machine, each with a directory of its own
    }.items():
        monkeypatch.setenv(name, value)
    attached = bailiff_job.attach("elsewhere")
    assert node.messages() == [{"type": "hello", "v": 1, "rank": 0, "pid": os.getpid()}]
    assert (attached.rank_env.attempt, attached.rank_env.checkpoints, attached.rank_env.workers) == (3, tmp_path / "c", 1)
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")  # two processes of one task
    assert (bailiff_job.attach().rank_env.worker, bailiff_job.attach().rank_env.workers) == (1, 2)
    monkeypatch.setenv("BAILIFF_ATTEMPT", "third")
    with pytest.raises(ValueError, match="BAILIFF_ATTEMPT='third' is not a whole number"):
        bailiff_job.attach()


def test_preempted_and_back_without_losing_a_step(tmp_path: Path, node: JobNode) -> None:
    first = Training(job(tmp_path, node))
    assert first.run(100, before=lambda step: node.notice(agreed=0) if step == 30 else None)
    assert first.step == 31
    with pytest.raises(SystemExit) as left:
        first.job.exit()
    assert left.value.code == 85
    assert node.stages() == ["resumed", "acknowledged", "checkpoint_started", "checkpoint_committed", "yielding"]
    (committed,) = node.messages("checkpoint_committed")
    assert (committed["step"], committed["agreed"], committed["bytes"]) == (30, True, len("465"))
    assert len(committed["sha256"]) == 64
    assert node.word(STEP) == 30

    second = Training(job(tmp_path, None, attempt=2))
    assert not second.run(100)
    assert second.weight == expected(100)


def test_what_it_resumed_from_is_messages(tmp_path: Path, node: JobNode) -> None:
    first = Training(job(tmp_path))
    for _ in range(3):
        first.job.checkpoint(first.one_step(), first.save)
    newest = tmp_path / "checkpoints/attempt-0001/step-00000002/weight.json"
    newest.write_text("999")
    assert Training(job(tmp_path, node, attempt=2)).restore() == 2
    assert node.messages("resumed") == [{"type": "resumed", "step": 2, "from_attempt": 1, "skipped_checkpoints": 1}]
    assert node.word(STEP) == 1


def test_it_continues_when_the_eviction_is_cancelled(tmp_path: Path, node: JobNode) -> None:
    def events(step: int) -> None:
        if step in (30, 60):
            node.notice(agreed=0)

    training = Training(job(tmp_path, node))
    while not training.job.preempted:
        events(training.step)
        step = training.one_step()
        if training.job.should_checkpoint(step):
            training.job.checkpoint(step, training.save)
            if step == 30:
                node.cancel_eviction()
    assert training.step == 61
    assert [each["step"] for each in node.messages("acknowledged")] == [30, 60]


def test_a_notice_that_comes_while_it_saves_needs_no_second_save(tmp_path: Path, node: JobNode) -> None:
    training = Training(job(tmp_path, node, every_steps=10))

    def save(folder: Path) -> None:
        training.save(folder)
        node.notice(agreed=0)

    training.step = 9
    step = training.one_step()
    assert training.job.should_checkpoint(step)
    training.job.checkpoint(step, save)
    assert training.job.preempted
    assert not training.job.should_checkpoint(step)
    assert node.stages() == ["checkpoint_started", "checkpoint_committed", "acknowledged"]


def test_preempted_only_once_the_last_step_is_saved(tmp_path: Path, node: JobNode) -> None:
    training = Training(job(tmp_path, node))
    training.job.checkpoint(training.one_step(), training.save)
    training.job.should_checkpoint(training.one_step())
    node.notice(agreed=0)
    assert not training.job.preempted
    assert training.job.should_checkpoint(training.one_step())


def test_the_notice_has_its_reason_and_deadlines(tmp_path: Path, node: JobNode) -> None:
    attached = job(tmp_path, node)
    node.notice(soft_s=60, hard_s=90)
    notice = attached.notice
    assert notice is not None
    assert (notice.reason, notice.preemptor) == ("preempted", "serve-1")
    assert notice.hard_deadline_ns - notice.soft_deadline_ns == 30_000_000_000


class TestIntervals:
    def test_every_so_many_steps_also_after_a_restart(self, tmp_path: Path) -> None:
        attached = job(tmp_path, every_steps=10)
        assert [step for step in range(35) if attached.should_checkpoint(step) and saved(attached, step)] == [9, 19, 29]
        again = job(tmp_path, every_steps=10, attempt=2)
        assert again.restore(lambda folder: None) == 30
        assert [step for step in range(30, 55) if again.should_checkpoint(step) and saved(again, step)] == [39, 49]

    def test_called_rarely_it_is_due_at_the_next_call(self, tmp_path: Path) -> None:
        attached = job(tmp_path, every_steps=10)
        looks = range(6, 60, 7)
        assert [step for step in looks if attached.should_checkpoint(step) and saved(attached, step)] == [13, 20, 34, 41, 55]

    def test_an_interval_in_seconds_is_on_the_monotonic_clock(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        now = [1000.0]
        for module in ("job", "store", "workers", "control_socket"):
            monkeypatch.setattr(f"bailiff_job.{module}.monotonic", lambda: now[0])
        attached = job(tmp_path, every_s=60)
        due = []
        for step in range(50):
            now[0] += 5
            if attached.should_checkpoint(step):
                saved(attached, step)
                due.append(step)
        assert due == [11, 23, 35, 47]

    def test_seconds_are_refused_to_a_gang(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="at different steps; use every_steps"):
            job(tmp_path, world_size=2, every_s=60)
        with pytest.raises(ValueError, match="every_steps=0"):
            job(tmp_path, every_steps=0)


def saved(attached: Job, step: int) -> bool:
    attached.checkpoint(step, lambda folder: None)
    return True


class TestProgress:
    def test_is_on_the_board_at_once_and_messages_now_and_then(
        self, tmp_path: Path, node: JobNode, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        now = [1000.0]
        monkeypatch.setattr("bailiff_job.job.monotonic", lambda: now[0])
        attached = job(tmp_path, node)
        for step in range(100):
            now[0] += 0.5
            attached.progress(step, 100)
            assert node.word(STEP) == step
        assert [each["step"] for each in node.messages("progress")] == [0, 20, 40, 60, 80, 99]
        assert node.word(PACE) == 2000

    def test_a_node_that_hangs_costs_one_wait_and_then_a_rest(
        self, tmp_path: Path, node: JobNode, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        node.close()
        with caplog.at_level(logging.WARNING):
            attached = job(tmp_path, node)
            for step in range(100):
                attached.progress(step, 1000)
        assert caplog.text.count("was not delivered to the node") == 1


class TestFallbacks:
    def test_without_a_socket_the_board_is_enough(self, tmp_path: Path) -> None:
        node = JobNode(tmp_path, socket=False)
        training = Training(job(tmp_path, node))
        assert training.run(100, before=lambda step: node.notice(agreed=0) if step == 30 else None)
        assert training.step == 31

    def test_without_a_board_the_notice_file_is_read(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        now = [1000.0]
        monkeypatch.setattr("bailiff_job.job.monotonic", lambda: now[0])
        node = JobNode(tmp_path, socket=False, steps=False)

        def events(step: int) -> None:
            now[0] += 0.1
            if step == 30:
                node.notice()

        training = Training(job(tmp_path, node))
        assert training.run(100, before=events)
        assert 31 <= training.step <= 36

    def test_a_notice_file_that_went_again_is_no_notice(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        now = [1000.0]
        monkeypatch.setattr("bailiff_job.job.monotonic", lambda: now[0])
        node = JobNode(tmp_path, socket=False, steps=False)
        attached = job(tmp_path, node)
        node.notice()
        now[0] += 1
        assert attached.should_checkpoint(0)
        node.cancel_eviction()
        now[0] += 1
        assert not attached.should_checkpoint(1)

    def test_term_is_the_last_notice(self, tmp_path: Path) -> None:
        training = Training(job(tmp_path))

        def events(step: int) -> None:
            if step == 30:
                os.kill(os.getpid(), signal.SIGTERM)

        assert training.run(100, before=events)
        assert training.step == 31
        assert Training(job(tmp_path, attempt=2)).restore() == 31

    def test_a_script_that_has_its_own_way_with_term_keeps_it(self, tmp_path: Path) -> None:
        def mine(number: int, frame: object) -> None:
            """Of the script."""

        signal.signal(signal.SIGTERM, mine)
        job(tmp_path)
        assert signal.getsignal(signal.SIGTERM) is mine

    def test_a_board_of_another_format_is_left_alone(self, tmp_path: Path, node: JobNode) -> None:
        node.write(7, 2)
        node.write(NOTICE, 1)
        node.write(AGREED, 0)
        assert not job(tmp_path, node).should_checkpoint(3)


def test_past_the_soft_deadline_one_rank_still_saves_and_may_be_restored(tmp_path: Path, node: JobNode) -> None:
    training = Training(job(tmp_path, node))
    assert training.run(100, before=lambda step: node.notice(soft_s=0, hard_s=30) if step == 30 else None)
    assert node.messages("checkpoint_committed")[0]["agreed"] is True
    assert Training(job(tmp_path, attempt=2)).restore() == 31


class TestAsync:
    def test_a_checkpoint_counts_from_its_commit_and_exit_waits_for_it(self, tmp_path: Path, node: JobNode) -> None:
        training = Training(job(tmp_path, node))
        may_write = threading.Event()

        def save(folder: Path) -> Any:
            weight = training.weight

            def rest() -> None:
                assert may_write.wait(30)
                (folder / "weight.json").write_text(str(weight))

            return rest

        training.step = 5
        node.notice(agreed=0)
        step = training.one_step()
        assert training.job.should_checkpoint(step)
        training.job.checkpoint(step, save, wait=False)
        training.weight = -1  # training continues
        assert node.stages() == ["acknowledged", "checkpoint_started", "saving_in_flight"]
        assert training.job.preempted
        threading.Timer(0.05, may_write.set).start()
        with pytest.raises(SystemExit):
            training.job.exit()
        assert node.stages()[3:] == ["checkpoint_committed", "yielding"]
        again = Training(job(tmp_path, attempt=2))
        assert (again.restore(), again.weight) == (6, 5)

    def test_the_acknowledgement_is_followed_by_what_is_being_saved(self, tmp_path: Path, node: JobNode) -> None:
        training = Training(job(tmp_path, node))
        saving = training.job.begin_checkpoint(training.one_step())
        node.notice(agreed=0)
        assert training.job.should_checkpoint(training.one_step())
        assert node.stages() == ["checkpoint_started", "acknowledged", "saving_in_flight"]
        assert node.messages("saving_in_flight")[0]["step"] == 0
        training.save(saving.folder)
        checkpoint = saving.commit()
        assert saving.done
        assert saving.commit() is checkpoint
        assert node.messages("checkpoint_committed")[0]["step"] == 0

    def test_nothing_counts_before_the_commit_nor_after_it_was_abandoned(self, tmp_path: Path) -> None:
        training = Training(job(tmp_path))
        saving = training.job.begin_checkpoint(training.one_step())
        training.save(saving.folder)
        assert Training(job(tmp_path, attempt=1)).job._store.latest() == (None, 0)  # type: ignore[union-attr]
        saving.abandon()
        assert not saving.folder.exists()
        with pytest.raises(ValueError, match="was abandoned"):
            saving.commit()

    def test_a_failure_in_the_thread_is_raised_at_the_next_save(self, tmp_path: Path) -> None:
        training = Training(job(tmp_path))

        def save(folder: Path) -> Any:
            def rest() -> None:
                raise OSError(28, "No space left on device")

            return rest

        training.job.checkpoint(training.one_step(), save, wait=False)
        with pytest.raises(OSError, match="No space left"):
            training.job.checkpoint(training.one_step(), training.save)
        training.job.checkpoint(training.one_step(), training.save)
        assert Training(job(tmp_path, attempt=2)).restore() == 3


def test_a_save_that_fails_leaves_the_one_before_and_the_job_saves_again(tmp_path: Path, node: JobNode) -> None:
    training = Training(job(tmp_path, node))
    training.job.checkpoint(training.one_step(), training.save)

    def full(folder: Path) -> None:
        training.save(folder)
        raise OSError(28, "No space left on device")

    node.notice(agreed=0)
    step = training.one_step()
    assert training.job.should_checkpoint(step)
    with pytest.raises(OSError, match="No space left"):
        training.job.checkpoint(step, full)
    assert not training.job.preempted
    assert training.job.should_checkpoint(training.one_step())
    assert node.stages()[-1] == "checkpoint_started"
    assert not list(tmp_path.rglob(".tmp-*"))
    assert Training(job(tmp_path, attempt=2)).restore() == 1


def test_one_that_cannot_save_exits_after_the_soft_deadline(tmp_path: Path, node: JobNode) -> None:
    training = Training(job(tmp_path, node))
    node.notice(soft_s=0, hard_s=30, agreed=0)
    step = training.one_step()
    assert training.job.should_checkpoint(step)
    with pytest.raises(ZeroDivisionError):
        training.job.checkpoint(step, lambda folder: 1 // 0)
    assert training.job.preempted


def test_no_wall_clock_anywhere() -> None:
    """Setting the machine's clock changes nothing: the package reads only the clocks that `clock` has."""
    package = Path(bailiff_job.__file__).parent
    for path in package.rglob("*.py"):
        text = path.read_text()
        assert "time.time" not in text
        assert "datetime" not in text
        assert path.name == "clock.py" or "time.monotonic" not in text
    assert abs(bailiff_job.clock.boottime_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME)) < 10**9  # type: ignore[attr-defined]

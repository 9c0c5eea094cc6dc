"""All ranks save the same step: over several nodes, in one task of several processes, and both at once."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.kits.job_node import AGREED, CONFIRMED, PROPOSED, SOFT_DEADLINE, STEP, GangOfNodes, JobNode
from tests.kits.job_ranks import Training, expected, place

from bailiff_job import Job
from bailiff_job.shared_steps import detached_steps
from bailiff_job.step_barrier import StepBarrier, Verdict


class TestOneRank:
    """What one rank writes on the board, step by step."""

    def setup_method(self) -> None:
        self.board = detached_steps()
        self.rank = StepBarrier(self.board)

    def decide(self, step: int) -> Verdict:
        return self.rank.decide(step, overdue=False)

    def test_continues_until_a_step_is_proposed(self) -> None:
        assert self.decide(10) is Verdict.CONTINUE
        assert self.board[CONFIRMED] == -1

    def test_confirms_and_saves_there(self) -> None:
        self.board[PROPOSED] = 12
        assert self.decide(10) is Verdict.CONTINUE
        assert self.board[CONFIRMED] == 12
        self.board[AGREED] = 12
        assert [self.decide(11), self.decide(12)] == [Verdict.CONTINUE, Verdict.CHECKPOINT]

    def test_does_not_pass_its_confirmed_step_before_the_answer(self) -> None:
        self.board[PROPOSED] = 12
        assert [self.decide(step) for step in (10, 11, 12, 12)] == [
            Verdict.CONTINUE,
            Verdict.CONTINUE,
            Verdict.WAIT,
            Verdict.WAIT,
        ]
        self.board[PROPOSED] = 15  # another rank raised it
        assert self.decide(12) is Verdict.CONTINUE
        assert self.board[CONFIRMED] == 15

    def test_one_that_has_done_the_step_confirms_and_waits(self) -> None:
        self.board[PROPOSED] = 12
        assert self.decide(12) is Verdict.WAIT
        assert self.board[CONFIRMED] == 12

    def test_one_that_has_passed_the_step_confirms_a_higher_one(self) -> None:
        self.board[PROPOSED] = 12
        assert self.decide(13) is Verdict.CONTINUE
        assert self.board[CONFIRMED] == 15
        assert [self.decide(14), self.decide(15)] == [Verdict.CONTINUE, Verdict.WAIT]
        self.board[PROPOSED] = 15
        assert self.decide(15) is Verdict.WAIT
        assert self.board[CONFIRMED] == 15
        self.board[AGREED] = 15
        assert self.decide(15) is Verdict.CHECKPOINT

    @pytest.mark.parametrize(("word", "step", "then"), [(PROPOSED, 14, Verdict.CONTINUE), (AGREED, 12, Verdict.CHECKPOINT)])
    def test_one_that_waits_for_long_requests_a_later_step_without_passing_its_own(
        self, word: int, step: int, then: Verdict
    ) -> None:
        """Another rank may not have looked since the proposal, and wait for this one in the middle of its next step."""
        self.board[PROPOSED] = 12
        assert self.decide(12) is Verdict.WAIT
        self.rank.request_later_step(12)
        assert (self.decide(12), self.board[CONFIRMED]) == (Verdict.WAIT, 14)
        self.board[word] = step
        assert self.decide(12) is then

    def test_one_that_checks_rarely_waits_at_its_first_check_past_its_confirmed_step(self) -> None:
        self.board[PROPOSED] = 12
        assert [self.decide(10), self.decide(20)] == [Verdict.CONTINUE, Verdict.WAIT]
        assert self.board[CONFIRMED] == 12

    def test_saves_without_agreement_when_time_is_up(self) -> None:
        self.board[PROPOSED] = 12
        assert self.rank.decide(10, overdue=True) is Verdict.CHECKPOINT_UNAGREED
        self.board[AGREED] = 12
        assert self.rank.decide(10, overdue=True) is Verdict.CONTINUE


class Ranks:
    """Ranks that run in threads and meet after each step, as training with all-reduce does."""

    def __init__(self, jobs: list[Job]) -> None:
        self.trainings = [Training(job, rank=rank) for rank, job in enumerate(jobs)]
        self.met = threading.Barrier(len(jobs))
        self.ran_out = threading.Event()

    def run(self, total: int, pause: Callable[[int, int], float] = lambda rank, step: 0.0) -> list[bool]:
        with ThreadPoolExecutor(len(self.trainings)) as pool:
            runs = [pool.submit(self._run, training, total, pause) for training in self.trainings]
            return [run.result(60) for run in runs]

    def _run(self, training: Training, total: int, pause: Callable[[int, int], float]) -> bool:
        def meet(step: int) -> None:
            time.sleep(pause(training.rank, step))
            self.met.wait(30)

        try:
            return training.run(total, before=meet)
        except BaseException:
            self.met.abort()
            raise


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[list[JobNode]]:
    nodes = [JobNode(tmp_path / f"node-{number}") for number in range(3)]
    yield nodes
    for node in nodes:
        node.close()


def agreeing(gang: GangOfNodes, *, until: threading.Event, from_step: int = 0) -> threading.Thread:
    """The nodes, at work in a thread: notice at a step, a proposal, and what the ranks answer."""

    def work() -> None:
        while gang.nodes[0].word(STEP) < from_step and not until.is_set():
            time.sleep(0.0005)
        gang.notice()
        gang.propose()
        while not until.is_set() and gang.reconcile() is None:
            time.sleep(0.002)

    thread = threading.Thread(target=work)
    thread.start()
    return thread


@pytest.mark.parametrize("margin", [2, 0, -3])
def test_ranks_on_three_nodes_save_one_step_whatever_was_proposed(nodes: list[JobNode], tmp_path: Path, margin: int) -> None:
    """With a margin too small the ranks raise it."""
    gang, over = GangOfNodes(*nodes), threading.Event()
    gang.MARGIN = margin
    ranks = Ranks([Job(place(tmp_path / "c", node, rank=rank, world_size=3)) for rank, node in enumerate(nodes)])
    thread = agreeing(gang, until=over, from_step=20)
    try:
        left = ranks.run(5000, lambda rank, step: 0.001)
    finally:
        over.set()
        thread.join()
    assert left == [True] * 3
    assert len({training.step for training in ranks.trainings}) == 1
    again = Ranks([Job(place(tmp_path / "c", attempt=2, rank=rank, world_size=3)) for rank in range(3)])
    total = ranks.trainings[0].step + 5
    assert again.run(total) == [False] * 3
    assert [training.weight for training in again.trainings] == [expected(total, rank) for rank in range(3)]


def test_the_processes_of_one_task_save_one_step(nodes: list[JobNode], tmp_path: Path) -> None:
    """As torchrun starts them: to the node they are one, and it leaves the step to them."""
    ranks = Ranks([Job(place(tmp_path / "c", nodes[0], rank=rank, world_size=3, worker=rank, workers=3)) for rank in range(3)])

    def pause(rank: int, step: int) -> float:
        if rank == 1 and step == 20:
            nodes[0].notice(agreed=0)
        return 0.0

    assert ranks.run(5000, pause) == [True] * 3
    assert len({training.step for training in ranks.trainings}) == 1
    assert nodes[0].stages() == ["resumed", "acknowledged", "checkpoint_started", "checkpoint_committed"]
    (committed,) = nodes[0].messages("checkpoint_committed")
    assert committed["step"] == ranks.trainings[0].step - 1
    assert committed["bytes"] == sum(len(str(training.weight)) for training in ranks.trainings)
    assert len([1 for _ in (tmp_path / "c/attempt-0001").glob(f"step-{committed['step']:08}.rank-*")]) == 3


def test_two_tasks_of_two_processes_each(nodes: list[JobNode], tmp_path: Path) -> None:
    gang, over = GangOfNodes(*nodes[:2]), threading.Event()
    ranks = Ranks(
        [Job(place(tmp_path / "c", nodes[rank // 2], rank=rank, world_size=4, worker=rank % 2, workers=2)) for rank in range(4)]
    )
    thread = agreeing(gang, until=over, from_step=20)
    try:
        assert ranks.run(5000, lambda rank, step: 0.001) == [True] * 4
    finally:
        over.set()
        thread.join()
    assert len({training.step for training in ranks.trainings}) == 1
    assert nodes[0].word(AGREED) == ranks.trainings[0].step - 1


def test_workers_exit_together_or_not_at_all(nodes: list[JobNode], tmp_path: Path) -> None:
    """Spared between the save and the leaving: all see what the leader sees."""
    node = nodes[0]
    jobs = [Job(place(tmp_path / "c", node, rank=rank, world_size=2, worker=rank, workers=2)) for rank in range(2)]
    ranks, cancelled = Ranks(jobs), []

    def pause(rank: int, step: int) -> float:
        if rank == 1 and step == 20:
            node.notice(agreed=0)
        return 0.0

    save = ranks.trainings[1].save

    def save_and_cancel_eviction(folder: Path) -> None:
        save(folder)
        if not cancelled:
            cancelled.append(True)
            node.cancel_eviction()

    ranks.trainings[1].save = save_and_cancel_eviction  # type: ignore[method-assign]
    left = ranks.run(60, pause)
    assert left[0] == left[1]
    assert len({training.step for training in ranks.trainings}) == 1


def test_without_agreement_past_the_soft_deadline_it_is_saved_and_not_restored(nodes: list[JobNode], tmp_path: Path) -> None:
    jobs = [Job(place(tmp_path / "c", node, rank=rank, world_size=2)) for rank, node in enumerate(nodes[:2])]
    trainings = [Training(job, rank=rank) for rank, job in enumerate(jobs)]
    for training in trainings:
        training.job.checkpoint(training.one_step(), training.save)
    GangOfNodes(*nodes[:2]).notice(soft_s=0, hard_s=30)
    for training in trainings:
        step = training.one_step()
        assert training.job.should_checkpoint(step)
        training.job.checkpoint(step, training.save)
        assert training.job.preempted
    assert [node.messages("checkpoint_committed")[-1]["agreed"] for node in nodes[:2]] == [False, False]
    again = Ranks([Job(place(tmp_path / "c", attempt=2, rank=rank, world_size=2)) for rank in range(2)])
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(Training.restore, again.trainings)) == [1, 1]


def test_a_waiting_rank_is_released_by_cancellation_and_by_the_soft_deadline(nodes: list[JobNode], tmp_path: Path) -> None:
    node = nodes[0]
    job = Job(place(tmp_path / "c", node, rank=0, world_size=2))

    def held(step: int, free: Callable[[], Any]) -> bool:
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(job.should_checkpoint, step)
            node.wait_for(lambda: node.word(CONFIRMED) == step)
            assert not asked.done()
            free()
            return asked.result(30)

    for step, free, answer in (
        (5, node.cancel_eviction, False),
        (6, lambda: node.write(PROPOSED, 9), False),
        (8, lambda: node.write(SOFT_DEADLINE, 1), True),
    ):
        node.notice()
        node.write(PROPOSED, step)
        assert held(step, free) is answer
        if step == 6:
            node.cancel_eviction()
            assert job.should_checkpoint(7) is False


def test_a_notice_after_a_cancelled_one_starts_anew(nodes: list[JobNode], tmp_path: Path) -> None:
    """A step confirmed for the first notice does not count for the second, even without a check in between."""
    node = nodes[0]
    job = Job(place(tmp_path / "c", node, rank=0, world_size=2))
    node.notice()
    node.write(PROPOSED, 10)
    assert not job.should_checkpoint(5)
    node.cancel_eviction()
    node.notice(soft_s=200)
    assert not job.should_checkpoint(50)
    assert node.word(CONFIRMED) == -1
    assert [each["step"] for each in node.messages("acknowledged")] == [5, 50]


def test_a_rank_that_saved_no_file_is_given_rank_zeros_part(tmp_path: Path) -> None:
    """Data-parallel training: all ranks have the same weights, and one saves them."""
    jobs = [Job(place(tmp_path / "c", rank=rank, world_size=2)) for rank in range(2)]
    for rank, job in enumerate(jobs):
        job.checkpoint(3, lambda folder, rank=rank: (folder / "w").write_text("42") if rank == 0 else None)  # type: ignore[misc]
    again = [Job(place(tmp_path / "c", attempt=2, rank=rank, world_size=2)) for rank in range(2)]
    with ThreadPoolExecutor(2) as pool:
        given: list[str] = []
        starts = pool.map(lambda job: job.restore(lambda folder: given.append((folder / "w").read_text())), again)
        assert list(starts) == [4, 4]
    assert given == ["42", "42"]

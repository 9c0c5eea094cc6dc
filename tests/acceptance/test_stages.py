"""Eviction stages of a gang over two nodes that uses the job contract, on a real Kafka, with real processes."""

from pathlib import Path
from typing import Any

import pytest
from tests.kits.system import System, Watch

from bailiff_core.records.decisions import JobRequeued
from bailiff_core.records.facts import EvictionStageReached, TaskProgressed, TaskResumed

pytestmark = pytest.mark.kafka

RANK = """
import json, mmap, os, socket, sys, time
marks, job, rank, stubborn = sys.argv[1], os.environ["BAILIFF_JOB_ID"], int(os.environ["RANK"]), len(sys.argv) > 2
with open(os.environ["BAILIFF_CONTROL_DIR"] + "/steps", "r+b") as file:
    words = memoryview(mmap.mmap(file.fileno(), 64)).cast("q")
node = socket.socket(socket.AF_UNIX)
node.connect(os.environ["BAILIFF_SOCKET"])
answers = node.makefile()

def say(what, **more):
    node.sendall(json.dumps({"type": what, **more}).encode() + b"\\n")
    answer = json.loads(answers.readline())
    assert answer["ok"], answer

say("hello", v=1, rank=rank, pid=os.getpid())
saved = f"{marks}/{job}.saved-{rank}"
step, notified = -1, False
if os.path.exists(saved):
    attempt, step = json.load(open(saved))
    say("resumed", step=step + 1, from_attempt=attempt, skipped_checkpoints=0)
words[6] = 100_000
signal = __import__("signal").signal(15, __import__("signal").SIG_IGN)
with open(f"{marks}/{job}", "a") as starts:
    starts.write(f"{os.environ['BAILIFF_ATTEMPT']} {rank}\\n")
while True:
    time.sleep(0.01)
    step += 1
    words[0] = step
    while words[1]:
        if not notified:
            notified = True
            say("acknowledged", step=step)
        overdue = time.clock_gettime_ns(time.CLOCK_BOOTTIME) >= words[5]
        if words[3] >= 0 and not stubborn and words[4] < words[3]:
            words[4] = words[3] if step <= words[3] else step + 2
        if overdue or 0 <= words[2] <= step:
            agreed = not overdue
            say("checkpoint_started", step=step)
            json.dump([int(os.environ["BAILIFF_ATTEMPT"]), step], open(saved, "w"))
            say("checkpoint_committed", step=step, bytes=10, microseconds=5, sha256="0" * 64, agreed=agreed)
            say("yielding")
            sys.exit(85)
        if words[4] < 0 or step < words[4]:
            break
        time.sleep(0.005)
"""


LIBRARY = """
import os, sys, time
marks = sys.argv[1]
sys.path.insert(0, sys.argv[2])
os.environ["BAILIFF_CHECKPOINT_DIR"] = f"{marks}/checkpoints"  # a folder that both machines share
from bailiff_job import attach
job = attach()
start = job.restore(lambda folder: None)
with open(f"{marks}/{os.environ['BAILIFF_JOB_ID']}", "a") as starts:
    starts.write(f"{os.environ['BAILIFF_ATTEMPT']} {os.environ['RANK']}\\n")
for step in range(start, 1_000_000):
    time.sleep(0.01)
    job.progress(step)
    if job.should_checkpoint(step):
        job.checkpoint(step, lambda folder: (folder / "weights").write_text(str(step)))
    if job.preempted:
        job.exit()
"""
LIBRARY_AT = Path(__file__).parents[2] / "libs" / "job"


def rank(pool: Watch, *arguments: str) -> str:
    """A shell line for a rank that trains and reports to its node."""
    script = pool.system.marks / "rank.py"
    script.write_text(RANK)
    return f"exec python3 {script} {pool.system.marks} {' '.join(arguments)}"


def stages(pool: Watch, job: str, task: int) -> list[str]:
    """The stages of the task's evictions, in log order."""
    return [fact.stage for fact in pool.facts(EvictionStageReached, job=job, task=task)]


async def take_over(pool: Watch, gang: str, **requested: Any) -> None:
    """Start the gang on both machines, then submit an urgent job that needs them."""
    await pool.submit(gang, tasks=2, gpus=4, **requested)
    await pool.until_running(gang)
    await pool.noted(gang, attempt=1, tasks=2)
    await pool.submit(f"{gang}-urgent", pool.until_signalled(), tasks=2, gpus=4, kind="inference")


BY_ITSELF = ["noticed", "acknowledged", "step_confirmed", "step_agreed", "checkpoint_started", "checkpoint_committed", "yielding"]


async def test_a_gang_over_two_nodes_saves_one_step_and_resumes_from_it(system: System) -> None:
    async with system.watch("pool-b") as pool:
        await take_over(pool, "together", run=rank(pool), grace_s=60)
        await pool.until_running("together-urgent")
        for task in (0, 1):
            reported = [stage for stage in stages(pool, "together", task) if stage != "step_confirmed"]
            assert sorted(reported) == sorted(set(BY_ITSELF) - {"step_confirmed"})
            assert stages(pool, "together", task).index("noticed") == 0
        saved = [fact.checkpoint for fact in pool.facts(EvictionStageReached, job="together", stage="checkpoint_committed")]
        assert len({checkpoint.step for checkpoint in saved if checkpoint}) == 1, saved
        assert all(checkpoint is not None and checkpoint.agreed for checkpoint in saved)
        first = pool.facts(EvictionStageReached, job="together", stage="noticed")[0]
        assert (first.attached, first.term_after, first.kill_after) == (True, 48_000_000, 60_000_000)
        (requeued,) = pool.facts(JobRequeued, job="together")
        assert (requeued.outcome, pool.job("together").failures) == ("preempted", 0)

        pool.let_finish("together-urgent")
        await pool.until("both ranks have resumed", lambda _: len(pool.facts(TaskResumed, job="together")) == 2)
        at = saved[0]
        assert at is not None
        resumed = pool.facts(TaskResumed, job="together")
        assert [(fact.step, fact.from_attempt, fact.steps_lost) for fact in resumed] == [(at.step + 1, 1, 0)] * 2
        await pool.cancel("together")
        await pool.until_ended("together", "cancelled")
        assert not pool.facts(TaskProgressed, job="together", checkpoint=at), (
            "the checkpoint was reported with the eviction, not again as progress"
        )
        await pool.verify()


async def test_two_ranks_that_use_the_job_library_lose_no_step(system: System) -> None:
    async with system.watch("pool-b") as pool:
        script = system.marks / "library.py"
        script.write_text(LIBRARY)
        await take_over(pool, "library", run=f"exec python3 {script} {system.marks} {LIBRARY_AT}", grace_s=60)
        await pool.until_running("library-urgent")
        saved = [fact.checkpoint for fact in pool.facts(EvictionStageReached, job="library", stage="checkpoint_committed")]
        assert [checkpoint.agreed for checkpoint in saved if checkpoint] == [True, True]
        assert len({checkpoint.step for checkpoint in saved if checkpoint}) == 1, saved
        assert not pool.facts(EvictionStageReached, job="library", stage="term_sent")
        pool.let_finish("library-urgent")
        await pool.until("both ranks have resumed", lambda _: len(pool.facts(TaskResumed, job="library", attempt=2)) == 2)
        assert saved[0] is not None
        back = pool.facts(TaskResumed, job="library", attempt=2)
        assert [(fact.step, fact.from_attempt, fact.steps_lost) for fact in back] == [(saved[0].step + 1, 1, 0)] * 2
        await pool.cancel("library")
        await pool.until_ended("library", "cancelled")
        await pool.verify()


async def test_without_an_agreed_step_each_rank_saves_at_the_soft_deadline(system: System) -> None:
    async with system.watch("pool-b") as pool:
        await take_over(pool, "apart", run=rank(pool, "stubborn"), grace_s=8, kill_after=6_000_000)
        await pool.until_running("apart-urgent")
        saved = [fact.checkpoint for fact in pool.facts(EvictionStageReached, job="apart", stage="checkpoint_committed")]
        assert [checkpoint.agreed for checkpoint in saved if checkpoint] == [False, False]
        terms = pool.facts(EvictionStageReached, job="apart", stage="term_sent")
        assert {term.stuck_in for term in terms} <= {"acknowledged", "checkpoint_started", "checkpoint_committed", "yielding"}
        assert "step_agreed" not in stages(pool, "apart", 0) + stages(pool, "apart", 1)
        (requeued,) = pool.facts(JobRequeued, job="apart")
        assert requeued.outcome == "preempted"
        assert requeued.lost_gpu_ms > 8 * 60_000, "checkpoints without agreement save no work"
        pool.let_finish("apart-urgent")
        await pool.cancel("apart")
        await pool.until_ended("apart", "cancelled")
        await pool.verify()


async def test_agents_killed_during_an_eviction_lose_no_report_and_send_none_twice(battered: System) -> None:
    agents = ("node-agent", "node-agent-2")
    async with battered.watch("pool-b") as pool:
        await take_over(pool, "bereft", run=rank(pool), grace_s=60)
        await pool.record(EvictionStageReached, job="bereft", stage="noticed", task=1)
        battered.kill_and_restart(*agents)
        await pool.until_running("bereft-urgent")
        for task in (0, 1):
            reported = [stage for stage in stages(pool, "bereft", task) if stage != "step_confirmed"]
            assert len(reported) == len(set(reported)), reported
            assert {"noticed", "acknowledged", "checkpoint_committed", "yielding"} <= set(reported)
        (requeued,) = pool.facts(JobRequeued, job="bereft")
        assert requeued.outcome == "preempted"
        saved = [fact.checkpoint for fact in pool.facts(EvictionStageReached, job="bereft", stage="checkpoint_committed")]
        assert len({(checkpoint.step, checkpoint.agreed) for checkpoint in saved if checkpoint}) == 1, saved
        pool.let_finish("bereft-urgent")
        await pool.cancel("bereft")
        await pool.until_ended("bereft", "cancelled")
        await pool.verify()

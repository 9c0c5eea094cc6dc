"""Preemption on eight GPUs, cancellation, and refusals. Real Kafka, real services, jobs that are processes."""

import json
import signal
from collections import Counter
from pathlib import Path

import pytest
from tests.kits.system import GIB, System, Watch
from tests.kits.waiting import until

from bailiff_bus.topics import AUDIT, EVICTION_PROGRESS, JOB_SPECS, NODE_COMMANDS, NODE_REPORTS, PROPOSALS, REQUESTS
from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.job_spec import JobSpec
from bailiff_core.records import decisions, facts
from bailiff_core.records.job_requests import EvictJob, SubmitJob

SECRET = "hunter2-but-longer-than-that"
SECRET_FLAG = "--token=correct-horse-battery"


@pytest.mark.smoke
async def test_four_gpus_are_preempted_for_an_urgent_job_and_the_victims_resume(system: System) -> None:
    async with system.watch("pool-a") as pool:
        # Training jobs use all eight GPUs.
        training = [f"story-train-{n}" for n in range(8)]
        for name in training:
            await pool.submit(name, pool.training(before=f": {SECRET_FLAG};"), gpus=1, env={"API_KEY": SECRET})
        await pool.until_running(*training)
        for name in training:
            await pool.noted(name, attempt=1)

        # An urgent job needs four of them.
        await pool.submit("story-serve", pool.until_signalled(), gpus=4, kind="inference", env={"API_KEY": SECRET})
        request = await pool.record(decisions.PreemptionRequested, job="story-serve")
        assert request.action == "preempt"
        await pool.record(facts.ProposalReceived, selection=request.selection)

        # The smallest sufficient set of victims, each with its reason and its loss.
        decided = await pool.record(decisions.PreemptionDecided)
        assert decided.preemptor.job == "story-serve"
        victims = [choice.job for choice in decided.victims]
        assert len(victims) == len(set(victims)) == 4
        assert set(victims) <= set(training)
        assert all(choice.gpus == 1 and choice.priority == 50 for choice in decided.victims)
        assert decided.explanation.proven

        # The victims are notified and exit, their devices are seen free, and only then does the urgent job start.
        for victim in victims:
            await pool.record(facts.EvictionStarted, job=victim)
            await pool.record(facts.EvictionStageReached, job=victim, stage="noticed")
            await pool.record(facts.EvictionStageReached, job=victim, stage="term_sent")
            await pool.record(facts.TaskExited, job=victim)
            released = await pool.record(facts.TaskReleased, job=victim)
            assert all(reading.processes == 0 for reading in released.after)
            assert (await pool.record(decisions.JobRequeued, job=victim)).outcome == "preempted-unclean"
        await pool.until_running("story-serve")
        assert seq_of(pool, decisions.JobStarting, job="story-serve") > max(
            seq_of(pool, facts.TaskReleased, job=name) for name in victims
        )
        assert not pool.facts(decisions.JobPlaced, job=victims[0], attempt=2), "a victim resumed before resources were free"

        # Jobs that are not victims are not affected.
        unaffected = sorted(set(training) - set(victims))
        assert pool.running(*unaffected)

        # It ends, and the victims resume automatically.
        pool.let_finish("story-serve")
        await pool.until_ended("story-serve")
        await pool.until_running(*training)
        for name in victims:
            await pool.noted(name, attempt=2)
        assert [pool.job(name).attempt for name in victims] == [2] * 4
        assert [pool.job(name).attempt for name in unaffected] == [1] * 4
        pool.assert_started_once(*training, "story-serve")

        # Anyone can check all of it, and nothing private is in it.
        replay = await pool.verify()
        assert replay.decisions > 0
        messages = await pool.raw()
        everything = b"".join(part for each in messages for part in (each.value, *(value for _, value in each.headers)))
        assert len(messages) == len(pool.entries)
        assert b"story-serve" in everything
        for private in (SECRET, SECRET_FLAG, "API_KEY", str(system.marks), "sleep"):
            assert private.encode() not in everything, f"{private} is in the audit log"


async def test_all_eight_gpus_are_preempted_for_a_higher_class_and_the_victims_resume(system: System) -> None:
    async with system.watch("pool-a") as pool:
        await pool.submit("whole-low", pool.training(), tasks=8, gpus=1)
        await pool.until_running("whole-low")
        await pool.noted("whole-low", attempt=1, tasks=8)

        await pool.submit("whole-high", pool.until_signalled(), gpus=8, kind="interactive")
        decided = await pool.record(decisions.PreemptionDecided)
        assert (decided.action, [(choice.job, choice.gpus) for choice in decided.victims]) == ("preempt", [("whole-low", 8)])
        await pool.until_running("whole-high")
        assert pool.job("whole-low").phase == "pending"

        pool.let_finish("whole-high")
        await pool.until_ended("whole-high")
        await pool.until_running("whole-low")
        assert pool.job("whole-low").attempt == 2
        pool.assert_started_once("whole-low", "whole-high")
        await pool.verify()


async def test_what_one_preemption_sends(system: System) -> None:
    """Each message of the audit topic is one flush of the disk: one more is a step that was added, or one that is said twice."""
    async with system.watch("pool-a") as pool:
        await pool.submit("counted-low", pool.training(), gpus=8)
        await pool.until_running("counted-low")
        await pool.noted("counted-low", attempt=1)
        before = await sent(pool)
        await pool.submit("counted-high", pool.until_signalled(), gpus=8, kind="inference")
        await pool.until_running("counted-high")
        assert sorted((await sent(pool) - before).elements()) == sorted(
            [
                ("requests", "SubmitJob"),
                ("job-specs", ""),
                *(("audit", record) for record in RECORDS_OF_A_PREEMPTION),
                ("proposals", "ProposalBatch"),
                ("eviction-progress", "StartEviction"),
                ("node-commands", "Evict"),
                ("node-reports", "EvictionStageReport"),
                ("node-reports", "EvictionStageReport"),
                ("node-reports", "TaskExitedReport"),
                ("node-reports", "TaskReleasedReport"),
                ("node-commands", "EncryptedStartTask"),
                ("node-reports", "TaskStartedReport"),
            ]
        )


RECORDS_OF_A_PREEMPTION = (
    "JobSubmitted",
    "JobPending",
    "PreemptionRequested",
    "ProposalReceived",
    "PreemptionDecided",
    "EvictionStarted",
    "EvictionStageReached",  # noticed
    "EvictionStageReached",  # told to terminate
    "TaskExited",
    "TaskReleased",
    "JobRequeued",
    "JobPending",  # the victim
    "JobStarting",
    "TaskStarted",
)


async def sent(pool: Watch) -> Counter[tuple[str, str]]:
    """All messages by topic and type, but heartbeats."""
    found: Counter[tuple[str, str]] = Counter()
    for topic in (REQUESTS, JOB_SPECS, AUDIT, PROPOSALS, EVICTION_PROGRESS, NODE_COMMANDS, NODE_REPORTS):
        for message in await pool.everything(topic.name):
            kind = dict(message.headers).get("ce_type", b"").decode().removesuffix(".v1").rpartition(".")[2]
            found[topic.name.removeprefix("bailiff."), kind] += kind != "NodeHeartbeat"
    return +found


async def test_victims_that_turn_term_into_a_code_of_their_own_come_back(system: System) -> None:
    """Launchers such as torchrun turn TERM into 1, shells into 130 or 143. None of these jobs may fail even once."""
    codes = {f"code-{code}": code for code in (1, 3, 130, 143)}
    async with system.watch("pool-a") as pool:
        for name, code in codes.items():
            mark = f'echo "$BAILIFF_ATTEMPT $RANK" >> {system.marks}/$BAILIFF_JOB_ID'
            launcher = f"trap 'exit {code}' TERM; {mark}; while :; do sleep 0.1; done"
            await pool.submit(name, launcher, gpus=2, max_failures=0)
        for name in codes:
            await pool.noted(name, attempt=1)

        await pool.submit("code-urgent", pool.until_signalled(), gpus=8, kind="inference")
        for name, code in codes.items():
            assert (await pool.record(facts.TaskExited, job=name)).exit_code == code
            requeued = await pool.record(decisions.JobRequeued, job=name)
            assert (requeued.outcome, requeued.cause, requeued.not_before) == ("preempted-unclean", "preemption", 0)
        await pool.until_running("code-urgent")

        pool.let_finish("code-urgent")
        for name in codes:
            await pool.noted(name, attempt=2)
        assert {(pool.job(name).evictions, pool.job(name).failures) for name in codes} == {(1, 0)}
        await pool.verify()


async def test_a_gang_over_two_nodes_preempts_only_the_victims_that_it_needs(system: System) -> None:
    async with system.watch("pool-b") as pool:
        await pool.submit("gang-small", gpus=2)
        await pool.submit("gang-train", gpus=4)
        await pool.until_running("gang-small", "gang-train")

        # Two tasks of four GPUs: one on each machine, or none.
        await pool.submit("gang-urgent", pool.until_signalled(), gpus=4, tasks=2, kind="inference")
        decided = await pool.record(decisions.PreemptionDecided)
        assert sorted(choice.job for choice in decided.victims) == ["gang-small", "gang-train"]
        await pool.until_running("gang-urgent")
        await pool.noted("gang-urgent", attempt=1, tasks=2)
        assert sorted(task.node for task in pool.job("gang-urgent").tasks) == [0, 1]
        starts = [entry.record.cycle for entry in pool.entries if isinstance(entry.record.data, facts.TaskStarted)]
        assert starts

        pool.let_finish("gang-urgent")
        await pool.until_ended("gang-urgent")
        await pool.until_running("gang-small", "gang-train")
        pool.assert_started_once("gang-urgent", "gang-small", "gang-train")
        await pool.verify()


async def test_a_job_that_ignores_term_is_killed_after_its_grace(system: System) -> None:
    async with system.watch("pool-a") as pool:
        ignores_term = f"trap '' TERM; {pool.training().replace('exec ', '')}"
        await pool.submit("ignores-term-train", ignores_term, gpus=8, grace_s=1)
        await pool.until_running("ignores-term-train")
        await pool.noted("ignores-term-train", attempt=1)
        await pool.submit("ignores-term-urgent", pool.until_signalled(), gpus=1, kind="inference")
        killed = await pool.record(facts.EvictionStageReached, job="ignores-term-train", stage="kill_sent")
        assert killed.elapsed >= 1_000_000, "the grace was shortened"
        assert (await pool.record(facts.TaskExited, job="ignores-term-train")).exit_code in (
            -signal.SIGKILL,
            128 + signal.SIGKILL,
        )
        assert (await pool.record(decisions.JobRequeued, job="ignores-term-train")).outcome == "preempted-unclean"
        await pool.until_running("ignores-term-urgent")
        await pool.verify()


async def test_a_fresh_attempt_survives_the_deadline_of_the_one_before(system: System) -> None:
    """It yields at once, comes back, and runs on beyond the end of the grace that it did not use."""
    async with system.watch("pool-b") as pool:
        yields = "trap 'exit 85' TERM; while :; do sleep 0.05; done"
        await pool.submit("again", f"[ $BAILIFF_ATTEMPT = 2 ] && exec sleep 6; {yields}", gpus=4, grace_s=3)
        await pool.until_running("again")
        await pool.request(EvictJob(job="again", reason="test"))
        await pool.until_ended("again")
        exits = [(fact.attempt, fact.exit_code) for fact in pool.facts(facts.TaskExited, job="again")]
        assert exits == [(1, 85), (2, 0)]
        assert {fact.stage for fact in pool.facts(facts.EvictionStageReached, job="again", attempt=1)} == {"noticed", "term_sent"}
        assert not pool.facts(facts.EvictionStageReached, job="again", attempt=2)
        assert (pool.job("again").evictions, pool.job("again").failures) == (1, 0)
        await pool.verify()


async def test_cancelling_the_preemptor_before_any_notice_evicts_nothing(battered: System) -> None:
    async with battered.watch("pool-b") as pool:
        await pool.submit("mercy-1", gpus=4)
        await pool.submit("mercy-2", gpus=4)
        await pool.until_running("mercy-1", "mercy-2")
        battered.kill("eviction-executor")
        await pool.submit("mercy-urgent", pool.until_signalled(), gpus=4, tasks=2, kind="inference")
        decided = await pool.record(decisions.PreemptionDecided)
        assert len(decided.victims) == 2

        await pool.cancel("mercy-urgent")
        for name in ("mercy-1", "mercy-2"):
            assert not (await pool.record(decisions.EvictionCancelled, job=name)).notified
        await pool.until_ended("mercy-urgent", "cancelled")
        battered.start_service("eviction-executor")
        await pool.until_running("mercy-1", "mercy-2")
        assert not pool.facts(facts.EvictionStarted, job="mercy-1")
        assert pool.job("mercy-1").attempt == pool.job("mercy-2").attempt == 1
        await pool.verify()


async def test_cancelling_the_preemptor_cancels_evictions_that_were_not_delivered(battered: System) -> None:
    async with battered.watch("pool-b") as pool:
        await pool.submit("late-near", gpus=4, tasks=1)
        await pool.until_running("late-near")
        await pool.submit("late-far", gpus=4, tasks=1)
        await pool.until_running("late-far")
        where = {pool.state.nodes[pool.job(name).tasks[0].node].name: name for name in ("late-near", "late-far")}
        reached, unreached = where["node-2"], where["node-3"]

        # The agent of the second machine is stopped: the notice for its victim is published and not delivered.
        battered.signal("node-agent-2", signal.SIGSTOP)
        await pool.submit("late-urgent", pool.until_signalled(), gpus=4, tasks=2, kind="inference")
        await pool.record(facts.EvictionStarted, job=unreached)
        await pool.record(facts.TaskReleased, job=reached)

        await pool.cancel("late-urgent")
        assert (await pool.record(decisions.EvictionCancelled, job=unreached)).notified
        joined = len(pool.facts(facts.NodeJoined, node="node-3"))
        battered.kill_and_restart("node-agent-2")
        await pool.until("the agent has joined again", lambda _: len(pool.facts(facts.NodeJoined, node="node-3")) > joined)
        await pool.record(facts.TaskEvictionCancelled, job=unreached)
        await pool.until_running(reached, unreached)
        assert (pool.job(reached).attempt, pool.job(unreached).attempt) == (2, 1)
        await pool.noted(reached, attempt=2)
        pool.assert_started_once(reached, unreached)
        await pool.verify()


@pytest.mark.parametrize("late", ["the node of the member that falls", "the node that tells first"])
async def test_a_member_that_falls_with_its_gang_is_preempted_whichever_node_reports_first(
    battered: System, tmp_path: Path, late: str
) -> None:
    """Rank 0 is told to stop and exits with 1; rank 1, whose node is slower, loses its connection and exits with 1, too."""
    gone, name = tmp_path / "gone", f"fallen-{late.split()[-1]}"
    agents = {"node-2": "node-agent", "node-3": "node-agent-2"}
    async with battered.watch("pool-b") as pool:
        tells, may_fall = tmp_path / "tells", tmp_path / "may-fall"
        stop = f"touch {tells}; while [ ! -e {may_fall} ]; do sleep 0.05; done"
        told = f"trap '[ $RANK = 0 ] && {{ {stop}; touch {gone}; exit 1; }}' TERM"
        falls = f"while [ $RANK = 0 ] || [ ! -e {gone} ]; do sleep 0.05; done; exit 1"
        run = f"[ $BAILIFF_ATTEMPT = 1 ] || exec sleep 3600; {told}; {falls}"
        await pool.submit(name, run, tasks=2, gpus=4, max_failures=0)
        await pool.until_running(name)
        node_of = [pool.state.nodes[task.node].name for task in pool.job(name).tasks]
        stopped = agents[node_of[0 if late.endswith("first") else 1]]
        if not late.endswith("first"):
            may_fall.touch()
            battered.signal(stopped, signal.SIGSTOP)
        await pool.submit(f"{name}-urgent", pool.until_signalled(), tasks=2, gpus=4, kind="inference")
        try:
            if late.endswith("first"):
                await until(tells.exists)
                battered.signal(stopped, signal.SIGSTOP)
                may_fall.touch()
            await pool.record(facts.TaskExited, job=name, task=1 if late.endswith("first") else 0)
        finally:
            battered.signal(stopped, signal.SIGCONT)
        requeued = await pool.record(decisions.JobRequeued, job=name)
        assert [(each.exit_code, each.attempt) for each in pool.facts(facts.TaskExited, job=name)] == [(1, 1), (1, 1)]
        assert (requeued.outcome, requeued.cause, requeued.not_before) == ("preempted-unclean", "preemption", 0)
        await pool.until_running(f"{name}-urgent")
        pool.let_finish(f"{name}-urgent")
        await pool.until_running(name)
        job = pool.job(name)
        assert (job.attempt, job.evictions, job.failures) == (2, 1, 0)
        await pool.verify()


async def test_a_job_without_gpus_runs_beside_a_full_machine(system: System) -> None:
    async with system.watch("pool-a") as pool:
        await pool.submit("cpu-train", gpus=8)
        await pool.until_running("cpu-train")
        await pool.submit("cpu-only", pool.until_signalled(), gpus=0, tasks=3)
        await pool.until_running("cpu-only")
        await pool.noted("cpu-only", attempt=1, tasks=3)
        pool.let_finish("cpu-only")
        await pool.until_ended("cpu-only")
        assert pool.running("cpu-train")
        assert not pool.facts(decisions.PreemptionRequested, job="cpu-only")
        pool.assert_started_once("cpu-only")
        await pool.verify()


async def test_a_non_preempting_class_stays_pending_in_queue_order(system: System) -> None:
    async with system.watch("pool-a") as pool:
        await pool.submit("turn-train", pool.until_signalled(), gpus=8)
        await pool.until_running("turn-train")
        await pool.submit("turn-patient", gpus=1, kind="patient")
        assert (await pool.record(decisions.JobPending, job="turn-patient")).reason
        pool.let_finish("turn-train")
        await pool.until_running("turn-patient")
        assert not pool.facts(decisions.PreemptionRequested, job="turn-patient")
        assert pool.job("turn-train").attempt == 1
        await pool.verify()


async def test_a_refused_preemption_names_what_would_be_needed(system: System) -> None:
    async with system.watch("pool-a") as pool:
        await pool.submit("firm-build", gpus=6, kind="build")  # may not be preempted
        await pool.submit("firm-train", gpus=2)
        await pool.until_running("firm-build", "firm-train")
        await pool.submit("firm-urgent", gpus=4, kind="inference")
        await pool.record(decisions.PreemptionRequested, job="firm-urgent")
        refused = await pool.record(decisions.PreemptionRefused)
        assert refused.preemptor.job == "firm-urgent"
        assert refused.reason == "impossible"
        assert refused.would_need
        assert pool.running("firm-build", "firm-train")
        await pool.verify()


async def test_a_job_that_can_never_fit_is_rejected_with_the_reason(system: System) -> None:
    async with system.watch("pool-a") as pool:
        demand = JobDemand(job="never-fits", tasks=(TaskGroup(gpu_milli=16_000, cpu_milli=1000, memory_bytes=GIB),))
        await pool.request(SubmitJob(demand=demand, spec=JobSpec(command="true")), "never-fits")
        rejected = await pool.record(facts.InputRejected, id="never-fits")
        assert rejected.code == "never-fits"
        assert "fewer than 16 usable GPUs" in rejected.reason
        assert "never-fits" not in pool.state.jobs
        await pool.verify()


def seq_of(pool: Watch, kind: type, **expected: object) -> int:
    """The seq of the first such record."""
    for entry in pool.entries:
        data = entry.record.data
        if isinstance(data, kind) and all(getattr(data, name) == value for name, value in expected.items()):
            return entry.record.seq
    raise AssertionError(f"no {kind.__name__} with {json.dumps(expected, default=str)}")

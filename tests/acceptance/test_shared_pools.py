"""Pools that several projects share: quotas, borrowing, reclaim, and resuming. Real Kafka, real services, processes."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.kits.system import GIB, POLICY, System, Watch

from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.job_spec import JobSpec
from bailiff_core.model.policy import Policy, RestartRules
from bailiff_core.records import decisions
from bailiff_core.records.facts import EvictionStageReached, TaskReleased, TaskStarted
from bailiff_core.records.job_requests import SubmitJob

POOLS = {"cpus": 2, "lonely": 2, "rigid": 1, "elastic": 1, "resized": 1, "sweep": 1, "serving": 1, "shares": 1, "cluster": 2}


CPU_ONLY = {"gpus": "0", "cpu_milli": 4000, "memory_bytes": 16 * GIB}


@pytest.fixture(scope="module")
def _pools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], System]]:
    current: list[System] = []

    def get() -> System:
        if current and current[0].broken:
            current.pop().stop()
        if not current:
            current.append(
                System(tmp_path_factory.mktemp("shared"), pools=POOLS, machine=dict.fromkeys(("cpus", "lonely"), CPU_ONLY))
            )
            current[0].start()
        return current[0]

    yield get
    for each in current:
        each.stop()


@pytest.fixture
def shared(_pools: Callable[[], System]) -> System:
    """A pool of one machine for each story, and one of two."""
    return _pools()


def projects(*listed: dict[str, Any], **rest: Any) -> Policy:
    """The usual policy with these projects."""
    data = POLICY.model_dump(mode="json") | {"projects": listed} | rest
    return Policy.model_validate(data, strict=False)


TWO = projects({"name": "a", "quota": {"gpus": 4}}, {"name": "b", "quota": {"gpus": 4}})


async def test_a_rigid_gang_over_quota_is_evicted_whole_and_resumes(shared: System) -> None:
    async with shared.watch("rigid") as pool:
        await pool.apply(TWO)
        await pool.submit("a-train", pool.training(), tasks=8, project="a")
        await pool.until_gpus(a=8)

        # B is within its quota of 4; A's gang runs on 8, and cannot run on fewer.
        await pool.submit("b-notebook", pool.until_signalled(), tasks=4, kind="interactive", project="b")
        decided = await pool.record(decisions.PreemptionDecided)
        assert decided.action == "reclaim"
        assert [(choice.job, choice.tasks, choice.project) for choice in decided.victims] == [("a-train", "", "a")]
        await pool.until_gpus(a=0, b=4)
        assert pool.job("a-train").phase == "pending"

        pool.let_finish("b-notebook")
        await pool.until_gpus(a=8, b=0)
        assert pool.job("a-train").attempt == 2
        await pool.noted("a-train", attempt=2, tasks=8)
        pool.assert_started_once("a-train", "b-notebook")
        await pool.verify()


async def test_an_elastic_gang_over_quota_shrinks_and_grows_again(shared: System) -> None:
    async with shared.watch("elastic") as pool:
        await pool.apply(TWO)
        await pool.submit("a-elastic", pool.training(), tasks=8, min_tasks=4, elastic="live", project="a")
        await pool.until_gpus(a=8)

        await pool.submit("b-demo", pool.until_signalled(), tasks=4, kind="interactive", project="b")
        decided = await pool.record(decisions.PreemptionDecided)
        assert decided.action == "reclaim"
        assert [(choice.job, choice.tasks) for choice in decided.victims] == [("a-elastic", "4-7")]
        await pool.until_gpus(a=4, b=4)
        assert pool.job("a-elastic").phase == "running"
        assert {task.index for task in pool.job("a-elastic").tasks} == {0, 1, 2, 3}
        assert {fact.outcome for fact in pool.facts(decisions.JobShrunk, job="a-elastic")} == {"preempted-unclean"}
        assert not pool.facts(decisions.JobRequeued, job="a-elastic"), "its required tasks were stopped"

        pool.let_finish("b-demo")
        await pool.until_gpus(a=8, b=0)
        assert pool.job("a-elastic").attempt == 1
        assert pool.facts(decisions.JobGrown, job="a-elastic")
        started = [fact.task for fact in pool.facts(TaskStarted, job="a-elastic")]
        assert sorted(started) == [0, 1, 2, 3, 4, 4, 5, 5, 6, 6, 7, 7]
        await pool.verify()


async def test_an_elastic_gang_without_live_resizing_restarts_at_each_size(shared: System) -> None:
    async with shared.watch("resized") as pool:
        await pool.apply(TWO.model_copy(update={"restarts": RestartRules(grow_after=0)}))
        await pool.submit("a-resized", pool.training(), tasks=8, min_tasks=4, project="a")
        await pool.until_gpus(a=8)

        await pool.submit("b-show", pool.until_signalled(), tasks=4, kind="interactive", project="b")
        await pool.until("it runs again, on four", lambda _: pool.job("a-resized").attempt == 2)
        await pool.until_gpus(a=4, b=4)
        pool.let_finish("b-show")
        await pool.until("it runs again, on eight", lambda _: pool.job("a-resized").attempt == 3)
        await pool.until_gpus(a=8, b=0)
        assert [fact.cause for fact in pool.facts(decisions.JobRequeued, job="a-resized")] == ["preemption", "resize"]
        await pool.verify()


TRIAL = """
at=$BAILIFF_CHECKPOINT_DIR/step; mkdir -p $BAILIFF_CHECKPOINT_DIR
step=$(cat $at 2>/dev/null || echo 0)
echo "$BAILIFF_ATTEMPT $step" >> {marks}/$BAILIFF_JOB_ID.steps
trap 'echo $step > $at; exit 85' TERM
while true; do step=$((step + 1)); sleep 0.02; done
"""


async def test_a_sweep_is_preempted_for_a_demo_and_resumes_from_checkpoints(shared: System) -> None:
    async with shared.watch("sweep") as pool:
        trials = [f"trial-{number}" for number in range(8)]
        for name in trials:
            await pool.submit(name, TRIAL.format(marks=shared.marks))
        await pool.until_running(*trials)
        await pool.until("all jobs have started", lambda _: all((shared.marks / f"{name}.steps").exists() for name in trials))

        await pool.submit("demo", pool.until_signalled(), gpus=4, kind="interactive")
        decided = await pool.record(decisions.PreemptionDecided)
        victims = [choice.job for choice in decided.victims]
        assert len(set(victims)) == 4
        assert set(victims) <= set(trials)
        assert decided.explanation.proven
        await pool.until_running("demo")
        for name in victims:
            assert (await pool.record(decisions.JobRequeued, job=name)).outcome == "preempted"
        stayed = [name for name in trials if name not in victims]
        assert pool.running(*stayed)

        pool.let_finish("demo")
        await pool.until_running(*trials)
        for name in victims:
            steps = shared.marks / f"{name}.steps"
            await pool.until(f"{name} went on", lambda _, steps=steps: len(steps.read_text().splitlines()) == 2)
            first, again = (line.split() for line in steps.read_text().splitlines())
            assert (first, again[0]) == (["1", "0"], "2")
            assert int(again[1]) > 0, f"{name} began anew"
        assert [pool.job(name).attempt for name in stayed] == [1] * 4
        await pool.verify()


async def test_training_is_preempted_by_serving_at_a_load_spike_and_resumes(shared: System) -> None:
    async with shared.watch("serving") as pool:
        classes = [entry.model_dump(mode="json") for entry in POLICY.priority_classes]
        for entry in classes:
            if entry["name"] == "inference":
                entry |= {"immediate": True, "immediate_grace": 1_000_000}
        await pool.apply(
            projects(
                {"name": "serving", "quota": {"gpus": 6}}, {"name": "research", "quota": {"gpus": 2}}, priority_classes=classes
            )
        )
        ignores_term = f"trap '' TERM; {pool.training().replace('exec ', '')}"
        await pool.submit("serve", pool.training(), tasks=2, kind="inference", elastic="live", project="serving")
        training = [f"train-{number}" for number in range(6)]
        for name in training:
            await pool.submit(name, ignores_term, grace_s=10, project="research")
        await pool.until_gpus(serving=2, research=6)

        # Traffic: four more replicas, within their quota. Training is evicted at once, with a short grace.
        await pool.scale("serve", 6)
        await pool.until_gpus(serving=6, research=2)
        killed = pool.facts(EvictionStageReached, stage="kill_sent")
        assert len({fact.job for fact in killed}) == 4
        assert all(fact.elapsed >= 1_000_000 for fact in killed), [fact.elapsed for fact in killed]
        assert {grace for fact in pool.facts(decisions.PreemptionDecided) for grace in fact.graces} == {1_000_000}
        assert pool.job("serve").attempt == 1

        # The spike is over: the replicas end, and training resumes.
        await pool.scale("serve", 2)
        assert (await pool.record(decisions.EvictionDecided, job="serve", cause="scaled")).tasks == "2-5"
        await pool.until_gpus(serving=2, research=6)
        assert pool.job("serve").attempt == 1
        assert not pool.facts(decisions.JobRequeued, job="serve")
        pool.assert_started_once(*training)
        await pool.verify()


async def test_four_projects_borrow_by_weight_and_are_reclaimed(shared: System) -> None:
    async with shared.watch("cluster") as pool:
        await pool.apply(
            projects(
                {"name": "red", "quota": {"gpus": 4}, "over_quota_weight": 3},
                {"name": "blue", "quota": {"gpus": 4}, "over_quota_weight": 1},
                {"name": "green", "quota": {"gpus": 4}},
                {"name": "gold", "quota": {"gpus": 4}},
            )
        )
        for number in range(16):
            await pool.submit(f"red-{number}", project="red")
        await pool.until_gpus(red=16)

        # Blue submits: it gets its quota, and a quarter of the eight GPUs that green and gold do not use.
        for number in range(16):
            await pool.submit(f"blue-{number}", project="blue")
        await pool.until_gpus(red=10, blue=6)

        # Green submits a gang within its quota: it gets its four GPUs, on one machine or both.
        await pool.submit("green-gang", pool.until_signalled(), tasks=4, project="green")
        await pool.until_gpus(green=4)
        await pool.until("the others run on the rest", lambda _: pool.gpus_of("red") + pool.gpus_of("blue") == 12)
        assert pool.gpus_of("red") >= 6
        assert pool.gpus_of("blue") >= 4

        pool.let_finish("green-gang")
        await pool.until_gpus(red=10, blue=6, green=0)
        assert all(decided.action == "reclaim" for decided in pool.facts(decisions.PreemptionDecided))
        pool.assert_started_once(*(f"{name}-{number}" for name in ("red", "blue") for number in range(16)))
        await pool.verify()


KUBERNETES = [
    {"name": "low", "value": 1_000, "preemptible": True, "global_default": True},
    {"name": "high", "value": 1_000_000, "preemptible": True},
    {"name": "fixed", "value": 2_000, "preemptible": False},
]


async def test_a_gang_without_gpus_preempts_both_low_priority_jobs(shared: System) -> None:
    async with shared.watch("cpus") as pool:
        await pool.apply(projects(priority_classes=KUBERNETES))
        for name in ("low-1", "low-2"):
            await pool.submit(name, gpus=0, cpus=4, kind="low")
        await pool.until_running("low-1", "low-2")

        await pool.submit("gang", pool.until_signalled(), gpus=0, cpus=3, tasks=2, kind="high")
        decided = await pool.record(decisions.PreemptionDecided)
        assert {choice.job for choice in decided.victims} == {"low-1", "low-2"}
        assert sorted(share.tasks for share in decided.placement) == ["0", "1"]
        assert len({share.node for share in decided.placement}) == 2
        await pool.until_running("gang")

        pool.let_finish("gang")
        await pool.until_running("low-1", "low-2")
        await pool.verify()


async def test_nothing_is_evicted_where_only_one_task_of_a_gang_could_fit(shared: System) -> None:
    async with shared.watch("lonely") as pool:
        await pool.apply(projects(priority_classes=KUBERNETES))
        await pool.submit("fixed", gpus=0, cpus=4, kind="fixed")
        await pool.submit("low", gpus=0, cpus=4, kind="low")
        await pool.until_running("fixed", "low")

        await pool.submit("gang", gpus=0, cpus=3, tasks=2, kind="high")
        refused = await pool.record(decisions.PreemptionRefused)
        assert refused.reason == "impossible"
        assert "'fixed', which is not preemptible" in refused.would_need
        assert pool.running("fixed", "low")
        assert not pool.facts(decisions.PreemptionDecided)
        await pool.verify()


async def test_at_most_two_half_gpus_are_allocated_on_a_device(shared: System) -> None:
    async with shared.watch("shares") as pool:
        script = (
            f'echo "$CUDA_VISIBLE_DEVICES $BAILIFF_GPU_FRACTION $BAILIFF_GPU_MEMORY_BYTES" > {shared.marks}/$BAILIFF_JOB_ID.gpu'
        )
        halves = [f"half-{number}" for number in range(4)]
        for name in halves:
            await share(pool, name, f"{script}; {pool.until_signalled()}")
        await pool.until_running(*halves)
        await pool.until(
            "all jobs have written their environment", lambda _: all((shared.marks / f"{name}.gpu").exists() for name in halves)
        )
        devices = [(shared.marks / f"{name}.gpu").read_text().split() for name in halves]
        assert {tuple(rest) for _, *rest in devices} == {("0.500", str(40 * GIB))}
        assert sorted(device for device, *_ in devices).count(devices[0][0]) == 2
        assert len({device for device, *_ in devices}) == 2

        # Six whole devices are free; the seventh job is pending until a shared device is released.
        await pool.submit("whole", pool.until_signalled(), gpus=7)
        for name in halves:
            pool.let_finish(name)
            await pool.until_ended(name)
        await pool.until_running("whole")
        released = await pool.record(TaskReleased, job=halves[0])
        assert len(released.after) == 1
        assert (await pool.record(decisions.JobEnded, job=halves[0])).outcome == "succeeded"
        await pool.verify()


async def share(pool: Watch, job: str, run: str) -> None:
    """Submit a job with half a GPU."""
    group = TaskGroup(gpu_share_milli=500, cpu_milli=1000, memory_bytes=GIB)
    await pool.request(SubmitJob(demand=JobDemand(job=job, tasks=(group,)), spec=JobSpec(command=run)))

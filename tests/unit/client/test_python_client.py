"""`bailiff.connect` and `bailiff.aio`: jobs, pools, plans, errors; on a pool in memory whose admission answers at once."""

import asyncio
import contextlib
import dataclasses
import inspect
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.unit.client.kit import MINUTE, NOON, SECOND, AnsweringBus, LogWriter, finished_story, preemption_story, quiet_story

import bailiff
from bailiff import aio, sync
from bailiff.cli.job_options import MAPPINGS, JobOptions
from bailiff.client import client as low_level
from bailiff.client.job_parser import GROUP_FIELDS, JOB_FIELDS
from bailiff.client.settings import key_text
from bailiff.fields import JobFields
from bailiff_bus import topics
from bailiff_core.model.identity import IdentityRules
from bailiff_core.model.job_spec import JobSpec, runtime_label
from bailiff_core.model.policy import DEFAULT_POLICY, Project
from bailiff_core.records import facts
from bailiff_core.records.job_requests import SubmitJob
from bailiff_core.records.request import RequestBody
from bailiff_log.keys import key_id, new_private_key

README = Path(__file__).parents[3] / "README.md"
Then = Callable[[LogWriter, str], None]


def does_nothing(log_writer: LogWriter, job: str) -> None:
    """The job stays as it is."""


def runs_and_succeeds(log_writer: LogWriter, job: str) -> None:
    """The job starts and succeeds as soon as it is submitted."""
    log_writer.start(job)
    log_writer.finish(job)


@pytest.fixture
def log_writer() -> LogWriter:
    return quiet_story(LogWriter())


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., None]:
    """Lets `connect` reach this pool. then: what happens to a job once it is submitted."""
    monkeypatch.setenv("BAILIFF_CACHE", str(tmp_path))

    def pool_is(log_writer: LogWriter, then: Then = does_nothing) -> None:
        monkeypatch.setattr(low_level, "bus_of", lambda settings: AnsweringBus(log_writer, then))

    return pool_is


def test_the_ten_lines_of_the_readme(use: Callable[..., None], capsys: pytest.CaptureFixture[str]) -> None:
    (lines,) = re.findall(r"^```python\n(.*?)^```$", README.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    log_writer = LogWriter()
    log_writer.begin(DEFAULT_POLICY.model_copy(update={"projects": (Project(name="vision", created=1),)}))
    log_writer.node("gpu-01")
    use(log_writer, runs_and_succeeds)
    exec(lines, {})
    assert [line.split()[1] for line in capsys.readouterr().out.splitlines()] == [
        "Submitted",
        "Scheduled",
        "Started",
        "Succeeded",
    ]
    (job,) = log_writer.state.jobs.values()
    assert (job.phase, job.project, job.class_name, job.gpus) == ("succeeded", "vision", "train", 4)


@pytest.mark.parametrize(
    ("offered", "given", "runtime"),
    [
        (["kubernetes"], {}, "kubernetes"),
        (["kubernetes"], {"runtime": "docker"}, "docker"),
        (["docker", "kubernetes"], {}, "docker"),
        ([], {}, "docker"),
    ],
)
def test_an_image_runs_on_what_the_pools_nodes_have(
    use: Callable[..., None], offered: list[str], given: dict[str, str], runtime: str
) -> None:
    log_writer, sent = LogWriter(), list[JobSpec]()
    log_writer.begin(DEFAULT_POLICY)
    log_writer.node("gpu-01", labels={runtime_label(name): "true" for name in offered})
    use(log_writer, lambda *_: None)
    original = low_level.Client.requests

    async def requests(client: low_level.Client, pool: str, bodies: Sequence[RequestBody], **more: object) -> object:
        sent.extend(body.spec for body in bodies if isinstance(body, SubmitJob))
        return await original(client, pool, bodies, **more)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch, bailiff.connect() as b:
        patch.setattr(low_level.Client, "requests", requests)
        with contextlib.suppress(bailiff.JobRejected):  # by admission, where no node has the runtime
            b.submit("python train.py", name="train", image="registry.example/train:7", gpus=1, **given)  # type: ignore[arg-type]
    assert [(spec.image, spec.runtime) for spec in sent] == [("registry.example/train:7", runtime)]


def test_a_job_is_watched_and_waited_for(log_writer: LogWriter, use: Callable[..., None]) -> None:
    use(log_writer, runs_and_succeeds)
    seen: list[bailiff.Event] = []
    with bailiff.connect() as b:
        job = b.submit("python train.py", gpus=4, priority_class="train")
        seen += list(job.watch())
        status = job.wait(timeout="2h")
    assert [event.type for event in seen] == ["Submitted", "Scheduled", "Started", "Succeeded"]
    assert str(seen[-1]).split()[1:3] == ["Succeeded", job.name]
    assert (status.state, status.succeeded, status.gpus, status.attempt) == ("succeeded", True, 4.0, 1)
    assert job.name.startswith("train-")


def test_plain_values_reach_the_request(log_writer: LogWriter, use: Callable[..., None], tmp_path: Path) -> None:
    use(log_writer)
    file = tmp_path / "job.yaml"
    file.write_text("name: from-file\ngpus: 2\nmemory: 1GiB\ncommand: [python, train.py]\n")
    with bailiff.connect() as b:
        b.submit(["python", "t.py"], name="half", gpus=0.5, memory="8GiB", grace=timedelta(seconds=30), env={"LR": 0.1}, tasks=2)
        b.submit(bailiff.JobFile(file), gpus=1)
        b.submit({"command": "true", "class": "inference", "run-time-limit": "2h"}, name="as-mapping")
    half, from_file, mapping = (log_writer.state.jobs[name].demand for name in ("half", "from-file", "as-mapping"))
    assert (half.tasks[0].gpu_milli, half.tasks[0].gpu_share_milli, half.tasks[0].memory_bytes) == (0, 500, 8 * 2**30)
    assert (half.grace, half.tasks[0].count) == (30 * SECOND, 2)
    assert (from_file.tasks[0].gpu_milli, from_file.tasks[0].memory_bytes) == (1000, 2**30)
    assert (mapping.priority_class, mapping.run_time_limit) == ("inference", 120 * MINUTE)


def test_every_fault_of_a_job_is_named_before_anything_is_sent(log_writer: LogWriter, use: Callable[..., None]) -> None:
    use(log_writer)
    before = log_writer.head
    with bailiff.connect() as b, pytest.raises(bailiff.InvalidRequest) as caught:
        b.submit("true", gpus="many", memory="8", priority_class="no spaces", gpu="1")  # type: ignore[call-arg]
    names = [fault.partition(":")[0] for fault in caught.value.faults]
    assert names == ["gpu", "gpus", "memory", "priority_class"]
    assert "did you mean gpus?" in caught.value.faults[0]
    assert log_writer.head == before


def test_admission_s_rejection_is_an_error_with_its_code(log_writer: LogWriter, use: Callable[..., None]) -> None:
    use(log_writer)
    with bailiff.connect() as b:
        with pytest.raises(bailiff.JobRejected) as caught:
            b.submit("true", name="train-7")
        assert (caught.value.code, caught.value.job, caught.value.seq) == ("job-exists", "train-7", log_writer.state.seq)
        with pytest.raises(bailiff.PoolNotFound):
            b.nodes(pool="pool-z")
        with pytest.raises(bailiff.JobNotFound):
            b.job("nobody")
        with pytest.raises(bailiff.InvalidRequest, match="there is no state 'runing'"):
            b.jobs(state="runing")
        with pytest.raises(bailiff.Timeout):
            b.job("train-7").wait(timeout=0)


def test_requests_about_a_job(log_writer: LogWriter, use: Callable[..., None]) -> None:
    use(log_writer)
    with bailiff.connect() as b:
        job = b.job("train-7")
        assert job.scale(1).seq <= log_writer.state.seq
        job.evict("urgent demo")
        assert job.status().state == "evicting"
        paused = job.pause("bad data")
        assert job.status().state == "pausing"
        assert paused.pool == "pool-a"
        job.resume()
        job.cancel("done with it")
        assert job.status().state == "cancelling"


def test_jobs_are_found_by_what_they_are(use: Callable[..., None]) -> None:
    log_writer = finished_story(LogWriter())
    use(log_writer)
    with bailiff.connect() as b:
        assert [job.name for job in b.jobs(state=["running", "starting"], sort="-job")] == ["train-8", "train-7"]
        assert [job.name for job in b.jobs("*-2", ended=True)] == ["serve-2"]
        assert [job.name for job in b.jobs(state="succeeded", priority_class="inference")] == ["serve-2"]
        assert [job.name for job in b.jobs(node="gpu-02")] == [job.name for job in b.jobs() if "gpu-02" in job.nodes]
        late = datetime.fromtimestamp((NOON + 2 * MINUTE) / 1e6, UTC)
        assert {job.name for job in b.jobs(ended=True, until=late)} == {"train-7", "done-1"}
        assert {job.name for job in b.jobs(ended=True, since=late)} == {"serve-2", "train-8", "train-9"}
        (done,) = b.jobs("done-1", ended=True)
        assert done.ended_at is not None
        assert done.started_at is not None


def test_what_happened_and_why(use: Callable[..., None]) -> None:
    log_writer = preemption_story(LogWriter())
    use(log_writer)
    with bailiff.connect() as b:
        explained = b.job("train-7").explain(next=True, all=True)
        text = str(explained)
        assert "preempted by serve-2" in text
        assert explained.data["candidates"]
        preempted = [event for event in b.events(job="train-7") if event.type == "Preempted"]
        assert [event.by for event in preempted] == ["serve-2"]
        planned = b.plan(gpus=12, tasks=1, name="too-large")
        assert planned.outcome == "rejected"
        assert "nothing was submitted" in str(planned)
        assert [(node.name, node.gpus) for node in b.nodes()] == [("gpu-01", 8), ("gpu-02", 4)]
        assert [pool.gpus for pool in b.pools()] == [12]
        assert b.projects() == []
        verified = b.audit.verify()
        assert (verified.ok, verified.records, verified.problems) == (True, len(log_writer.records), ())
        policy = b.policy.get()
        document = {**policy.document, "backfill": "strict"}
        assert policy.document["backfill"] == DEFAULT_POLICY.backfill
        with pytest.raises(bailiff.InvalidRequest, match="backfill"):
            b.policy.diff({**policy.document, "backfill": "sometimes"})
        assert b.policy.diff(policy) == []
        assert [each.partition(":")[0] for each in b.policy.diff({**document, "backfill": "greedy"})] == ["backfill"]
        applied = b.policy.apply(policy)
        assert b.policy.apply(policy) == applied  # unchanged
        assert b.policy.get().seq == applied.seq
        others = {**policy.document, "identity": {"keys": {"a" * 43: "bob"}, "operators": ["bob"]}}
        with pytest.raises(bailiff.InvalidRequest, match="You could no longer send the requests of operators"):
            b.policy.apply(others)
        assert b.policy.get().seq == applied.seq
        assert b.policy.apply(others, lose_permissions=True).seq > applied.seq


def test_ones_own_last_key_is_revoked_only_on_purpose(log_writer: LogWriter, use: Callable[..., None], tmp_path: Path) -> None:
    private = new_private_key()
    (tmp_path / "ada.key").write_text(key_text(private))
    rules = DEFAULT_POLICY.model_copy(update={"identity": IdentityRules(keys={key_id(private): "ada"}, operators=("ada",))})
    log_writer.cycle(facts.PolicyApplied(policy=rules))
    use(log_writer)
    with bailiff.connect(key=tmp_path / "ada.key") as b:
        with pytest.raises(bailiff.InvalidRequest, match="You could no longer sign requests"):
            b.policy.revoke_key(key_id(private))
        assert isinstance(log_writer.records[-1].data, facts.PolicyApplied)  # nothing was sent
        for other in ({"key": key_id(new_private_key())}, {"key": key_id(private), "lose_permissions": True}):
            with pytest.raises(bailiff.Rejected, match="this pool has no root key"):  # by admission: it was sent
                b.policy.revoke_key(**other)


def output(log_writer: LogWriter, text: bytes, task: int = 0, offset: int = 0, job: str = "train-7") -> None:
    headers = (("ce_task", b"%d" % task), ("ce_attempt", b"1"), ("ce_node", b"gpu-01"), ("ce_offset", b"%d" % offset))
    log_writer.cluster.store(topics.JOB_LOGS.name, 0, job.encode(), headers, text)


@pytest.mark.slow
def test_output_is_read_in_whole_lines_each_once(log_writer: LogWriter, use: Callable[..., None]) -> None:
    output(log_writer, b"step 1 loss 0.5\nstep 2 lo")
    log_writer.after(MINUTE)
    output(log_writer, b"ss 0.4\n\x1b[31mstep 3\x1b[0m\n", offset=25)
    output(log_writer, b"ss 0.4\n", offset=25)  # an agent that was restarted sends it again
    output(log_writer, b"other task", task=1)
    output(log_writer, b"not mine\n", job="train-8")
    use(log_writer)
    with bailiff.connect() as b:
        job = b.job("train-7")
        assert [str(line) for line in job.logs()] == ["step 1 loss 0.5", "step 2 loss 0.4", "step 3", "other task"]
        assert [line.text for line in job.logs(grep=r"loss 0\.4")] == ["step 2 loss 0.4"]
        assert [line.text for line in job.logs(task=1)] == ["other task"]
        recent = datetime.fromtimestamp((log_writer.now - SECOND) / 1e6, UTC)
        assert [line.text for line in job.logs(since=recent, task=0)] == ["ss 0.4", "step 3"]
        with pytest.raises(bailiff.InvalidRequest, match="not a regular expression"):
            list(job.logs(grep="("))


@pytest.mark.slow
async def test_a_hundred_jobs_are_waited_for_at_the_same_time(log_writer: LogWriter, use: Callable[..., None]) -> None:
    use(log_writer)
    async with aio.connect() as b:
        jobs = [await b.submit("true", name=f"job-{number}") for number in range(100)]
        waits = asyncio.gather(*(job.wait(60) for job in jobs))
        await asyncio.sleep(0)
        for job in reversed(jobs):
            log_writer.start(job.name)
            log_writer.finish(job.name)
        assert {status.state for status in await waits} == {"succeeded"}
        with pytest.raises(bailiff.Timeout):
            await (await b.job("train-7")).wait(0)


async def test_waiting_raises_for_a_job_that_did_not_succeed(log_writer: LogWriter, use: Callable[..., None]) -> None:
    use(log_writer)
    async with aio.connect() as b:
        job = await b.submit("false", name="bad", max_failures=0)
        log_writer.start("bad")
        written = "".join(f"step {number}\n" for number in range(100)) + "x" * 10_000
        written += "\n\x1b[31mCUDA out of memory\x1b[0m"  # in an error, without its colour: cut, it would colour what follows
        headers = {"ce_job": "bad", "ce_attempt": "1", "ce_task": "0", "ce_node": "n", "ce_offset": "0"}
        wire = tuple((name, value.encode()) for name, value in headers.items())
        log_writer.cluster.store(topics.JOB_LOGS.name, 0, b"bad", wire, written.encode())
        log_writer.finish("bad", exit_code=1)
        assert (await job.wait(check=False)).state == "failed"
        with pytest.raises(bailiff.JobFailed, match="bad failed") as raised:
            await job.wait()
    assert raised.value.output[0] == "step 82"
    assert raised.value.output[-2:] == ("x" * 500 + "…", "CUDA out of memory")
    assert len(raised.value.output) == 20
    assert str(raised.value).endswith("  | CUDA out of memory\nits output: bailiff logs bad")


def test_a_script_that_waits_for_a_job_that_fails_does_not_end_with_0(log_writer: LogWriter, use: Callable[..., None]) -> None:
    def fails(log_writer: LogWriter, job: str) -> None:
        log_writer.start(job)
        log_writer.finish(job, exit_code=1)

    use(log_writer, fails)
    with pytest.raises(bailiff.JobFailed, match="bad failed"), bailiff.connect() as b:
        b.submit("false", name="bad", max_failures=0).wait("1m")


def test_an_iteration_that_is_left_early_ends_its_reader(log_writer: LogWriter, use: Callable[..., None]) -> None:
    use(log_writer)
    with bailiff.connect() as b:
        for event in b.job("train-7").watch():
            assert event.job == "train-7"
            break
        assert b.job("train-7").status().state == "running"
    with pytest.raises(RuntimeError, match="the connection is closed"):
        b.nodes()
    b.close()


@pytest.mark.parametrize("name", ["Connection", "Job", "Audit", "Budgets", "PolicyOfPool"])
def test_both_clients_have_the_same_methods_with_the_same_words(name: str) -> None:
    ours, other = getattr(sync, name), getattr(aio, name)
    methods = [each for each in dir(other) if not each.startswith("_")]
    assert methods == [each for each in dir(ours) if not each.startswith("_")]
    for each in methods:
        assert inspect.getdoc(getattr(ours, each)) == inspect.getdoc(getattr(other, each)), each
        assert list(inspect.signature(getattr(ours, each)).parameters.values()) == list(
            inspect.signature(getattr(other, each)).parameters.values()
        ), each
    assert inspect.getdoc(sync.connect) == inspect.getdoc(aio.connect)
    assert inspect.signature(sync.connect).parameters == inspect.signature(aio.connect).parameters


def test_the_fields_of_a_job_file_are_those_of_the_python_client_and_the_options_of_submit() -> None:
    of_a_group = {"order", "sub_group"}
    known = JOB_FIELDS.keys() | GROUP_FIELDS.keys() | {"groups", "sim_run_for"}
    assert {name.replace("priority_class", "class") for name in JobFields.__annotations__} == known - of_a_group - {"command"}
    renamed = {"class_": "class", "near": "topology", "port": "ports", **MAPPINGS}
    assert {renamed.get(option.name, option.name) for option in dataclasses.fields(JobOptions)} <= known


def test_every_public_name_exists_and_is_documented() -> None:
    for name in bailiff.__all__:
        assert getattr(bailiff, name).__doc__, name

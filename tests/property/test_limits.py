"""Limits: rates hold in every window and say truly when to try again; open jobs are counted as if counted anew."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st
from tests.kits.log_builder import Story, digest, policy
from tests.property.busy_stories import Busy

from bailiff_admission.rates import BURST, MOST_KEYS, SECOND, Rates
from bailiff_core.admission import ReceivedRequest, Rejected, admit_received
from bailiff_core.explain.open_job_limits import RECENT, limit_sentences, limits_near, near_limits
from bailiff_core.fold.open_jobs import open_jobs
from bailiff_core.fold.snapshot import SnapshotIndex, from_snapshot, snapshot_parts
from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.job_spec import JobSpec
from bailiff_core.model.policy import Limits
from bailiff_core.records.facts import ClockAdvanced, InputRejected
from bailiff_core.records.job_requests import SubmitJob


@given(
    st.integers(1, 50),
    st.integers(1_024, 50_000),
    st.lists(st.tuples(st.integers(0, 5 * SECOND), st.integers(1, 300_000)), max_size=300),
)
def test_a_rate_holds_in_every_window(requests, of_bytes, arriving):
    rates, limits, now, taken = Rates(), Limits(requests_per_second=requests, bytes_per_second=of_bytes), 0, []
    for pause, size in arriving:
        now += pause
        at = rates.retry_at("ada", limits, size, now)
        if at is None:
            rates.count("ada", limits, size, now)
            taken.append((now, size))
        else:
            assert now < at <= now + 2 * BURST
            assert rates.retry_at("ada", limits, size, at) is None
    for begin in range(0, len(taken), 7):
        window = taken[-1][0] - taken[begin][0]
        assert len(taken) - begin <= (window + BURST) * requests / SECOND + 1
        largest = of_bytes * BURST // SECOND  # a request above a minute's bytes counts as these
        assert sum(min(size, largest) for _, size in taken[begin:]) <= (window + BURST) * of_bytes / SECOND + len(taken)


def test_users_who_pause_take_no_memory():
    rates, limits = Rates(), Limits(requests_per_second=100)
    for number in range(10 * MOST_KEYS):
        rates.count(f"source-{number}", limits, 1, number * SECOND)
    assert len(rates) <= MOST_KEYS + 1


def test_open_jobs_are_counted_as_if_counted_anew():
    random, busy = Random(5), Busy()
    open_jobs(busy.story.state)
    for _ in range(8):
        busy.play([(random.randint(0, 15), random.randint(0, 9), random.randint(0, 7)) for _ in range(10)])
        kept, busy.story.state.indices.open_jobs = busy.story.state.indices.open_jobs, None
        assert +kept == open_jobs(busy.story.state)


def ask(story: Story, job: str, actor: str, auth: str, project: str | None = None) -> Rejected | None:
    demand = JobDemand(job=job, tasks=(TaskGroup(gpu_milli=1000),), project=project)
    body = SubmitJob(demand=demand, spec=JobSpec(command="true"))
    found = admit_received(story.state, ReceivedRequest("/x", job, digest(job), None, actor, auth, body))
    if isinstance(found, Rejected):
        return found
    story.cycle(*found)
    return None


def test_open_jobs_are_limited_by_user_project_and_pool():
    story = Story(policy(projects=[{"name": "vision"}, {"name": "speech"}]))
    rules = policy(
        projects=[{"name": "vision"}, {"name": "speech"}],
        limits={"user": {"open_jobs": 2}, "project": {"open_jobs": 3}, "pool": {"open_jobs": 5}},
    )
    story.apply_policy(rules)
    for job in ("a1", "a2"):
        assert ask(story, job, "ada", "signed", "vision") is None
    found = ask(story, "a3", "ada", "signed", "speech")
    assert (found.code, found.job, found.retry_at) == ("too-many-jobs", "a3", story.state.now + 60 * SECOND)
    assert "user ada: 2 jobs have not ended, and the policy allows 2 (limits.user.open_jobs)" in found.reason
    assert ask(story, "n1", "invented-1", "none", "vision") is None
    assert "limits.project" in ask(story, "n2", "invented-2", "none", "vision").reason
    assert ask(story, "n2", "invented-2", "none", "speech") is None
    assert "names are not verified" in ask(story, "n3", "invented-3", "none", "speech").reason
    assert ask(story, "b1", "bo", "signed", "speech") is None
    assert "limits.pool" in ask(story, "b2", "bo", "signed", "speech").reason
    story.cancel("a1")
    assert ask(story, "b2", "bo", "signed", "speech") is None


def test_explain_names_each_limit_of_open_jobs_from_80_percent_on():
    story = Story(policy(projects=[{"name": "vision"}], limits={"user": {"open_jobs": 5}, "pool": {"open_jobs": 6}}))
    for job in ("a1", "a2", "a3"):
        assert ask(story, job, "ada", "signed", "vision") is None
    job = story.state.jobs["a3"]
    assert [str(each.text) for each in limit_sentences(story.state, job)] == []
    assert ask(story, "a4", "ada", "signed", "vision") is None
    assert [each.text for each in limit_sentences(story.state, job)] == ["User ada: 4 of 5 open jobs (limits.user.open_jobs)."]
    assert ask(story, "a5", "ada", "signed", "vision") is None
    assert [each.text for each in limit_sentences(story.state, job)] == [
        "User ada: 5 of 5 open jobs (limits.user.open_jobs); more are rejected until some have ended.",
        "Pool: 5 of 6 open jobs (limits.pool.open_jobs).",
    ]


def test_the_list_of_projects_names_each_limit_that_is_near_once():
    limits = {"project": {"open_jobs": 2}, "pool": {"open_jobs": 5}}
    story = Story(policy(projects=[{"name": "vision"}, {"name": "speech"}], limits=limits))
    for job, project in (("a1", "vision"), ("a2", "speech"), ("a3", "speech")):
        assert ask(story, job, "ada", "signed", project) is None
    assert near_limits(story.state) == [
        "Project speech: 2 of 2 open jobs (limits.project.open_jobs); more are rejected until some have ended."
    ]
    assert ask(story, "a4", "ada", "signed", "vision") is None
    assert [each.partition(":")[0] for each in near_limits(story.state)] == ["Project vision", "Project speech", "Pool"]


def test_the_list_names_users_that_are_near_and_who_was_above_a_rate():
    story = Story(policy(projects=[{"name": "vision"}], limits={"user": {"open_jobs": 2}}))
    for job, auth in (("a1", "signed"), ("a2", "signed"), ("n1", "none"), ("n2", "none")):
        assert ask(story, job, "ada", auth, "vision") is None
    about = {"topic": "t", "partition": 0, "digest": "0" * 64, "code": "too-many-requests", "reason": "more than limits.user"}
    story.cycle(InputRejected(offset=1, sender="ada", source="/1", count=3, **about))
    story.cycle(InputRejected(offset=2, source="/2", **about))
    full = "2 of 2 open jobs (limits.user.open_jobs); more are rejected until some have ended."
    above = "requests above a limit were rejected, the newest: more than limits.user."
    own = [f"User ada: {full}", f"ada: {above}"]
    assert near_limits(story.state) == [
        f"User ada: {full}",
        f"Users whose names are not verified: {full}",
        f"ada: {above}",
        f"/2 (not verified): {above}",
    ]
    assert limits_near(story.state, "ada", True, "vision") == own
    assert limits_near(story.state, "bo", True, "vision") == []
    story.cycle(ClockAdvanced(), after=RECENT + SECOND)
    assert limits_near(story.state, "ada", True, "vision") == own[:1]


def test_how_near_the_fullest_bucket_is():
    rates, limits = Rates(), Limits(requests_per_second=1)
    assert rates.nearest(0) == (0, "", "")
    for _ in range(30):
        rates.count("ada", limits, 1, 0)
    rates.count("bo", limits, 1, 0)
    assert [rates.nearest(now)[:2] for now in (0, BURST // 4, BURST)] == [(50, "ada"), (25, "ada"), (0, "")]


def test_open_jobs_of_a_snapshot_are_counted_without_decoding_them():
    story = Story(policy(projects=[{"name": "vision"}]))
    for job, user, auth in (("a1", "ada", "signed"), ("a2", "ada", "signed"), ("n1", "ada", "none")):
        assert ask(story, job, user, auth, "vision") is None
    index = SnapshotIndex()
    read = from_snapshot(b"".join(snapshot_parts(story.state, index)), SnapshotIndex.from_data(index.to_data()))
    assert open_jobs(read) == open_jobs(story.state)
    assert open_jobs(read)["user ada"] == 2
    assert read.jobs.decoded == 0

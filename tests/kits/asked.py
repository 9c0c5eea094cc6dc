"""What admission says to a request in the state of a story."""

from tests.kits.log_builder import digest

from bailiff_core.admission import Evidence, ReceivedRequest, admit_received
from bailiff_core.admission.rejected import Rejected
from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.job_spec import JobSpec
from bailiff_core.records.job_requests import SubmitJob

SPEC = JobSpec(command=("python", "train.py"))


def submit(job="new", spec=SPEC, **demand):
    groups = demand.pop("tasks", (TaskGroup(gpu_milli=1000),))
    return SubmitJob(demand=JobDemand(job=job, tasks=groups, **demand), spec=spec)


def ask(story, body, *, id="q-1", content="c", time=None, actor="alice", auth="none", missing=None):  # noqa: A002
    asked = ReceivedRequest("laptop", id, digest(content), time, actor, auth, body)
    return admit_received(story.state, asked, Evidence(digest("spec"), missing=missing))


def refused(story, body, code, **how):
    found = ask(story, body, **how)
    assert isinstance(found, Rejected), found
    assert found.code == code, found
    return found

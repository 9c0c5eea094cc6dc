"""The command of a job in the console: its owner reads it and runs it again; others do not."""

from pathlib import Path

import pytest
import yaml
from tests.unit.client.kit import LogWriter, request_id
from tests.unit.console.actions.kit import running_console, story

from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.job_spec import JobSpec, spec_digest
from bailiff_core.records import facts

SPEC = JobSpec(command=("python", "train.py"), env={"LR": "0.1"})


def remember(log_writer: LogWriter, job: str, user: str) -> None:
    log_writer.specs[job] = SPEC, b"salt"
    demand = JobDemand(job=job, tasks=(TaskGroup(gpu_milli=1000),), priority_class="train", project="vision", ports=(8888,))
    digest = spec_digest(b"salt", SPEC.to_json())
    log_writer.cycle(facts.JobSubmitted(request=request_id(job), demand=demand, spec_digest=digest, user=user))


@pytest.mark.slow
async def test_an_owner_reads_the_command_and_submits_it_again(tmp_path: Path) -> None:
    log_writer = story()
    remember(log_writer, "mine", "ada")
    remember(log_writer, "hers", "bob")
    async with running_console(tmp_path, log_writer) as ada:
        found = await ada.posted("jobs/mine/spec")
        assert found["spec"] == SPEC.to_data()
        again = yaml.safe_load(found["yaml"])
        assert (again["name"], again["command"], again["ports"], again["project"]) == (
            "mine-r2",
            ["python", "train.py"],
            [8888],
            "vision",
        )
        reply = await ada.posted("requests", kind="submit", yaml=found["yaml"])
        assert (reply["accepted"], reply["job"]) == (True, "mine-r2")
        refused = await ada.refused(403, "jobs/hers/spec")
        assert "ada (not verified) may not read the command of hers" in refused["detail"]
        mine = (await ada.console.http.get("/api/pools/pool-a/jobs/mine/permissions")).json()
        assert mine["spec"] is None
        assert mine["attach"] is None
    granted = [record.data for record in log_writer.records if isinstance(record.data, facts.JobSpecGranted)]
    assert [data.job for data in granted] == ["mine"]


@pytest.mark.slow
async def test_reading_a_command_is_a_request_of_the_page_itself(tmp_path: Path) -> None:
    log_writer = story()
    remember(log_writer, "mine", "ada")
    async with running_console(tmp_path, log_writer) as ada:
        ada.headers = {}
        await ada.refused(403, "jobs/mine/spec")
        assert (await ada.console.http.get("/api/pools/pool-a/jobs/mine/spec")).status_code in (404, 405)

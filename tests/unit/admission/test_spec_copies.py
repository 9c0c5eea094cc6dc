"""Who is granted a copy of a job's private part, and who can read it."""

from typing import Any

import pytest
from tests.kits.log_builder import Story, digest
from tests.kits.memory_bus import MemoryBus, MemoryCluster

from bailiff_admission.job_specs import JobSpecs
from bailiff_bus import topics
from bailiff_core.admission import ReceivedRequest, admit_received
from bailiff_core.admission.rejected import Rejected
from bailiff_core.model.identity import IdentityRules, Permissions
from bailiff_core.model.job_spec import JobSpec
from bailiff_core.records.facts import JobSpecGranted
from bailiff_core.records.job_requests import ReadJobSpec
from bailiff_log.encryption import CannotDecrypt
from bailiff_log.rejected_requests import evidence_of
from bailiff_log.spec_copies import decrypt_copy, new_reader

SPEC = JobSpec(command="python train.py", env={"TOKEN": "hush"})


def ask(story: Story, job: str = "low", actor: str = "ada", auth: Any = "signed", key: str = "") -> Any:
    body = ReadJobSpec(job=job, encryption_key=key or new_reader()[1])
    return admit_received(
        story.state,
        ReceivedRequest("laptop", f"s-{story.state.seq}", digest("s"), None, actor, auth, body),
        evidence_of(story.state, body),
    )


@pytest.fixture
def owned(story: Story) -> Story:
    """`low` is a job of ada, `done` an ended one."""
    for job in ("low", "done"):
        story.state.jobs[job].user, story.state.jobs[job].user_verified = "ada", True
    return story


def test_the_owner_is_granted_a_copy_also_of_an_ended_job(owned: Story) -> None:
    for job in ("low", "done"):
        (fact,) = ask(owned, job)
        assert isinstance(fact, JobSpecGranted)
    owned.cycle(fact)  # it is on record, and changes nothing


def test_others_are_not_operators_neither_unless_the_table_says_so(owned: Story) -> None:
    for actor, auth in (("bob", "signed"), ("ada", "none"), ("", "none"), ("ops", "signed")):
        refused = ask(owned, actor=actor, auth=auth)
        assert isinstance(refused, Rejected)
        assert refused.rule in ("permissions.spec", "verified-owner")
    table = IdentityRules(operators=("ops",), permissions=Permissions(spec=("owner", "operator")))
    owned.state.policy = owned.state.rules.model_copy(update={"identity": table})
    assert isinstance(ask(owned, actor="ops")[0], JobSpecGranted)
    assert ask(owned, "nobody").code == "no-such-job"


def test_a_key_for_which_nothing_can_be_encrypted_is_refused(owned: Story) -> None:
    assert ask(owned, key="A" * 43).code == "malformed"


def test_only_the_reader_of_this_grant_reads_the_copy(owned: Story) -> None:
    specs = JobSpecs("pool-a")
    specs.take("low", SPEC.to_json(), b"salt")
    ((_, found),) = specs._specs.items()
    private, public = new_reader()
    copy = specs.copy("low", found.digest, 7, public)
    assert copy.encrypted is not None
    assert b"train.py" not in copy.to_json()
    assert decrypt_copy("pool-a", 7, copy.encrypted, private, found.digest) == SPEC
    for grant, key, expected in ((8, private, found.digest), (7, new_reader()[0], found.digest), (7, private, "0" * 64)):
        with pytest.raises(CannotDecrypt):
            decrypt_copy("pool-a", grant, copy.encrypted, key, expected)


def test_an_erased_spec_is_answered_with_that(owned: Story) -> None:
    assert JobSpecs("pool-a").copy("low", "0" * 64, 7, new_reader()[1]).encrypted is None


async def test_what_was_erased_meanwhile_is_not_handed_out_but_a_running_jobs_spec_stays(owned: Story) -> None:
    """`bailiff audit erase --job` writes to the topic only; nobody can take a running job's spec away by the same."""
    cluster = MemoryCluster(clock=lambda: owned.state.now)
    cluster.create_topics(pools=1)
    bus, specs = MemoryBus(cluster, "admission"), JobSpecs("pool-a")
    await specs.load(bus, owned.state)
    stored = {job: specs.take(job, SPEC.to_json(), b"salt") for job in ("low", "done")}
    for job, (key, headers, value) in stored.items():
        owned.state.jobs[job].spec_digest = (key or b"").decode().rpartition("/")[2]
        cluster.store(topics.JOB_SPECS.name, 0, key, headers, value)
        cluster.store(topics.JOB_SPECS.name, 0, key, (), b"")
    await specs.take_erasures(bus, owned.state)
    assert specs.get("low", owned.state.jobs["low"].spec_digest) is not None
    assert specs.get("done", owned.state.jobs["done"].spec_digest) is None

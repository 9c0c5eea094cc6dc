"""What a node is sent that is lost, or whose key was replaced: nothing of any job, and nothing that its old key can read."""

import pytest
from tests.kits.log_builder import Story
from tests.kits.signed_pool import DAY, POOL, SECRET, SignedPool, in_signed_pool

from bailiff_admission.pending_commands import for_node_alone, pending_clears, start_command
from bailiff_bus import topics
from bailiff_bus.envelope import unwrap
from bailiff_bus.messages.commands import EncryptedStartTask, Fence
from bailiff_core.model.job_spec import JobSpec
from bailiff_core.records import facts
from bailiff_core.records.facts import NodeLost
from bailiff_core.records.pool_requests import EnrolNode
from bailiff_log.encryption import CannotDecrypt
from bailiff_log.start_encryption import decrypt_start


@pytest.fixture
def story() -> Story:
    """One node of eight GPUs."""
    story = Story()
    story.node("n1", gpus=8)
    return story


def starts(pool: SignedPool, job: str) -> list[EncryptedStartTask]:
    """The start commands of this job."""
    bodies = (unwrap(message).body for message in pool.messages(topics.NODE_COMMANDS.name))
    return [body for body in bodies if isinstance(body, EncryptedStartTask) and body.job == job]


@pytest.mark.slow
@in_signed_pool
async def test_a_lost_node_gets_nothing_of_any_job(pool: SignedPool) -> None:
    pool.submit("low", gpus=1)
    await pool.until_running("low")
    pool.submit("later", gpus=4)
    await pool.until("it is pending", lambda state: "later" in state.jobs)
    await pool.stop("agent-n1")
    await pool.until("the node is lost", lambda state: state.nodes[0].state == "lost", within_s=900)
    (lost,) = (m for m in pool.messages(topics.AUDIT.name) if NodeLost.TYPE.encode() in dict(m.headers).values())
    for _ in range(700):  # longer than any command is repeated
        await pool.until("time passes", lambda _: True)
    after = [unwrap(m).body for m in pool.messages(topics.NODE_COMMANDS.name) if m.time > lost.time]
    assert all(isinstance(body, Fence) for body in after), after


@in_signed_pool
async def test_the_key_of_a_replaced_node_reads_no_later_start(pool: SignedPool) -> None:
    pool.submit("early", gpus=1)
    await pool.until_running("early")
    old = pool.credentials("nodes/n1")
    assert decrypt_start(starts(pool, "early")[0], POOL, old.decryption_key).spec.env["SECRET"] == SECRET
    await pool.stop("agent-n1")
    new = pool.certify("others/n1", "node", "n1")
    pool.request(EnrolNode(node="n1", key=new.certificate.key, expires=pool.now() + DAY), pool.root)
    await pool.until("the permit is in the log", lambda state: "n1" in state.permits)
    pool.start_agent("n1", credentials="others")
    await pool.until("n1 is enrolled anew", lambda state: state.enrolled["n1"].key == new.certificate.key)
    pool.submit("late", gpus=1)
    await pool.until_running("late")
    for command in starts(pool, "late"):
        assert decrypt_start(command, POOL, new.decryption_key).spec.env["SECRET"] == SECRET
        with pytest.raises(CannotDecrypt):
            decrypt_start(command, POOL, old.decryption_key)


def test_admission_makes_no_command_for_a_lost_node(story: Story) -> None:
    story.submit("starts", gpus=1)
    (job,) = [story.job("starts")]
    node = story.state.nodes[job.tasks[0].node]
    story.cycle(facts.DeviceClearRequested(request=story.request(), node=node.name, device=node.devices[7].id, reason="repaired"))
    command = start_command(story.state, job, node, job.tasks, JobSpec(command="true"))
    assert for_node_alone(story.state, command) is command
    assert [clear.node for clear in pending_clears(story.state)] == [node.name]
    node.state = "lost"
    assert for_node_alone(story.state, command) is None
    assert list(pending_clears(story.state)) == []

"""A pool with a root key: its services work as in any other, and nobody without a certified key has an effect."""

from typing import Any

import pytest
from tests.kits.signed_pool import DAY, POOL, SECRET, START, SignedPool, in_signed_pool

from bailiff_bus import topics
from bailiff_bus.envelope import unwrap
from bailiff_bus.messages.commands import EncryptedStartTask, Evict, Fence, RecordRef, StartTask, TaskAssignment
from bailiff_bus.messages.progress import StartEviction
from bailiff_bus.messages.proposals import ProposalBatch
from bailiff_bus.messages.reports import ReportBody, TaskExitedReport
from bailiff_bus.port import Message
from bailiff_core.engine import LOGIC
from bailiff_core.model.job_spec import JobSpec
from bailiff_core.model.state import PoolState
from bailiff_core.records.facts import InputRejected, NodeEnrolled, NodeWaiting
from bailiff_core.records.job_requests import CancelJob
from bailiff_core.records.pool_requests import ChangeRootKey, EnrolNode, RevokeKey
from bailiff_log.encryption import CannotDecrypt
from bailiff_log.enrolment import EnrolmentToken
from bailiff_log.keys import key_id, new_private_key
from bailiff_log.root_keys import change_root_key
from bailiff_log.start_encryption import decrypt_start
from bailiff_node_agent.runtime import Running
from bailiff_service.exit_code import ExitCode, MustStop

pytestmark = pytest.mark.slow  # all services and keys of a pool, for each test


def about(pool: SignedPool, node: str = "n1", sender: str = "admission") -> dict[str, Any]:
    """What every command to this node has."""
    known = pool.state.nodes[pool.state.node_numbers[node]]
    return {"node": node, "incarnation": known.incarnation, "sender": sender, "sender_epoch": pool.state.epoch}


def start(pool: SignedPool, sender: str = "admission") -> StartTask:
    """A command to run somebody's program on n1."""
    spec = JobSpec(command="true", runtime="simulated", env={"BAILIFF_SIM_RUN_FOR": "999"})
    return StartTask(
        **about(pool, sender=sender),
        ordered_by=RecordRef(epoch=pool.state.epoch, seq=pool.state.seq),
        job="forged",
        attempt=1,
        tasks=(TaskAssignment(task=0),),
        spec=spec,
        grace=1_000_000,
        master_node="n1",
    )


async def admission_stops_while_a_job_waits(pool: SignedPool) -> None:
    pool.submit("low")
    await pool.until_running("low")
    pool.submit("waits")
    await pool.until("it is pending", lambda state: "waits" in state.jobs)
    await pool.stop("admission")


def runs(pool: SignedPool, job: str, node: str = "n1") -> bool:
    """Whether the machine runs the job, whatever the log says."""
    return bool([state for state in pool.machines[node].machine.states() if state.key.job == job and isinstance(state, Running)])


@in_signed_pool
async def test_a_preemption_from_the_request_to_the_start(pool: SignedPool) -> None:
    pool.submit("low", kind="train")
    await pool.until_running("low")
    pool.submit("high", kind="inference")
    await pool.until_running("high")
    assert pool.state.jobs["low"].phase == "pending"
    for topic in (topics.NODE_COMMANDS, topics.NODE_REPORTS, topics.PROPOSALS, topics.EVICTION_PROGRESS):
        found = [unwrap(message) for message in pool.messages(topic.name)]
        assert found, topic.name
        assert all(envelope.sig for envelope in found), topic.name
    assert pool.facts(InputRejected) == []
    assert pool.agents["agent-n1"]._link.readiness() == {"link": None}


@in_signed_pool
async def test_nobody_but_the_node_and_admission_can_read_what_a_job_is_given(pool: SignedPool) -> None:
    pool.submit("low")
    await pool.until_running("low")
    for topic in topics.TOPICS.values():
        readable = any(SECRET.encode() in message.value for message in pool.messages(topic.name))
        assert readable == (topic is topics.REQUESTS), topic.name
    (command,) = {unwrap(m).body for m in pool.messages(topics.NODE_COMMANDS.name) if "EncryptedStartTask" in str(m.headers)}
    assert isinstance(command, EncryptedStartTask)
    with pytest.raises(CannotDecrypt):
        decrypt_start(command, POOL, pool.certify("nodes/n2", "node", "n2").decryption_key)
    mine = pool.credentials("nodes/n1").decryption_key
    assert decrypt_start(command, POOL, mine).spec.env["SECRET"] == SECRET
    with pytest.raises(CannotDecrypt):
        decrypt_start(command.model_copy(update={"job": "other"}), POOL, mine)


@in_signed_pool
async def test_an_agent_obeys_no_command_without_the_right_key_and_reports_each(pool: SignedPool) -> None:
    stranger = pool.certify("stranger", "admission", root=new_private_key())
    executor, selection = pool.credentials("eviction-executor"), pool.credentials("victim-selection")
    other_pool = pool.certify("other-pool", "admission", pool="pool-b")
    expired = pool.certify("expired", "admission", not_before=START - 2 * DAY, expires=START - DAY)
    forged = {
        "not-signed": pool.signed(None, start(pool)),
        "not signed with the pool's root key": pool.signed(stranger, start(pool)),
        "does not permit to act as admission": pool.signed(executor, start(pool)),
        "StartTask is not a command of executor": pool.signed(executor, start(pool, sender="executor")),
        "does not permit to act as eviction-executor": pool.signed(
            selection,
            Evict(
                **about(pool, sender="executor"),
                ordered_by=RecordRef(epoch=1, seq=1),
                job="x",
                attempt=1,
                tasks=(0,),
                grace=1,
                cause="forged",
            ),
        ),
        "is for pool pool-b": pool.signed(other_pool, start(pool)),
        "is valid from": pool.signed(expired, start(pool)),
        "does not name the command's pool": pool.signed(pool.credentials("admission"), start(pool), subject="pool-a"),
    }
    for number, (reason, (headers, value)) in enumerate(forged.items(), 1):
        pool.send(topics.NODE_COMMANDS.name, headers, value, key="n1")
        assert reason in await pool.until_alarm("commands-refused", f"refused {number} command")
    assert not runs(pool, "forged")
    headers, value = pool.signed(pool.credentials("admission"), start(pool))
    pool.send(topics.NODE_COMMANDS.name, headers, value, key="n1")
    await pool.until("the same command signed by admission runs", lambda _: runs(pool, "forged"))


@in_signed_pool
async def test_nobody_but_the_node_can_keep_a_new_writer_from_fencing_it(pool: SignedPool) -> None:
    """A writer sends no fence to an agent that has rejoined since. Who sends reports without the node's key is not that agent."""

    kept = pool.messages(topics.NODE_REPORTS.name)[0]  # of the agent before this one, signed
    await pool.stop("agent-n1")
    pool.start_agent("n1")
    first = unwrap(kept).body
    assert isinstance(first, ReportBody)
    await pool.until("n1 joins again", lambda state: state.nodes[0].incarnation != first.incarnation)
    await pool.stop("admission")
    pool.send(topics.NODE_REPORTS.name, *pool.signed(None, first.model_copy(update={"incarnation": "f" * 32})), key="n1")
    pool.send(topics.NODE_REPORTS.name, kept.headers, kept.value, key="n1")
    pool.start_admission(name="another")
    await pool.until("the other writer starts", lambda state: state.epoch == 2)
    pool.submit("low")
    await pool.until_running("low")
    fences = [body for m in pool.messages(topics.NODE_COMMANDS.name) if isinstance(body := unwrap(m).body, Fence)]
    assert [(each.sender_epoch, each.incarnation) for each in fences][-1] == (2, pool.state.nodes[0].incarnation)


@in_signed_pool
async def test_a_signed_command_cannot_be_sent_to_another_pool_or_changed(pool: SignedPool) -> None:
    headers, value = pool.signed(pool.credentials("admission"), start(pool), pool="pool-b")
    moved = tuple((name, POOL.encode() if name == "ce_pool" else each) for name, each in headers)
    pool.send(topics.NODE_COMMANDS.name, moved, value, key="n1")
    assert "bad-signature" in await pool.until_alarm("commands-refused")
    assert not runs(pool, "forged")


@in_signed_pool
async def test_a_report_counts_only_with_the_key_of_its_node(pool: SignedPool) -> None:
    pool.submit("low")
    await pool.until_running("low")
    ended = TaskExitedReport(
        node="n1", incarnation=about(pool)["incarnation"], number=10_000, job="low", attempt=1, task=0, exit_code=0
    )
    for sender, code in [
        (None, "not-signed"),
        (pool.certify("n2", "node", "n2"), "second-key"),
        (pool.credentials("admission"), "second-key"),
        (pool.certify("stranger", "node", "n1", root=new_private_key()), "second-key"),
    ]:
        headers, value = pool.signed(sender, ended)
        pool.send(topics.NODE_REPORTS.name, headers, value)
        rejected = await pool.until_rejected(code)
        assert rejected.source is None
        assert "n1" in rejected.reason
    assert pool.state.jobs["low"].phase == "running"


@in_signed_pool
async def test_a_kept_report_that_is_sent_again_has_no_effect(pool: SignedPool) -> None:
    def sent(kind: str) -> list[Message]:
        return [message for message in pool.messages(topics.NODE_REPORTS.name) if kind in str(message.headers)]

    (inventory,) = sent("NodeInventory")
    first = about(pool)["incarnation"]
    await pool.stop("agent-n1")
    pool.start_agent("n1")
    await pool.until("the second agent has joined", lambda _: about(pool)["incarnation"] != first)
    pool.send(topics.NODE_REPORTS.name, inventory.headers, inventory.value)
    assert "announced itself since" in (await pool.until_rejected("replayed")).reason
    assert about(pool)["incarnation"] != first
    await pool.until("it has sent heartbeats", lambda _: sent("NodeHeartbeat"))
    await pool.stop("agent-n1")
    heartbeat = sent("NodeHeartbeat")[-1]

    def silent(state: PoolState) -> bool:
        pool.send(topics.NODE_REPORTS.name, heartbeat.headers, heartbeat.value)
        return state.nodes[0].state == "unreachable"

    await pool.until("the node is unreachable although its heartbeats are repeated", silent)


@in_signed_pool
async def test_only_the_right_service_proposes_and_starts_evictions(pool: SignedPool) -> None:
    progress = StartEviction(job="low", attempt=1, decided_by=1)
    proposal = ProposalBatch(selection=1, computed_at=1, logic=LOGIC, proposals=())
    for topic, body, wrong in [
        (topics.EVICTION_PROGRESS, progress, "victim-selection"),
        (topics.PROPOSALS, proposal, "eviction-executor"),
    ]:
        headers, value = pool.signed(pool.credentials(wrong), body)
        pool.send(topic.name, headers, value)
        await pool.until(
            "it is rejected", lambda _, topic=topic: topic.name in [each.topic for each in pool.facts(InputRejected)]
        )
        assert [each.code for each in pool.facts(InputRejected) if each.topic == topic.name] == ["bad-certificate"]


def enrol(pool: SignedPool, node: str, **key: str) -> None:
    """An operator permits an enrolment for a day."""
    pool.request(EnrolNode(node=node, expires=pool.now() + DAY, **key), pool.root)


def token(pool: SignedPool) -> EnrolmentToken:
    """A new token for nodes of this pool."""
    return EnrolmentToken(new_private_key(), key_id(pool.root))


@in_signed_pool
async def test_a_node_enrols_with_a_token_once(pool: SignedPool) -> None:
    once = token(pool)
    enrol(pool, "n2", token_key=key_id(once.private_key))
    pool.start_agent("n2", token=once.text())
    await pool.until("n2 has joined", lambda state: "n2" in state.node_numbers)
    assert [(each.node, each.by) for each in pool.facts(NodeEnrolled)] == [("n1", "certificate"), ("n2", "token")]
    pool.submit("big", gpus=4)
    pool.submit("bigger", gpus=4)
    await pool.until_running("bigger")
    pool.start_agent("n3", token=once.text())
    await pool.until("n3 waits", lambda state: "n3" in state.waiting_nodes)
    await pool.stop("agent-n2")
    pool.start_agent("n2", credentials="thief", token=once.text(), machine="thief")
    reason = (await pool.until_rejected("second-key")).reason
    assert "bailiff node approve n2 KEY" in reason  # no command to copy: the key may be a stranger's
    assert "n3" not in pool.state.node_numbers
    assert all(once.text().encode() not in m.value for topic in topics.TOPICS for m in pool.messages(topic))


@in_signed_pool
async def test_a_waiting_node_joins_when_an_operator_approves_its_key(pool: SignedPool) -> None:
    folder = pool.folder / "nodes" / "n2"
    folder.mkdir(parents=True)
    (folder / "root.pub").write_text(key_id(pool.root))
    pool.start_agent("n2")
    await pool.until("n2 waits", lambda state: "n2" in state.waiting_nodes)
    enrol(pool, "n2", key=key_id(new_private_key()))
    await pool.until("the permit is in the log", lambda state: "n2" in state.permits)
    for _ in range(700):  # more than a minute: it has announced itself again
        await pool.until("time passes", lambda _: True)
    assert "n2" in pool.state.waiting_nodes
    assert len(pool.facts(NodeWaiting)) == 1
    enrol(pool, "n2", key=pool.state.waiting_nodes["n2"].key)
    await pool.until("n2 has joined", lambda state: "n2" in state.node_numbers)
    assert not pool.state.waiting_nodes
    assert not pool.state.permits


@in_signed_pool
async def test_a_second_key_for_a_name_is_refused_until_an_operator_permits_it(pool: SignedPool) -> None:
    await pool.stop("agent-n1")
    other = pool.certify("others/n1", "node", "n1")
    pool.start_agent("n1", credentials="others")
    refused = await pool.until_rejected("second-key")
    assert "compare the key" in refused.reason
    assert f"approve n1 {other.certificate.key}" not in refused.reason, "no command that approves a stranger's"
    assert pool.state.enrolled["n1"].key != other.certificate.key
    enrol(pool, "n1", key=other.certificate.key)
    await pool.until("n1 is enrolled with it", lambda state: state.enrolled["n1"].key == other.certificate.key)


@in_signed_pool
async def test_a_revoked_node_gets_nothing_and_stops(pool: SignedPool) -> None:
    pool.submit("low", gpus=1)
    await pool.until_running("low")
    pool.request(RevokeKey(key=pool.state.enrolled["n1"].key, reason="stolen"), pool.root)
    pool.submit("later", gpus=1)
    await pool.until("its task was stopped", lambda _: not runs(pool, "low"))
    await pool.until("the node is lost", lambda state: state.nodes[0].state == "lost", within_s=900)
    starts = [unwrap(m).body for m in pool.messages(topics.NODE_COMMANDS.name) if "EncryptedStartTask" in str(m.headers)]
    assert {start.job for start in starts} == {"low"}
    assert [each.code for each in pool.facts(InputRejected)][:1] == ["revoked-key"]


@in_signed_pool
async def test_agents_learn_of_a_revoked_service_and_do_not_forget_it(pool: SignedPool) -> None:
    executor = pool.credentials("eviction-executor")
    pool.request(RevokeKey(key=executor.certificate.key), pool.root)
    assert "was revoked" in str(await pool.error_of("eviction-executor"))
    await pool.stop("agent-n1")
    pool.start_agent("n1")
    first = about(pool)["incarnation"]
    await pool.until("it has joined again", lambda _: about(pool)["incarnation"] != first)
    await pool.stop("admission")  # nobody tells it again
    evict = Evict(
        **about(pool, sender="executor"),
        ordered_by=RecordRef(epoch=1, seq=1),
        job="x",
        attempt=1,
        tasks=(0,),
        grace=1,
        cause="x",
    )
    headers, value = pool.signed(executor, evict)
    pool.send(topics.NODE_COMMANDS.name, headers, value, key="n1")
    found = pool.agents["agent-n1"]._link._agents[POOL, "n1"]
    await pool.until("it has refused the command", lambda _: found._refused_commands)
    assert "was revoked" in found._refusal


@in_signed_pool
async def test_another_root_key(pool: SignedPool) -> None:
    new_root = new_private_key()
    change = change_root_key(pool.root, pool.state.identity, new_root)
    for wrong in (
        change_root_key(new_private_key(), pool.state.identity, new_root),
        change_root_key(pool.root, "0" * 64, new_root),
    ):
        pool.request(ChangeRootKey(change=wrong))
        await pool.until_rejected("bad-signature")
    pool.request(ChangeRootKey(change=change))
    services = ("admission", "victim-selection", "eviction-executor")
    for name in services:
        error = await pool.error_of(name)
        assert isinstance(error, MustStop), error
        assert "not signed with the pool's root key" in str(error)
    for name in services:
        pool.certify(name, name, root=new_root)
    pool.start_admission()
    pool.start_pool_service("victim-selection", pool._select)
    pool.start_pool_service("eviction-executor", pool._execute)
    pool.submit("low")
    await pool.until_running("low")
    old = pool.certify("old", "admission")
    headers, value = pool.signed(old, start(pool))
    pool.send(topics.NODE_COMMANDS.name, headers, value, key="n1")
    assert "not signed with the pool's root key" in await pool.until_alarm("commands-refused")


@in_signed_pool
async def test_another_replica_of_admission_starts_what_the_first_one_accepted(pool: SignedPool) -> None:
    await admission_stops_while_a_job_waits(pool)
    pool.certify("admission-2", "admission")
    pool.start_admission("admission-2", "admission-2", specs_key=pool.folder / "admission" / "specs.key")
    pool.request(CancelJob(job="low"))
    await pool.until_running("waits")


@in_signed_pool
async def test_specs_are_read_with_the_key_before_the_present_one(pool: SignedPool) -> None:
    await admission_stops_while_a_job_waits(pool)
    key = pool.folder / "admission" / "specs.key"
    key.rename(key.with_name("specs.key.old"))
    pool.start_admission()
    pool.request(CancelJob(job="low"))
    await pool.until_running("waits")


@in_signed_pool
async def test_admission_without_the_specs_key_says_so(pool: SignedPool) -> None:
    await admission_stops_while_a_job_waits(pool)
    pool.certify("admission-2", "admission")
    pool.start_admission("admission-2", "admission-2")
    pool.request(CancelJob(job="low"))
    assert "specs.key" in await pool.until_alarm("spec-missing")


@pytest.mark.parametrize("service", ["victim-selection", "eviction-executor"])
@in_signed_pool
async def test_a_service_without_a_valid_certificate_ends_with_a_sentence(pool: SignedPool, service: str) -> None:
    await pool.stop(service)
    pool.certify(service, "notifier", service)
    pool.start_pool_service(service, pool._select if service == "victim-selection" else pool._execute)
    error = await pool.error_of(service)
    assert isinstance(error, MustStop)
    assert error.code == ExitCode.CREDENTIALS
    assert f"does not permit to act as {service}" in str(error)


@in_signed_pool
async def test_nobody_enrols_or_revokes_whose_identity_is_not_verified(pool: SignedPool) -> None:
    """The policy names no operators: everybody may send operators' requests, but who is trusted is the root key's to say."""
    await pool.until("n1 has joined", lambda state: "n1" in state.node_numbers)
    admission = pool.credentials("admission").certificate.key
    for body in (RevokeKey(key=admission), EnrolNode(node="n1", key=key_id(new_private_key()), expires=pool.now() + DAY)):
        for key in (None, new_private_key()):
            pool.request(body, key)
            await pool.until_rejected("not-permitted" if key is None else "unknown-key")
    assert not pool.state.revoked_keys

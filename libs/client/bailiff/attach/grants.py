"""Requests for grants to attach to a task, and the answers of its agent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bailiff.client.answers import ANSWER_WITHIN, require_accepted
from bailiff.client.errors import ClientError, ExitCode
from bailiff_core.records.facts import AttachEnd, AttachEnded
from bailiff_service.tunnel_tls import TunnelIdentity

if TYPE_CHECKING:
    from bailiff.client.client import Client

    from .job_events import JobEvents

AGENT_ANSWERS_WITHIN_S = 10.0
ADVICE: Mapping[AttachEnd, str] = {
    "no-terminal": "only a job that was submitted with --tty or --interactive has one, and none in a pod; "
    "a shell beside it: bailiff shell; its output: bailiff logs",
    "no-shell": "in a pod use kubectl exec, or set agents.mayOpenShells in the chart; beside a process its node needs cgroups "
    "(BAILIFF_CGROUPS)",
    "not-offered": "its operator sets BAILIFF_ATTACH_LISTEN on the node agent",
}
"""What to use or do instead."""


@dataclass(frozen=True, slots=True)
class AgentGrant:
    """The agent waits at this address for the holder of this identity.

    Attributes:
        fingerprint: Fingerprint of the agent's certificate.
    """

    identity: TunnelIdentity
    node: str
    address: str
    fingerprint: str


async def request_grant(
    client: Client, events: JobEvents, pool: str, job: str, task: int, port: int | None = None, *, to_shell: bool = False
) -> AgentGrant:
    """Request a grant for the task's terminal, for its port, or for a shell beside it. Raises `ClientError`."""
    from bailiff.render.record_text.tasks import ATTACH_ENDS
    from bailiff_core.records.job_requests import AttachJob

    identity = TunnelIdentity.new()
    body = AttachJob(job=job, task=task, client_certificate=identity.certificate, port=port, shell=to_shell)
    granted = await require_accepted(client, await client.request(pool, body), ANSWER_WITHIN)
    answer = await events.answer(granted.seq, AGENT_ANSWERS_WITHIN_S)
    where = f"task {task} of {job}"
    if answer is None:
        text = f"granted at {pool}#{granted.seq}, but the node agent of {where} did not answer"
        raise ClientError(ExitCode.NO_ANSWER, text, "check its node: bailiff nodes, bailiff doctor")
    if isinstance(answer, AttachEnded):
        text = f"cannot attach to {where} on {answer.node}: {ATTACH_ENDS[answer.reason]}"
        raise ClientError(ExitCode.REJECTED, text, ADVICE.get(answer.reason, ""))
    return AgentGrant(identity, answer.node, answer.address, answer.fingerprint)


def unreachable(grant: AgentGrant, error: Exception) -> ClientError:
    """The agent cannot be reached from here."""
    text = f"cannot connect to {grant.node} at {grant.address}: {error or 'no response'}"
    advice = "the address must be reachable from here; its operator sets BAILIFF_ATTACH_LISTEN and BAILIFF_ATTACH_ADDRESS"
    return ClientError(ExitCode.UNREACHABLE, text, advice)

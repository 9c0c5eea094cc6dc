"""The user of the command line as the pool sees it."""

from collections.abc import Collection

from bailiff.client.client import Client
from bailiff.client.errors import ClientError, ExitCode
from bailiff_core.model.policy import Policy
from bailiff_core.model.state import PoolState
from bailiff_core.permissions import Requester, job_denial, lost_permissions
from bailiff_core.records.pool_requests import ApplyPolicy, RevokeKey
from bailiff_core.records.request import RequestBody
from bailiff_log.keys import known_keys


def requester_of(client: Client, state: PoolState) -> Requester:
    """Whose requests these are. Without a key that the policy names the name is only claimed."""
    if not client.key_id:
        return Requester(client.actor)
    holder = known_keys(state).get(client.key_id)
    return Requester(client.actor) if holder is None else Requester(client.actor or holder, "signed")


def lost_by(state: PoolState, body: RequestBody, requester: Requester) -> list[str]:
    """What the requester may do now and could no longer do once this request is accepted, in sentences.

    Such a request needs an explicit confirmation: on the command line, from Python, over HTTP and in the console. Raises
    `ClientError` while the pool has no policy, as nobody knows what would be lost.
    """
    if not isinstance(body, ApplyPolicy | RevokeKey):
        return []
    if state.policy is None:
        raise ClientError(
            ExitCode.NO_ANSWER, f"no policy is in force in {state.pool} yet", "is admission running? bailiff doctor"
        )
    before = _without(state.policy, state.revoked_keys)
    after = _without(body.policy, state.revoked_keys) if isinstance(body, ApplyPolicy) else _without(before, [body.key])
    return [f"You could no longer {what}." for what in lost_permissions(before, after, requester)]


def _without(policy: Policy, revoked: Collection[str]) -> Policy:
    keys = {key: holder for key, holder in policy.identity.keys.items() if key not in revoked}
    return policy.model_copy(update={"identity": policy.identity.model_copy(update={"keys": keys})})


def check_may_read_output(client: Client, state: PoolState, job: str) -> None:
    """Raises `ClientError` if the policy does not let this user read the job's output.

    Whoever may read the topic can read it without this command: Kafka's access lists protect it.
    """
    known = state.jobs.get(job)
    if known is None or state.policy is None:
        return
    denial = job_denial(state.policy, requester_of(client, state), "logs", known)
    if denial is not None:
        raise ClientError(ExitCode.REJECTED, f"{denial.reason} (rule {denial.rule})", "sign with your key: --key FILE")

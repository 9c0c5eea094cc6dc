"""The user of the command line as the pool sees it."""

from bailiff.client.client import Client
from bailiff.client.errors import ClientError, ExitCode
from bailiff_core.model.state import PoolState
from bailiff_core.permissions import Requester, job_denial


def requester_of(client: Client, state: PoolState) -> Requester:
    """Whose requests these are. Without a key that the policy names the name is only claimed."""
    from bailiff_log.signatures import known_keys  # imported here: most commands read no keys

    holder = known_keys(state).get(client.key_id) if client.key_id else None
    return Requester(client.actor) if holder is None else Requester(client.actor or holder, "signed")


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

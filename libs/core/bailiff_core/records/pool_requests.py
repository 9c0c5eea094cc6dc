"""Requests about a pool's policy, log and keys, and the record that each leads to."""

from typing import Annotated

from pydantic import Field

from bailiff_core.model.certificate import Key, RootKeyChange
from bailiff_core.model.document import Count, Name, Reason, Seq, Time
from bailiff_core.model.policy import Policy

from .payload import Fact
from .request import Recorded, RequestBody, RequestFact, RequestId, leads_to


class ApplyPolicy(RequestBody):
    """Put this policy in force.

    Attributes:
        expected_revision: Revision that this policy is based on; the request is rejected if another is in force.
        enforce: Evict jobs that this policy would not admit; without it, applying a policy evicts no job.
    """

    VERB = "policy apply"
    policy: Policy
    expected_revision: Count | None = None
    enforce: bool = False
    reason: Recorded = ""


class PolicyApplied(Fact):
    """The policy in force from here on, complete. The first one of a log has no request.

    Attributes:
        enforce: Evict jobs that it would not admit; without it, a policy by itself evicts no jobs.
    """

    policy: Policy
    request: RequestId | None = None
    enforce: bool = False
    reason: Reason = ""

    def to_data(self) -> dict[str, object]:
        """All fields that were written, defaults too: a later release may have other defaults, and other fields."""
        return self.model_dump(mode="json", exclude_unset=True)


leads_to(ApplyPolicy, PolicyApplied)


class AcceptTruncation(RequestBody):
    """Continue with a log that ends before commands that agents have obeyed; an operator's request."""

    VERB = "log accept-truncation"
    epoch: Count
    seq: Seq
    reason: Recorded = ""


class LogTruncated(RequestFact, AcceptTruncation):
    """The log is shorter than the commands that agents executed, up to (epoch, seq); an operator accepted the loss."""


class EnrolNode(RequestBody):
    """Permit one agent to enrol under this node's name, until `expires`; an operator's request.

    Attributes:
        token_key: Public half of a token's key. Either this or `key` is given.
        key: The agent's own public key, as in `bailiff nodes`.
        max_devices: The most GPUs, or MIG devices, that the node may say it has from now on, whoever enrols it. Omitted: as
            before.
    """

    SENDER = "keys"
    VERB = "node approve"
    node: Name
    token_key: Key | None = None
    key: Key | None = None
    expires: Time
    max_devices: Count | None = None


class EnrolmentPermitted(RequestFact, EnrolNode):
    """An operator permits one enrolment under this node's name: to the holder of the token's private key, or to that of `key`.

    token_key, key: public; one of them is set.
    """

    NOT_PUBLISHED = "of participants, not of jobs"


class RevokeKey(RequestBody):
    """Revoke a key: nothing that it signs has an effect any more. It cannot be undone. An operator's request."""

    SENDER = "keys"
    VERB = "key revoke"
    DONE = "{key} is revoked"
    key: Annotated[Key, Field(description="The public key.")]
    reason: Recorded = ""


class KeyRevoked(RequestFact, RevokeKey):
    """Nothing that this key signs from here on has an effect: not its records, commands, reports or requests."""

    NOT_PUBLISHED = "of participants, not of jobs"


class ChangeRootKey(RequestBody):
    """Let another root key certify this pool's participants; signed with the present one; an operator's request."""

    VERB = "key rotate-root"
    change: RootKeyChange


class RootKeyChanged(RequestFact, ChangeRootKey):
    """Another root key certifies this pool's participants from here on. The key before it has signed the change."""

    NOT_PUBLISHED = "of participants, not of jobs"

"""Facts about the log itself: its creation, its writers, its clock, its inputs."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from bailiff_core.model.certificate import Certificate, Key
from bailiff_core.model.document import Count, Hash, Integer, JobName, Name, Text, Time
from bailiff_core.model.privacy import PRIVATE, Treatment, placeholder, pseudonym

from .payload import Fact


class PoolCreated(Fact):
    """The first record of a pool. Its hash is the log's identity.

    Attributes:
        root_key: The public key that certifies this pool's participants; without one, nothing in the log is signed.
        certificate: Certificate of the writer that created the pool.
    """

    format: Literal["bailiff-audit-1"] = "bailiff-audit-1"
    hash: Literal["sha256"] = "sha256"
    pool: Annotated[Name, pseudonym("pool")]
    partition: Annotated[Count, placeholder(0)]
    nonce: Annotated[str, pseudonym("log")]
    root_key: Annotated[Key | None, PRIVATE] = None
    certificate: Certificate | None = None

    def to_data(self) -> dict[str, object]:
        """All fields, defaults too: the log must state its format."""
        return self.model_dump(mode="json", exclude_none=True)


class WriterStarted(Fact):
    """A new writer. It closes a cycle that its predecessor left open, and holds all input positions.

    Attributes:
        certificate: In a pool with a root key, the certificate of the key that signs this writer's records.
    """

    writer: Annotated[str, pseudonym("writer")]
    release: Annotated[str, Treatment("release")]
    digest: Annotated[str, placeholder("0" * 64)]
    logic: Annotated[Count, placeholder(0)]
    state_schema: Count
    inputs: Annotated[dict[str, Count], PRIVATE] = Field(default_factory=dict)
    certificate: Certificate | None = None


class ClockAdvanced(Fact):
    """Log time reached a timer of the core."""


class ClockStepped(Fact):
    """The writer's clock jumped.

    Attributes:
        jump: How far log time moved with it, µs; durations exclude it.
    """

    jump: Integer


class InputsAdvanced(Fact):
    """Input positions advanced without another record; they are in the record's `inputs`.

    Attributes:
        topic_ids: Kafka's ids of topics that are read from now on; positions count for the topic of this id only.
    """

    NOT_PUBLISHED = "positions of topics, which say nothing about jobs"
    topic_ids: Annotated[dict[str, str], PRIVATE] = Field(default_factory=dict)


class InputsLost(Fact):
    """The topic no longer has inputs that were not read yet."""

    NOT_PUBLISHED = "of topics, not of jobs"
    topic: str
    partition: Count
    from_offset: Count
    to_offset: Count


class InputRejected(Fact):
    """An input without effect, and why. Its bytes are in a dead letter; the record has its digest and position.

    Attributes:
        sender: Who has proven by a signature to have sent it: a user, or a service or node by its role. None: nobody has, and
            `source` is a claim of whoever sent it.
        count: Inputs of this sender rejected since the last such record; this one is the newest.
        offsets: Those of all that it counts (`0-3,7`), where they were rejected unread and have no dead letters.
        retry_at: From when on it is worth sending it again.
        rule: For `not-permitted`, the rule that denies the request.
    """

    NOT_PUBLISHED = "invalid input, with names that exist nowhere else; it has no effect"
    ESSENTIAL: ClassVar[bool] = True
    topic: str
    partition: Count
    offset: Count
    digest: Hash
    code: str
    reason: Annotated[str, Field(max_length=2000)]
    source: Annotated[str, Field(max_length=256)] | None = None
    id: Annotated[str, Field(max_length=256)] | None = None
    job: Name | None = None
    count: Annotated[Integer, Field(ge=1)] = 1
    rule: Annotated[str, Field(max_length=64)] | None = None
    offsets: str | None = None
    retry_at: Time | None = None
    sender: Annotated[str, Field(max_length=256)] | None = None


class StateDigest(Fact):
    """SHA-256 of the state after the record before this one.

    Attributes:
        index: SHA-256 of the positions of jobs and requests in its snapshot, and of what many jobs have in common. Readers who
            download a snapshot compare both.
    """

    NOT_PUBLISHED = "the hash of a state with the real names"
    schema_version: Count
    digest: Hash
    index: Hash | None = None


class DecisionFailed(Fact):
    """Deciding about this job failed; it is blocked, other jobs are not affected."""

    job: JobName
    error: Annotated[Text, Field(max_length=2000)]


class TruncationReconciled(Fact):
    """After a truncation, all agents reported their tasks, and tasks unknown to the log have ended: starts continue."""

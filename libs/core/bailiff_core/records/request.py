"""The bases of requests and of their records."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from bailiff_core.model.document import Document, Hash, Reason
from bailiff_core.model.identity import JobAction, SignIn
from bailiff_core.model.message import MessageBody
from bailiff_core.model.privacy import Treatment

from .payload import Fact

Recorded = Annotated[Reason, Field(description="Recorded in the audit log.")]
Sender = JobAction | Literal["submitter", "reserver", "operator", "keys"]


class RequestId(Document):
    """The client's own id of a request: a repeat has no second effect.

    Attributes:
        owner: The verified signer, whose ids are their own: what others send under the same source and id is another request.
            Omitted: of a request that nobody signed, which belongs to whoever uses the source and the id first.
        vouched_by: Who the signed-in user is, according to the signer.
    """

    TREATMENT = Treatment("request")
    source: Annotated[str, Field(min_length=1, max_length=256)]
    id: Annotated[str, Field(min_length=1, max_length=256)]
    digest: Hash
    vouched_by: SignIn | None = None
    owner: Annotated[str, Field(max_length=256)] = ""


class RequestBody(MessageBody):
    """Base of all requests.

    Attributes:
        SENDER: Who may send it: whoever the policy permits this action on the job; `submitter`: whoever may submit to the
            project; `reserver`: whoever may reserve GPUs for the project; `operator`; `keys`: who decides which keys are trusted.
        VERB: The command that sends it, as in `bailiff cancel`.
        DONE: What the command prints when it is accepted, with fields in braces; empty: its command does more than send it.
        vouched_by: In a signed request for a signed-in user: who that is.
    """

    TYPE: ClassVar[str] = ""
    SENDER: ClassVar[Sender] = "operator"
    VERB: ClassVar[str] = ""
    DONE: ClassVar[str] = ""
    vouched_by: SignIn | None = None


RECORDS: dict[type[RequestBody], type[Fact]] = {}
"""All requests, and the record that each leads to."""


def leads_to(body: type[RequestBody], record: type[Fact]) -> None:
    """Registers that this request leads to this record."""
    RECORDS[body] = record


class RequestFact(Fact):
    """Base of the record of a request. The usual one says what the request says: it inherits the fields of the request."""

    KIND: ClassVar[Literal["fact", "decision"]] = "fact"
    vouched_by: ClassVar[None] = None  # the record has it in `request`
    request: RequestId

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        cls.register()
        for base in cls.__bases__:
            if issubclass(base, RequestBody):
                leads_to(base, cls)


def body_of(fact: RequestFact) -> RequestBody:
    """The request that the record repeats."""
    kind = next(base for base in type(fact).__bases__ if issubclass(base, RequestBody))
    return kind.model_construct(**{name: getattr(fact, name) for name in kind.model_fields if name != "vouched_by"})

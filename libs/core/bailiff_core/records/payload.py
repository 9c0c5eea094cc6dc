"""Base classes of record data, and the registry of record types."""

from typing import Any, ClassVar, Literal, Self

from bailiff_core.model.document import Document


class Payload(Document):
    """Data of one record type.

    Attributes:
        ESSENTIAL: The fold needs it; a reader that does not know the type must stop.
        NOT_PUBLISHED: Why no dataset has records of this type; empty: it has what the types of the fields permit.
    """

    NAME: ClassVar[str]
    TYPE: ClassVar[str]
    VERSION: ClassVar[int] = 1
    KIND: ClassVar[Literal["fact", "decision"]]
    ESSENTIAL: ClassVar[bool] = True
    NOT_PUBLISHED: ClassVar[str] = ""

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        if "KIND" not in cls.__dict__:  # else it is a base, such as Fact and Decision
            cls.register()

    @classmethod
    def register(cls) -> None:
        """Names the type after its class, and adds it to the registry."""
        cls.NAME = cls.__name__
        cls.TYPE = f"bailiff.audit.{cls.__name__}.v{cls.VERSION}"
        AUDIT_TYPES[cls.TYPE] = cls

    @classmethod
    def type_name(cls) -> str:
        """Returns the CloudEvents type, such as `bailiff.audit.JobPlaced.v1`."""
        return cls.TYPE


AUDIT_TYPES: dict[str, type[Payload]] = {}


class Fact(Payload):
    """Data of a fact: something that came from outside the core."""

    KIND: ClassVar[Literal["fact", "decision"]] = "fact"

    @classmethod
    def saying(cls, message: Document, **fields: object) -> Self:
        """The fact that says what a message says.

        Args:
            message: A report or a request; what it has by the names of the fact's fields is taken.
            fields: What it does not have, or has in another form.
        """
        said = {name: getattr(message, name) for name in type(message).model_fields if name in cls.model_fields}
        return cls.model_validate({**said, **fields})


class Decision(Payload):
    """Data of a decision: `decide` yields it from the state before it."""

    KIND: ClassVar[Literal["fact", "decision"]] = "decision"

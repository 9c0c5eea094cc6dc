"""Base classes of record data, and the registry of record types."""

from typing import Any, ClassVar, Literal

from bailiff_core.model.document import Document


class Payload(Document):
    """Data of one record type. `ESSENTIAL`: the fold needs it; a reader that does not know the type must stop."""

    NAME: ClassVar[str]
    TYPE: ClassVar[str]
    VERSION: ClassVar[int] = 1
    KIND: ClassVar[Literal["fact", "decision"]]
    ESSENTIAL: ClassVar[bool] = True

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        if "KIND" in cls.__dict__:
            return  # Fact and Decision themselves
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


class Decision(Payload):
    """Data of a decision: `decide` yields it from the state before it."""

    KIND: ClassVar[Literal["fact", "decision"]] = "decision"

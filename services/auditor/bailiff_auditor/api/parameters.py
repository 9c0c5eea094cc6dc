"""Query parameters shared by several endpoints, with validation."""

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from fastapi import Depends, Path, Query, Request
from pydantic import AfterValidator, BeforeValidator

from bailiff_service.problems import invalid, invalid_value

PREFIX = "/v1"
LARGEST = 2**63 - 1
WITHOUT_NUL = r"^[^\x00]*$"
ORDER = "Default: newest first; nodes and queue ascending. Paging is stable while records are archived."


def _moment(value: Any) -> Any:
    if not isinstance(value, str) or not value[:4].isdigit() or "-" not in value:
        raise ValueError("expected a time such as 2026-11-22T08:15:00Z")  # pydantic would take a number for seconds
    return value


def _in_utc(value: datetime) -> datetime:
    try:
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    except OverflowError:
        raise ValueError("expected a time between the years 1 and 9999 in UTC") from None


Moment = Annotated[datetime, BeforeValidator(_moment), AfterValidator(_in_utc)]
Text = Annotated[str, Query(max_length=256, pattern=WITHOUT_NUL)]
PoolName = Annotated[str, Path(description="The pool.", max_length=256, pattern=WITHOUT_NUL, examples=["pool-a"])]
JobName = Annotated[str, Path(description="The job.", max_length=256, pattern=WITHOUT_NUL, examples=["train-1"])]
NodeName = Annotated[str, Path(description="The node.", max_length=256, pattern=WITHOUT_NUL, examples=["node-1"])]
Gpu = Annotated[int, Path(description="The GPU's number on its node.", ge=0, le=1_000_000, examples=[0])]
SeqPath = Annotated[int, Path(description="The record's number.", ge=0, le=LARGEST, examples=[118])]


def several(description: str, example: str) -> Any:
    """A filter that may be repeated; matches any of its values."""
    return Query(description=f"{description} Repeat it for any of several.", examples=[[example]], max_length=100)


Jobs = Annotated[list[Text] | None, several("Only for this job.", "train-1")]
Projects = Annotated[list[Text] | None, several("Only for jobs of this project.", "research")]
Classes = Annotated[list[Text] | None, several("Only for jobs of this priority class.", "train")]
Users = Annotated[list[Text] | None, several("Only for jobs of this user (an opaque id).", "u-7")]
Nodes = Annotated[list[Text] | None, several("Only for this node.", "node-1")]
Types = Annotated[
    list[Text] | None, Query(alias="type", description="Only records of this type. Repeat it for several.", max_length=100)
]
Submission = Annotated[int | None, Query(description="Which submission. Default: the newest.", ge=0, le=LARGEST)]
Actions = Annotated[list[Text] | None, several("Only with this action: allocate, preempt, reclaim, consolidate …", "preempt")]
Reasons = Annotated[list[Text] | None, several("Only for this reason: the record's `cause`, else its `reason`.", "preemption")]
From = Annotated[Moment | None, Query(alias="from", description="At or after this time.", examples=["2026-11-22T08:00:00Z"])]
To = Annotated[Moment | None, Query(description="Before this time.", examples=["2026-11-23T00:00:00Z"])]
At = Annotated[Moment | None, Query(description="At this time. Default: now.", examples=["2026-11-22T08:15:00Z"])]
AtSeq = Annotated[int | None, Query(description="Instead of `at`: after this record.", ge=0, le=LARGEST)]


class Paging:
    """Page size, cursor and order."""

    def __init__(
        self,
        limit: Annotated[int, Query(description="Maximum number of items.", ge=1, le=1000)] = 100,
        cursor: Annotated[
            str | None, Query(description="`next` of the previous page, with otherwise the same parameters.", max_length=2000)
        ] = None,
        order: Annotated[Literal["asc", "desc"] | None, Query(description=ORDER)] = None,
    ) -> None:
        self.limit, self.cursor, self.order = limit, cursor, order


Pages = Annotated[Paging, Depends()]


async def only_known_parameters(request: Request) -> None:
    """Reject unknown parameters: a misspelled filter would silently return too much."""
    described = request.app.openapi()["paths"][PREFIX + request.scope["route"].path]["get"]
    known = sorted(each["name"] for each in described.get("parameters", ()) if each["in"] == "query")
    unknown = [name for name in request.query_params if name not in known]
    if unknown:
        allowed = f"one of {', '.join(known)}" if known else "no parameters"
        raise invalid(*[invalid_value(name, request.query_params[name], allowed) for name in unknown])

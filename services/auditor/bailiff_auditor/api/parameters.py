"""Parameters that several questions share, and what may stand in them."""

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from fastapi import Depends, Path, Query, Request
from pydantic import AfterValidator, BeforeValidator

from .problems import Bad, Fault, shown

PREFIX = "/v1"
LARGEST = 2**63 - 1
WITHOUT_NUL = r"^[^\x00]*$"
ORDER = "Default: newest first; nodes and the queue from the first. What is archived meanwhile is neither repeated nor skipped."


def _moment(value: Any) -> Any:
    if not isinstance(value, str) or not value[:4].isdigit() or "-" not in value:
        raise ValueError("expected a moment as in 2026-11-22T08:15:00Z")  # pydantic would take a number for seconds
    return value


def _in_utc(value: datetime) -> datetime:
    try:
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    except OverflowError:
        raise ValueError("expected a moment between the years 1 and 9999 in UTC") from None


Moment = Annotated[datetime, BeforeValidator(_moment), AfterValidator(_in_utc)]
Text = Annotated[str, Query(max_length=256, pattern=WITHOUT_NUL)]
DomainName = Annotated[str, Path(description="The pool.", max_length=256, pattern=WITHOUT_NUL, examples=["pool-a"])]
JobName = Annotated[str, Path(description="The job.", max_length=256, pattern=WITHOUT_NUL, examples=["train-1"])]
NodeName = Annotated[str, Path(description="The node.", max_length=256, pattern=WITHOUT_NUL, examples=["node-1"])]
Gpu = Annotated[int, Path(description="The GPU's number on its node.", ge=0, le=1_000_000, examples=[0])]
SeqPath = Annotated[int, Path(description="The record's number.", ge=0, le=LARGEST, examples=[118])]


def several(description: str, example: str) -> Any:
    """A filter that may be repeated: any of them."""
    return Query(description=f"{description} Repeat it for any of several.", examples=[[example]], max_length=100)


Jobs = Annotated[list[Text] | None, several("Only of this job.", "train-1")]
Projects = Annotated[list[Text] | None, several("Only of jobs of this project.", "research")]
Classes = Annotated[list[Text] | None, several("Only of jobs of this priority class.", "train")]
Users = Annotated[list[Text] | None, several("Only of jobs of this user, an opaque id.", "u-7")]
Nodes = Annotated[list[Text] | None, several("Only what stood on this node.", "node-1")]
Types = Annotated[
    list[Text] | None, Query(alias="type", description="Only records of this type. Repeat it for several.", max_length=100)
]
Submission = Annotated[int | None, Query(description="Which submission. Default: the newest.", ge=0, le=LARGEST)]
Verbs = Annotated[list[Text] | None, several("Only by this verb: allocate, preempt, reclaim, consolidate …", "preempt")]
From = Annotated[Moment | None, Query(alias="from", description="Not before this moment.", examples=["2026-11-22T08:00:00Z"])]
To = Annotated[Moment | None, Query(description="Before this moment.", examples=["2026-11-23T00:00:00Z"])]
At = Annotated[Moment | None, Query(description="At this moment. Default: now.", examples=["2026-11-22T08:15:00Z"])]
AtSeq = Annotated[int | None, Query(description="Instead of `at`: just after this record.", ge=0, le=LARGEST)]


class Paging:
    """How much is wanted, and from where on."""

    def __init__(
        self,
        limit: Annotated[int, Query(description="At most so many items.", ge=1, le=1000)] = 100,
        cursor: Annotated[
            str | None, Query(description="`next` of the page before, with the same other parameters.", max_length=2000)
        ] = None,
        order: Annotated[Literal["asc", "desc"] | None, Query(description=ORDER)] = None,
    ) -> None:
        self.limit, self.cursor, self.order = limit, cursor, order


Pages = Annotated[Paging, Depends()]


async def only_known_parameters(request: Request) -> None:
    """Refuse what would be passed over: a filter with a slip of the pen would show too much."""
    described = request.app.openapi()["paths"][PREFIX + request.scope["route"].path]["get"]
    known = sorted(each["name"] for each in described.get("parameters", ()) if each["in"] == "query")
    unknown = [name for name in request.query_params if name not in known]
    if unknown:
        allowed = f"one of {', '.join(known)}" if known else "no parameters"
        raise Bad(*[Fault(parameter=shown(name), found=shown(request.query_params[name]), allowed=allowed) for name in unknown])

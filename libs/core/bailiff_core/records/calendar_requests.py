"""Requests about the calendar, and the record that each leads to."""

from typing import Annotated

from pydantic import Field

from bailiff_core.model.document import Duration, Integer, ProjectName, ReservationName, Time
from bailiff_core.model.state import Repeat

from .request import Recorded, RequestBody, RequestFact

MAX_TIMES = 100
Name = Annotated[ReservationName, Field(description="The name of the reservation.")]


class ReserveGpus(RequestBody):
    """Reserve GPUs for the jobs of a project, and of those below it, once or at regular times (UTC).

    Attributes:
        weekdays: Of `weekly`; Monday is 0, none: that of `begin`.
        times: How many times in all.
    """

    SENDER = "reserver"
    VERB = "reserve"
    reservation: Name
    project: ProjectName
    gpus: Annotated[Integer, Field(ge=1, le=1_000_000)]
    begin: Time
    duration: Annotated[Duration, Field(ge=60_000_000)]
    repeat: Repeat = "never"
    weekdays: Annotated[tuple[Annotated[Integer, Field(ge=0, le=6)], ...], Field(max_length=7)] = ()
    times: Annotated[Integer, Field(ge=1, le=MAX_TIMES)] = 1
    reason: Recorded = ""


class GpusReserved(RequestFact, ReserveGpus):
    """GPUs are promised to the jobs of a project at these times."""


class CancelReservation(RequestBody):
    """Cancel a reservation of GPUs: what is left of it."""

    SENDER = "reserver"
    VERB = "unreserve"
    DONE = "the reservation {reservation} is cancelled"
    reservation: Name
    reason: Recorded = ""


class ReservationCancelled(RequestFact, CancelReservation):
    """The GPUs are no longer reserved."""

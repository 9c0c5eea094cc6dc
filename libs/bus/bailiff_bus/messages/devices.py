"""Messages about single devices: quarantine and health reports of agents, and requests to clear a quarantine."""

from typing import Annotated, ClassVar

from pydantic import Field

from bailiff_core.model.document import Count, Duration, OpaqueId
from bailiff_core.records.facts import DeviceReading, UnhealthyReason

from .commands import CommandBody
from .reports import QuarantinedDevice, ReportBody, TaskReport

# --- reports


class DeviceReport(ReportBody):
    """Base of reports about one device."""

    TYPE: ClassVar[str] = ""
    device: OpaqueId


class DeviceQuarantinedReport(DeviceReport):
    """The device was not free in time and is not allocatable."""

    quarantine: QuarantinedDevice


class DeviceClearedReport(DeviceReport):
    """The device is free again, or an operator's request cleared the quarantine (its seq)."""

    reading: DeviceReading
    requested_by: Count | None = None


class DeviceUnhealthyReport(DeviceReport):
    """The driver reports the device as faulty."""

    reason: UnhealthyReason
    code: Count | None = None
    detail: Annotated[str, Field(max_length=1000)] = ""


class DeviceHealthyReport(DeviceReport):
    """The device works again."""

    detail: Annotated[str, Field(max_length=1000)] = ""


class ShareExceededReport(TaskReport):
    """The task uses more memory of a shared device than its share."""

    device: OpaqueId
    used_bytes: Count
    share_bytes: Count


class TaskIdleReport(TaskReport):
    """The task's GPUs have been idle for `duration`; with `idle` false, they are busy again. Sent on change only."""

    idle: bool = True
    duration: Duration = 0


# --- commands


class ClearDevice(CommandBody):
    """Clear the device's quarantine, as requested by an operator (seq of the record)."""

    device: OpaqueId
    requested_by: Count

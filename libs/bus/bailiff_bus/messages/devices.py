"""Messages about single devices: quarantine and health reports of agents, and requests to clear a quarantine."""

from typing import Annotated, ClassVar

from pydantic import Field

from bailiff_core.model.document import Count, Duration, Name, OpaqueId
from bailiff_core.records.facts import DeviceReading, UnhealthyReason

from .commands import CommandBody
from .reports import QuarantinedDevice, ReportBody, TaskReport
from .requests import RequestBody

# --- reports


class DeviceReport(ReportBody):
    """Base of reports about one device."""

    TYPE: ClassVar[str] = ""
    device: OpaqueId


class DeviceQuarantinedReport(DeviceReport):
    """The device was not free in time and is not allocatable."""

    TYPE: ClassVar[str] = "bailiff.DeviceQuarantinedReport.v1"
    quarantine: QuarantinedDevice


class DeviceClearedReport(DeviceReport):
    """The device is free again, or an operator's request cleared the quarantine (its seq)."""

    TYPE: ClassVar[str] = "bailiff.DeviceClearedReport.v1"
    reading: DeviceReading
    requested_by: Count | None = None


class DeviceUnhealthyReport(DeviceReport):
    """The driver reports the device as faulty."""

    TYPE: ClassVar[str] = "bailiff.DeviceUnhealthyReport.v1"
    reason: UnhealthyReason
    code: Count | None = None
    detail: Annotated[str, Field(max_length=1000)] = ""


class DeviceHealthyReport(DeviceReport):
    """The device works again."""

    TYPE: ClassVar[str] = "bailiff.DeviceHealthyReport.v1"
    detail: Annotated[str, Field(max_length=1000)] = ""


class ShareExceededReport(TaskReport):
    """The task uses more memory of a shared device than its share."""

    TYPE: ClassVar[str] = "bailiff.ShareExceededReport.v1"
    device: OpaqueId
    used_bytes: Count
    share_bytes: Count


class TaskIdleReport(TaskReport):
    """The task's GPUs have been idle for `duration`; with `idle` false, they are busy again. Sent on change only."""

    TYPE: ClassVar[str] = "bailiff.TaskIdleReport.v1"
    idle: bool = True
    duration: Duration = 0


# --- commands


class ClearDevice(CommandBody):
    """Clear the device's quarantine, as requested by an operator (seq of the record)."""

    TYPE: ClassVar[str] = "bailiff.ClearDevice.v1"
    device: OpaqueId
    requested_by: Count


# --- requests


class ClearQuarantine(RequestBody):
    """Clear the quarantine of a device, even if processes still run on it. reason: for the record."""

    TYPE: ClassVar[str] = "bailiff.ClearQuarantine.v1"
    node: Name
    device: OpaqueId
    reason: Annotated[str, Field(min_length=1, max_length=1000)]

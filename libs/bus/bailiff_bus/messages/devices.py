"""What is said about single devices: by agents that found them dirty, broken or in order, and by who wants one back."""

from typing import Annotated, ClassVar

from pydantic import Field

from bailiff_core.model.document import Count, Duration, Name, OpaqueId
from bailiff_core.records.facts import DeviceReading, SicknessReason

from .commands import CommandBody
from .reports import DirtyDevice, ReportBody, TaskReport
from .requests import RequestBody

# --- reports


class DeviceReport(ReportBody):
    """Base of reports about one device."""

    TYPE: ClassVar[str] = ""
    device: OpaqueId


class DeviceIsDirty(DeviceReport):
    """The device was not seen free in time and is not given out."""

    TYPE: ClassVar[str] = "bailiff.DeviceIsDirty.v1"
    found: DirtyDevice


class DeviceIsClean(DeviceReport):
    """The device was seen free again, or `asked`, the seq of a person's request, says to take it as it is."""

    TYPE: ClassVar[str] = "bailiff.DeviceIsClean.v1"
    reading: DeviceReading
    asked: Count | None = None


class DeviceIsBroken(DeviceReport):
    """The driver reports that the device does not work."""

    TYPE: ClassVar[str] = "bailiff.DeviceIsBroken.v1"
    reason: SicknessReason
    code: Count | None = None
    detail: Annotated[str, Field(max_length=1000)] = ""


class DeviceWorks(DeviceReport):
    """The device works again."""

    TYPE: ClassVar[str] = "bailiff.DeviceWorks.v1"
    detail: Annotated[str, Field(max_length=1000)] = ""


class TaskOverShare(TaskReport):
    """The task uses more memory of a shared device than it was given."""

    TYPE: ClassVar[str] = "bailiff.TaskOverShare.v1"
    device: OpaqueId
    used_bytes: Count
    share_bytes: Count


class TaskIsIdle(TaskReport):
    """None of the task's GPUs has done anything for `lasted`; or, with `idle` false, they work again. Told on change only."""

    TYPE: ClassVar[str] = "bailiff.TaskIsIdle.v1"
    idle: bool = True
    lasted: Duration = 0


# --- commands


class ClearDevice(CommandBody):
    """Take the device into use again as it is: a person says so, in the record `asked`."""

    TYPE: ClassVar[str] = "bailiff.ClearDevice.v1"
    device: OpaqueId
    asked: Count


# --- requests


class ClearQuarantine(RequestBody):
    """An operator says that a quarantined device may be used again, whatever is seen on it, and why."""

    TYPE: ClassVar[str] = "bailiff.QuarantineCleared.v1"
    node: Name
    device: OpaqueId
    reason: Annotated[str, Field(min_length=1, max_length=1000)]

"""Facts about devices: quarantined, unhealthy, and usable again."""

from typing import ClassVar, Literal

from bailiff_core.model.document import Count, DeviceId, Document, JobName, MeasuredBytes, NodeName, Reason, Seq

from .payload import Fact


class DeviceReading(Document):
    """Reading of a device by the driver.

    Attributes:
        memory_used: Bytes.
    """

    device: DeviceId
    memory_used: MeasuredBytes
    processes: Count


class DeviceFact(Fact):
    """Base of an agent's reports about one device."""

    KIND: ClassVar[Literal["fact", "decision"]] = "fact"
    node: NodeName
    device: DeviceId


QuarantineReason = Literal["not-free", "hung", "foreign"]


UnhealthyReason = Literal["xid", "ecc", "row-remap", "lost", "driver"]


class DeviceQuarantined(DeviceFact):
    """The device was not seen free in time: it is not assigned before `DeviceCleared`.

    Attributes:
        reason: `not-free`: its task is gone, and processes or memory are left; `hung`: its task does not end even when killed;
            `foreign`: processes that belong to no task.
        baseline: Memory in use when it was last free, bytes.
        job: The job that left it so.
    """

    reason: QuarantineReason
    detail: Reason = ""
    reading: DeviceReading
    baseline: MeasuredBytes = 0
    job: JobName | None = None
    attempt: Count | None = None
    task: Count | None = None


class DeviceCleared(DeviceFact):
    """The device may be used again: it was seen free, or an operator requested it.

    Attributes:
        reading: None if a new incarnation of its agent no longer lists it as dirty.
        requested_by: The seq of the operator's request.
    """

    reading: DeviceReading | None = None
    requested_by: Seq | None = None


class DeviceUnhealthy(DeviceFact):
    """The driver reports that the device is unhealthy. Its tasks are evicted.

    Attributes:
        code: The Xid's number.
    """

    reason: UnhealthyReason
    code: Count | None = None
    detail: Reason = ""


class DeviceHealthy(DeviceFact):
    """The device works again."""

    detail: Reason = ""

"""Base class and field types of the documents that users and programs send, and parsers for durations and bytes."""

from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from bailiff_core.canonical import json_bytes

from .privacy import PRIVATE, PUBLIC, Treatment, placeholder, pseudonym

T = TypeVar("T")
MICROSECONDS = {"us": 1, "ms": 1_000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}


class Document(BaseModel):
    """Immutable model with strict types. Unknown fields are ignored, so that fields can be added later.

    Validators are built on first use: a default, or a constant of a module, that is a document is made with `model_construct`.
    Errors do not show the input, which may be secret: their text reaches logs, alarms and crash reports.
    """

    TREATMENT: ClassVar[Treatment] = PUBLIC
    model_config = ConfigDict(frozen=True, extra="ignore", strict=True, defer_build=True, hide_input_in_errors=True)

    def to_data(self) -> dict[str, Any]:
        """Returns the fields as JSON values without those at their default, so that a new field does not change old bytes."""
        data: dict[str, Any] = self.__pydantic_serializer__.to_python(self, mode="json", exclude_defaults=True)
        return data

    def to_json(self) -> bytes:
        """Returns `to_data` as canonical JSON. No document has float fields, so they are not checked for."""
        return json_bytes(self.to_data())


def parse_duration(value: object) -> object:
    """Returns microseconds from `30s`, `500ms`, `5m`, `1h`, `7d`, or an integer in microseconds.

    Raises:
        ValueError: If it is invalid.
    """
    if not isinstance(value, str):
        return value
    text = value.strip()
    digits = len(text) - len(text.lstrip("0123456789"))
    number, unit = text[:digits], text[digits:]
    if not number or unit not in MICROSECONDS:
        raise ValueError(f"{value!r} is not a duration: write a whole number and one of {', '.join(MICROSECONDS)}, as in 30s")
    return int(number) * MICROSECONDS[unit]


def parse_grace(value: object) -> object:
    """A duration, or `never`."""
    return value if value == "never" else parse_duration(value)


BYTES = {"": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}


def parse_bytes(value: object) -> object:
    """Returns bytes from `64GiB`, `512 MiB`, `80GB`, or an integer in bytes.

    Raises:
        ValueError: If it is invalid.
    """
    if not isinstance(value, str):
        return value
    text = value.strip()
    digits = len(text) - len(text.lstrip("0123456789"))
    number, unit = text[:digits], text[digits:].strip()
    if not number or unit not in BYTES:
        raise ValueError(
            f"{value!r} is not an amount of memory: write a whole number and one of {', '.join(BYTES)[2:]}, as in 64GiB"
        )
    return int(number) * BYTES[unit]


SMALLEST_UNITLESS = 2**20  # bytes; a smaller number without a unit is a mistake
SHORTEST_UNITLESS = 1_000_000  # microseconds; as above


def parse_bytes_with_unit(value: object) -> object:
    """As `parse_bytes`, for user input: rejects numbers from 1 to `SMALLEST_UNITLESS` without a unit.

    Raises:
        ValueError: If it is invalid.
    """
    found = parse_bytes(value)
    bare = found if isinstance(value, int) or (isinstance(value, str) and value.strip().isdigit()) else None
    if isinstance(bare, int) and not isinstance(bare, bool) and 0 < bare < SMALLEST_UNITLESS:
        raise ValueError(f"{value} would be {bare} bytes: write the unit, one of {', '.join(BYTES)[2:]}, as in {bare}GiB")
    return found


MAX_INTEGER = 2**53 - 1  # exact in every JSON implementation


def sort_by_name(labels: dict[str, T]) -> dict[str, T]:
    """Returns the mapping sorted by key, the order of canonical JSON."""
    return dict(sorted(labels.items()))


Integer = Annotated[int, Field(ge=-MAX_INTEGER, le=MAX_INTEGER)]
Count = Annotated[Integer, Field(ge=0)]
TEN_YEARS = 315_360_000_000_000  # a time plus several durations still fits `Integer`
Duration = Annotated[Integer, BeforeValidator(parse_duration), Field(ge=0, le=TEN_YEARS)]
Time = Annotated[Integer, Field(ge=0), Treatment("time")]
Name = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9._]{0,61}[a-z0-9])?$")]
Label = Annotated[str, Field(max_length=253)]
GpuModel = Annotated[Label, Treatment("gpu_model")]
Labels = Annotated[dict[Label, Label], AfterValidator(sort_by_name), Treatment("labels")]
ClassName = Annotated[Name, Treatment("priority_class")]
JobName = Annotated[Name, pseudonym("job")]
NodeName = Annotated[Name, pseudonym("node")]
ProjectName = Annotated[Name, pseudonym("project")]
BudgetName = Annotated[Name, pseudonym("budget")]
ReservationName = Annotated[Name, pseudonym("reservation")]
MAX_GPU_HOURS = 10_000_000
"""The most that a budget has in a month: its GPU time in ms stays far below `MAX_INTEGER`."""
Text = Annotated[str, PRIVATE]
Reason = Annotated[Text, Field(max_length=1000)]
Seq = Annotated[Count, Treatment("seq")]
"""The seq of another record."""
MeasuredBytes = Annotated[Count, Treatment("rounded")]
OpaqueId = Annotated[str, Field(min_length=1, max_length=256)]
SnapshotDriver = Annotated[Name, placeholder("driver")]
"""What saves and restores tasks on a node, such as `criu`."""
DeviceId = Annotated[OpaqueId, pseudonym("device")]
MachineId = Annotated[OpaqueId, pseudonym("machine")]
MIG_PATTERN = r"^([1-7]c\.)?[1-7]g\.[1-9][0-9]{0,3}gb(\+[a-z0-9.]{1,32})?$"
MigProfile = Annotated[str, Field(pattern=MIG_PATTERN), Treatment("mig_requested")]
Hash = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$"), placeholder("0" * 64)]

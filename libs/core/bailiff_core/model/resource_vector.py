"""Vectors of GPU, CPU and memory, as used for quotas and usage, and parsers for their written forms."""

from collections.abc import Iterable
from fractions import Fraction
from itertools import zip_longest
from math import ceil, floor, isfinite
from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field, model_validator

from .document import MAX_INTEGER, Document, GpuModel, Integer, parse_bytes_with_unit, sort_by_name
from .privacy import Treatment

UNLIMITED = -1
Amount = int | Fraction
Bound = Annotated[Integer, Field(ge=UNLIMITED)]
Weight = Annotated[Integer, Field(ge=0)]
ByModel = Annotated[dict[GpuModel, Bound], Field(max_length=64), AfterValidator(sort_by_name), Treatment("by_model")]


class ResourceVector(tuple[Amount, ...]):
    """GPUs in thousandths of one, CPU in millicores, memory in bytes; then of each kind of GPU (`gpu_kinds.py`), thousandths.

    Integers, except GPUs where tasks request shares in bytes or MIG devices: then exact fractions. Kinds at the end of which
    there is nothing are left out, so that equal amounts are equal vectors.
    """

    __slots__ = ()

    def __new__(cls, gpu_milli: Amount = 0, cpu_milli: Amount = 0, memory_bytes: Amount = 0, *by_kind: Amount) -> Self:
        return tuple.__new__(cls, (gpu_milli, cpu_milli, memory_bytes, *by_kind))

    def __getnewargs__(self) -> tuple[Amount, ...]:
        return tuple(self)

    @property
    def gpu_milli(self) -> Amount:
        """Of all kinds."""
        return self[0]

    @property
    def cpu_milli(self) -> Amount:
        """Thousandths of a core."""
        return self[1]

    @property
    def memory_bytes(self) -> Amount:
        """Bytes."""
        return self[2]

    def amount(self, at: int) -> Amount:
        """Returns the amount of a resource; 0 where the vector leaves it out."""
        return self[at] if at < len(self) else 0

    def bound(self, at: int) -> Amount:
        """Returns the bound of a resource; `UNLIMITED` where the vector leaves it out."""
        return self[at] if at < len(self) else UNLIMITED

    def with_gpus(self, gpu_milli: Amount) -> "ResourceVector":
        """Returns the same with so many thousandths of GPUs."""
        return ResourceVector(gpu_milli, *self[1:])

    def plus(self, other: "ResourceVector") -> "ResourceVector":
        """Returns the sum."""
        if len(self) == 3 == len(other):
            return _of(ResourceVector, (self[0] + other[0], self[1] + other[1], self[2] + other[2]))
        return shortened(one + two for one, two in zip_longest(self, other, fillvalue=0))

    def minus(self, other: "ResourceVector") -> "ResourceVector":
        """Returns the difference; may be negative."""
        if len(self) == 3 == len(other):
            return _of(ResourceVector, (self[0] - other[0], self[1] - other[1], self[2] - other[2]))
        return shortened(one - two for one, two in zip_longest(self, other, fillvalue=0))

    def within(self, other: "ResourceVector") -> bool:
        """Whether no resource exceeds that of `other`."""
        if len(self) == 3:
            return self[0] <= other[0] and self[1] <= other[1] and self[2] <= other[2]
        return all(one <= two for one, two in zip_longest(self, other, fillvalue=0))

    def times(self, count: int) -> "ResourceVector":
        """Returns the multiple."""
        if len(self) == 3:
            return _of(ResourceVector, (self[0] * count, self[1] * count, self[2] * count))
        return shortened(amount * count for amount in self)


_of = tuple.__new__


def shortened(amounts: Iterable[Amount]) -> ResourceVector:
    """The vector of these amounts, without kinds at the end of which there is nothing."""
    found = list(amounts)
    while len(found) > 3 and not found[-1]:
        found.pop()
    return _of(ResourceVector, found)


ZERO = ResourceVector()
RESOURCES = ("GPUs", "CPUs", "GiB of memory")
_SCALES = (1000, 1000, 2**30)
FIELDS = ("gpu_milli", "cpu_milli", "memory_bytes")
"""Of `Bounds`, in the order of the vector."""


def resource_text(resource: int, amount: Amount, *, up: bool = True) -> str:
    """Returns an amount of a resource (index into `ResourceVector`) in the unit of `RESOURCES`, of kinds GPUs, as `1.5`.

    Usage is rounded up (`up`) and bounds down, so that usage above a bound never prints as the bound.
    """
    exact = Fraction(amount * 1000, _SCALES[resource] if resource < 3 else 1000)
    thousandths = ceil(exact) if up else floor(exact)
    return f"{thousandths // 1000}.{thousandths % 1000:03}".rstrip("0").rstrip(".")


class Bounds(Document):
    """Quota or limit; -1: unlimited. Short form: `{gpus: 4, cpus: 32, memory: 64GiB}`; `gpus: 0.5` is half a GPU.

    Attributes:
        by_model: Thousandths of a GPU of each named GPU model, group of models (`gpu_groups`) or MIG profile, of which it is
            thousandths of a MIG device. Short form: `models: {h100: 8, 1g.10gb: 14}`.
    """

    gpu_milli: Bound | None = None
    cpu_milli: Bound | None = None
    memory_bytes: Bound | None = None
    by_model: ByModel = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _parse(cls, value: Any) -> Any:
        return parse_resources(value)


class Weights(Document):
    """Weights of a project in dividing resources beyond quotas. A single number sets all three."""

    gpu: Weight = 1
    cpu: Weight = 1
    memory: Weight = 1

    @model_validator(mode="before")
    @classmethod
    def _one_for_all(cls, value: Any) -> Any:
        if isinstance(value, dict | Weights):
            return value
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise ValueError(f"expected a whole number ≥ 0, or one for each of gpu, cpu and memory; found {value!r}")
        return {"gpu": value, "cpu": value, "memory": value}


def parse_resources(value: Any) -> Any:
    """Converts `gpus`, `cpus` and `memory` to thousandths and bytes.

    Raises:
        ValueError: If it is invalid.
    """
    if isinstance(value, Document):
        return value
    if not isinstance(value, dict):
        raise ValueError(f"expected amounts such as {{gpus: 4, cpus: 32, memory: 64GiB}}, found {value!r}")
    found = dict(value)
    for short, exact, convert in (
        ("gpus", "gpu_milli", _thousandths),
        ("cpus", "cpu_milli", _thousandths),
        ("memory", "memory_bytes", _bytes),
    ):
        if short in found:
            if exact in found:
                raise ValueError(f"{short} and {exact} set the same value: remove one")
            try:
                found[exact] = convert(found.pop(short))
            except ValueError as error:
                raise ValueError(f"{short}: {error}") from None
    if "models" in found:
        if "by_model" in found:
            raise ValueError("models and by_model set the same value: remove one")
        found["by_model"] = _by_model(found.pop("models"))
    return found


def _by_model(value: Any) -> dict[Any, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"models: expected GPUs by model such as {{h100: 8, a100: 16}}, found {value!r}")
    found = {}
    for name, amount in value.items():
        try:
            found[name] = _thousandths(amount)
        except ValueError as error:
            raise ValueError(f"models: {name}: {error}") from None
    return found


def _thousandths(value: Any) -> Any:
    wanted = f"expected a number such as 4 or 0.5, or -1 for no bound; found {value!r}"
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise ValueError(wanted)
    if value == UNLIMITED:
        return UNLIMITED
    exact = Fraction(str(value)) * 1000
    if not 0 <= exact <= MAX_INTEGER:
        raise ValueError(wanted)
    if exact.denominator != 1:
        raise ValueError(f"{value!r} has more than three decimals")
    return int(exact)


def _bytes(value: Any) -> Any:
    found = parse_bytes_with_unit(value)
    if isinstance(found, bool) or not isinstance(found, int) or not UNLIMITED <= found <= MAX_INTEGER:
        raise ValueError(f"expected memory such as 64GiB, or -1 for no bound; found {value!r}")
    return found

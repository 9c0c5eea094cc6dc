"""Vectors of GPU, CPU and memory, as used for quotas and usage, and parsers for their written forms."""

from fractions import Fraction
from math import ceil, floor, isfinite
from typing import Annotated, Any, NamedTuple

from pydantic import Field, model_validator

from .document import MAX_INTEGER, Document, Integer, parse_bytes_with_unit

UNLIMITED = -1
Amount = int | Fraction
Bound = Annotated[Integer, Field(ge=UNLIMITED)]
Weight = Annotated[Integer, Field(ge=0)]


class ResourceVector(NamedTuple):
    """GPUs in thousandths of one, CPU in millicores, memory in bytes.

    Integers, except GPUs where tasks request shares in bytes: then exact fractions.
    """

    gpu_milli: Amount = 0
    cpu_milli: Amount = 0
    memory_bytes: Amount = 0

    def plus(self, other: "ResourceVector") -> "ResourceVector":
        """Returns the sum."""
        return ResourceVector(self[0] + other[0], self[1] + other[1], self[2] + other[2])

    def minus(self, other: "ResourceVector") -> "ResourceVector":
        """Returns the difference; may be negative."""
        return ResourceVector(self[0] - other[0], self[1] - other[1], self[2] - other[2])

    def within(self, other: "ResourceVector") -> bool:
        """Whether no resource exceeds that of `other`."""
        return self[0] <= other[0] and self[1] <= other[1] and self[2] <= other[2]

    def times(self, count: int) -> "ResourceVector":
        """Returns the multiple."""
        return ResourceVector(self[0] * count, self[1] * count, self[2] * count)


ZERO = ResourceVector()
RESOURCES = ("GPUs", "CPUs", "GiB of memory")
_SCALES = (1000, 1000, 2**30)


def resource_text(resource: int, amount: Amount, *, up: bool = True) -> str:
    """Returns an amount of a resource (index into `ResourceVector`) in the unit of `RESOURCES`, as `1.5`.

    Usage is rounded up (`up`) and bounds down, so that usage above a bound never prints as the bound.
    """
    exact = Fraction(amount * 1000, _SCALES[resource])
    thousandths = ceil(exact) if up else floor(exact)
    return f"{thousandths // 1000}.{thousandths % 1000:03}".rstrip("0").rstrip(".")


class Bounds(Document):
    """Quota or limit; -1: unlimited. Short form: `{gpus: 4, cpus: 32, memory: 64GiB}`; `gpus: 0.5` is half a GPU."""

    gpu_milli: Bound | None = None
    cpu_milli: Bound | None = None
    memory_bytes: Bound | None = None

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

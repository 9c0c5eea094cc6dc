"""Histogram of durations in milliseconds. Buckets are logarithmic, 1/32 of their value wide: percentiles within 3 %."""

from collections.abc import Iterable

FINE = 32  # below, one bucket per millisecond; above, this many buckets per doubling
FINE_BITS = FINE.bit_length() - 1


def bucket_of(milliseconds: int) -> int:
    """Index of the duration's bucket; monotonic in the duration."""
    octave = max(0, milliseconds.bit_length() - FINE_BITS - 1)
    return octave * FINE + (milliseconds >> octave)


def longest_in(bucket: int) -> int:
    """The longest duration in the bucket, ms."""
    octave = max(0, bucket // FINE - 1)
    return ((bucket - octave * FINE + 1) << octave) - 1


def percentile(counts: Iterable[tuple[int, int]], percent: int) -> int | None:
    """Upper bound of the percentile in ms; None if empty. counts: (bucket, count), in any order."""
    ordered = sorted(counts)
    rank = -(-sum(count for _, count in ordered) * percent // 100)
    for bucket, count in ordered:
        rank -= count
        if rank <= 0:
            return longest_in(bucket)
    return None

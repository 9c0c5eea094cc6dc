"""Calendar months in UTC, from µs since 1970, by integer arithmetic. A month is a number: year × 12 + month - 1."""

DAY = 86_400_000_000  # µs
MARCH = 3
DAYS_IN_400_YEARS = 146_097
TO_MARCH_OF_0 = 719_468  # days from 0000-03-01 to 1970-01-01


def month_of(time: int) -> int:
    """The month of this time, µs."""
    day = time // DAY + TO_MARCH_OF_0
    era, day = divmod(day, DAYS_IN_400_YEARS)
    year = (day - day // 1_460 + day // 36_524 - day // 146_096) // 365
    day -= 365 * year + year // 4 - year // 100
    since_march = (5 * day + 2) // 153
    return (era * 400 + year) * 12 + since_march + MARCH - 1  # January and February are the last ones of such a year


def month_begins(month: int) -> int:
    """When the month begins, µs."""
    year, since_march = divmod(month - (MARCH - 1), 12)
    era, year = divmod(year, 400)
    days = era * DAYS_IN_400_YEARS + 365 * year + year // 4 - year // 100 + (153 * since_march + 2) // 5
    return (days - TO_MARCH_OF_0) * DAY


def month_text(month: int) -> str:
    """`2026-12`."""
    year, at = divmod(month, 12)
    return f"{year}-{at + 1:02}"

"""Headers in the archive: every byte comes back in its order, and bytes that are not headers are refused."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bailiff_log.archive import pack_headers, unpack_headers

HEADERS = st.lists(st.tuples(st.text(st.characters(codec="utf-8"), max_size=9), st.binary(max_size=9))).map(tuple)


@given(HEADERS)
@pytest.mark.slow
def test_all_headers_come_back(headers: tuple[tuple[str, bytes], ...]) -> None:
    assert unpack_headers(pack_headers(headers)) == headers


@pytest.mark.slow
@given(HEADERS.filter(len), st.data())
def test_what_was_cut_is_no_headers_or_other_ones(headers: tuple[tuple[str, bytes], ...], data: st.DataObject) -> None:
    raw = pack_headers(headers)
    cut = raw[: data.draw(st.integers(0, len(raw) - 1))]
    with contextlib.suppress(ValueError):
        assert unpack_headers(cut) != headers


def test_a_long_value_comes_back() -> None:
    headers = (("content-type", b"x" * 70_000), ("content-type", b""))
    assert unpack_headers(pack_headers(headers)) == headers
    with pytest.raises(ValueError, match="inside a name or a value"):
        unpack_headers(pack_headers(headers)[:-70_005])

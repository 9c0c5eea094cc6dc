"""Files in object storage, through fsspec, with the few operations of `Path` that segments need.

Errors are `OSError`, as those of files; a client that cannot log on or reach the storage at all gets a `ClientError`.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, cast

from bailiff.client import safe_write
from bailiff.client.errors import ClientError, ExitCode, UsageError
from bailiff_log.extras import how_to_install

INSTALL = how_to_install("s3")
T = TypeVar("T")


class ObjectPath:
    """An object, or a prefix of objects: `s3://bucket/prefix`. Any address that fsspec knows."""

    def __init__(self, address: str) -> None:
        self.address = address.rstrip("/")
        if "/" not in self.address.partition("://")[2]:
            raise UsageError(f"{address}: expected BUCKET/PREFIX, as in s3://audit/pool-a")

    def __str__(self) -> str:
        return self.address

    def __truediv__(self, name: str) -> "ObjectPath":
        return ObjectPath(f"{self.address}/{name}")

    @property
    def name(self) -> str:
        """The last part."""
        return self.address.rpartition("/")[2]

    @property
    def parent(self) -> "ObjectPath":
        """The prefix that it is in."""
        return ObjectPath(self.address.rpartition("/")[0])

    def read_bytes(self) -> bytes:
        """The whole object."""
        return cast(bytes, self._call(lambda files: files.cat_file(self._key)))

    def open(self, mode: str = "rb") -> BinaryIO:
        """The object, for reading from its beginning to its end."""
        return cast(BinaryIO, self._call(lambda files: files.open(self._key, mode)))

    def put(self, raw: bytes) -> None:
        """Writes the object. It is there as a whole or not at all: an upload that was cut off leaves the one before."""
        self._call(lambda files: files.pipe_file(self._key, raw))

    @property
    def _key(self) -> str:
        return self.address.partition("://")[2]

    def _call(self, action: Callable[[Any], T]) -> T:
        try:
            return action(_files(self.address.partition("://")[0]))
        except (ClientError, OSError):
            raise
        except Exception as error:
            if type(error).__module__.partition(".")[0] not in ("botocore", "aiobotocore", "aiohttp", "fsspec", "s3fs"):
                raise
            text = f"{self.address}: {error or type(error).__name__}"
            raise ClientError(ExitCode.UNREACHABLE, text, _advice(type(error).__name__)) from None


AnyPath = Path | ObjectPath


def path_of(text: str) -> AnyPath:
    """The path of a file, or of an object: with `://`."""
    return ObjectPath(text) if "://" in text else Path(text)


def put(path: AnyPath, raw: bytes) -> None:
    """Writes a file or an object, as a whole or not at all. Raises `ClientError`."""
    if isinstance(path, Path):
        safe_write.put(path, raw)
        return
    try:
        path.put(raw)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror or error}") from None


def _files(scheme: str) -> Any:
    try:
        import fsspec

        return fsspec.filesystem(scheme, use_listings_cache=False)
    except ImportError as error:
        raise UsageError(f"{scheme}:// needs a package that is not installed: {error}", INSTALL) from None
    except ValueError as error:
        raise UsageError(f"{scheme}://: {error}", "use s3://BUCKET/PREFIX") from None


def _advice(error: str) -> str:
    if "Credential" in error:
        return "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
    return "the address of another storage than Amazon's: AWS_ENDPOINT_URL=https://…"

"""Files of a snapshot that are kept compressed or encrypted: by Zstandard, then ChaCha20-Poly1305, in parts.

The key is a new one for each snapshot, so that its nonces, the numbers of the file and of the part, never come twice. The
manifest has it once for each node that may read it, encrypted for that node's key (HPKE), and the length and the SHA-256 of each
part: what is read is compared with that first. The digest of the manifest is on record.
"""

import errno
import hashlib
import os
from collections import deque
from collections.abc import Generator, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import cramjam
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from bailiff_bus.messages.commands import SnapshotForm
from bailiff_log.credentials import encryption_key_id
from bailiff_log.encryption import CannotDecrypt, decrypt, encrypt
from bailiff_node_agent.runtime.supervisor import safe_open
from bailiff_node_agent.runtime.supervisor.criu import INVENTORY

from .bad_image import BadImage

PART = 8 << 20
LEVEL = 1
PURPOSE = "the key of a snapshot"
Facts = Mapping[str, Any]


@dataclass(frozen=True)
class Coding:
    """How the parts of one snapshot are made from those of its files, and read again."""

    compressed: bool
    cipher: ChaCha20Poly1305 | None

    def coded(self, content: bytes, file: int, part: int) -> bytes:
        """The part as it is kept."""
        if self.compressed:
            content = bytes(cramjam.zstd.compress(content, level=LEVEL))
        return content if self.cipher is None else self.cipher.encrypt(_nonce(file, part), content, None)

    def read(self, kept: bytes, file: int, part: int, size: int) -> bytes:
        """The part of the file, of this size. Raises `ValueError`."""
        try:
            content = kept if self.cipher is None else self.cipher.decrypt(_nonce(file, part), kept, None)
            if self.compressed:
                plain = bytearray(size)
                content = bytes(plain[: cramjam.zstd.decompress_into(content, plain)])
        except (InvalidTag, cramjam.DecompressionError):
            raise ValueError("it cannot be read with this key") from None
        if len(content) != size:
            raise ValueError("it has another size")
        return content


def _nonce(file: int, part: int) -> bytes:
    return file.to_bytes(4, "big") + part.to_bytes(8, "big")


PLAIN = Coding(compressed=False, cipher=None)


def keep(form: SnapshotForm, names: list[str], at: int, into: int, pool: ThreadPoolExecutor) -> tuple[Facts, dict[str, Facts]]:
    """Write these files into that folder in this form, on disk. What the manifest says of the form, and of each.

    Raises `OSError`, `BadImage`.
    """
    coding, about = _new_coding(form)
    return about, {name: _keep(_of(coding, name), name, number, at, into, pool) for number, name in enumerate(names)}


def read(
    about: Facts, files: Mapping[str, Facts], decryption_key: bytes | None, at: int, into: int, pool: ThreadPoolExecutor
) -> None:
    """Write the files, of which the manifest says this, into that folder as they were. Raises `OSError`, `BadImage`."""
    coding = _known_coding(about, decryption_key)
    for number, name in enumerate(sorted(files)):
        _read(_of(coding, name), name, number, files[name], at, into, pool)


def _of(coding: Coding, name: str) -> Coding:
    """That of one file: who removes a snapshot reads the inventory, which says nothing of the program."""
    return PLAIN if name == INVENTORY else coding


def _new_coding(form: SnapshotForm) -> tuple[Coding, Facts]:
    """That of a new snapshot, and what its manifest says of it. Raises `BadImage`."""
    if form.readers == ():
        raise BadImage("the policy wants it encrypted, and this node has no key")
    if form.readers is None:
        return Coding(form.compressed, None), {"compressed": form.compressed}
    key = ChaCha20Poly1305.generate_key()
    keys = {reader: encrypt(key, reader, PURPOSE) for reader in form.readers}
    return Coding(form.compressed, ChaCha20Poly1305(key)), {"compressed": form.compressed, "keys": keys}


def _known_coding(about: Facts, decryption_key: bytes | None) -> Coding:
    """That of a snapshot whose manifest says this of it, for the node with this key. Raises `BadImage`."""
    keys = about.get("keys")
    if keys is None:
        return Coding(about["compressed"], None)
    own = encryption_key_id(decryption_key) if decryption_key is not None else ""
    if decryption_key is None or own not in keys:
        raise BadImage("it was encrypted for other nodes than this one")
    try:
        return Coding(about["compressed"], ChaCha20Poly1305(decrypt(keys[own], decryption_key, PURPOSE)))
    except CannotDecrypt:
        raise BadImage("its key cannot be decrypted") from None


def _keep(coding: Coding, name: str, number: int, at: int, into: int, pool: ThreadPoolExecutor) -> Facts:
    source = safe_open.open_file(at, name)
    try:
        size, parts = os.fstat(source).st_size, []
        target = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=into)
        with os.fdopen(target, "wb") as file:
            jobs = (pool.submit(_kept_part, coding, source, number, part) for part in range(-(-size // PART)))
            with closing(_in_turn(jobs)) as made:
                for content, digest in made:
                    file.write(content)
                    parts.append([len(content), digest])
            file.flush()
            os.fsync(target)
    finally:
        os.close(source)
    return {"size": size, "parts": parts}


def _kept_part(coding: Coding, source: int, number: int, part: int) -> tuple[bytes, str]:
    content = coding.coded(os.pread(source, PART, part * PART), number, part)
    return content, hashlib.sha256(content).hexdigest()


def _in_turn(jobs: Iterable[Future[Any]], ahead: int = 2 * (os.cpu_count() or 1)) -> Generator[Any]:
    """Their results, of which few wait in memory. None is at work any more once it is closed."""
    waiting = deque[Future[Any]]()
    try:
        for job in jobs:
            waiting.append(job)
            if len(waiting) > ahead:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        wait(waiting)


def _read(coding: Coding, name: str, number: int, about: Mapping[str, Any], at: int, into: int, pool: ThreadPoolExecutor) -> None:
    size, lengths = about["size"], [length for length, _ in about["parts"]]
    source = safe_open.open_file(at, name)
    try:
        if os.fstat(source).st_size != sum(lengths) or len(lengths) != -(-size // PART):
            raise BadImage(f"{name} was changed")
        target = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=into)
        jobs = list[Future[None]]()
        try:
            starts = accumulate(lengths, initial=0)
            parts = [(number, part, start, *each) for part, (start, each) in enumerate(zip(starts, about["parts"], strict=False))]
            jobs = [pool.submit(_read_part, coding, source, target, size, *each) for each in parts]
        finally:
            wait(jobs)  # another file may get the number of the handle
            os.close(target)
        for job in jobs:
            job.result()
    except ValueError:
        raise BadImage(f"{name} was changed") from None
    finally:
        os.close(source)


def _read_part(
    coding: Coding, source: int, target: int, size: int, number: int, part: int, start: int, length: int, digest: str
) -> None:
    kept, at = os.pread(source, length, start), part * PART
    if hashlib.sha256(kept).hexdigest() != digest:
        raise ValueError("it has another digest")
    content = coding.read(kept, number, part, min(PART, size - at))
    if os.pwrite(target, content, at) != len(content):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

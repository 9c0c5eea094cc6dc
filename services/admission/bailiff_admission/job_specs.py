"""Private parts of jobs: written to `bailiff.job-specs` before the record that references them, erased some time after the end.

The audit log holds SHA-256(salt ‖ spec) only; the salt is stored with the spec. The digest is part of the message key, so that
a writer that was replaced and reads the same request with another salt does not overwrite the spec in the log. In a pool with a
root key salt and spec are encrypted with a key that all replicas of admission share.
"""

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from bailiff_bus import topics
from bailiff_bus.messages.spec_copies import JobSpecCopy
from bailiff_bus.port import Batch, Bus, OutgoingMessage, Producer
from bailiff_core.canonical import canonical_json
from bailiff_core.model.job_spec import JobSpec, spec_digest
from bailiff_core.model.state import ENDED, PoolState
from bailiff_log.credentials import encryption_key_id
from bailiff_log.encryption import CannotDecrypt, decrypt, encrypt
from bailiff_log.spec_copies import encrypt_copy
from bailiff_service.logs import logger

MAX_UNNAMED_BYTES = 64 << 20  # of specs that no job of the log has, as are left by a writer that was replaced


@dataclass(frozen=True, slots=True)
class StoredSpec:
    """A spec with its message key, salt (hex), digest, and the canonical JSON that the digest covers.

    Of a pool with 100,000 jobs there are as many: they are kept as text.
    """

    key: bytes
    salt: str
    digest: str
    text: bytes

    @property
    def spec(self) -> JobSpec:
        """The spec, read from its text."""
        return JobSpec.model_validate_json(self.text)


@dataclass(frozen=True, slots=True)
class SpecsKeys:
    """X25519 keys of job specs: the present one, and earlier ones, with which older specs can be read."""

    present: bytes = field(repr=False)
    earlier: tuple[bytes, ...] = field(default=(), repr=False)


class JobSpecs:
    """The specs of one pool's jobs, by job and digest. keys: None in a pool without a root key."""

    def __init__(self, pool: str, keys: SpecsKeys | None = None) -> None:
        self._pool, self._keys = pool, keys
        self._specs: dict[tuple[str, str], StoredSpec] = {}
        self._undecryptable: set[str] = set()
        self._read_to: dict[tuple[str, int], int] = {}  # by the topic's id and partition
        self.replaced: list[StoredSpec] = []

    def get(self, job: str, digest: str) -> StoredSpec | None:
        """The job's spec with this digest, unless it was erased."""
        return self._specs.get((job, digest))

    def why_missing(self, job: str) -> str:
        """Why `get` returns None for this job."""
        if job in self._undecryptable:
            return "its spec was encrypted with another specs.key: all replicas of admission need the same one"
        return "its spec is missing"

    async def load(self, bus: Bus, state: PoolState) -> None:
        """Read the whole topic. Of the values of one key the newest that has the key's digest counts.

        An older one counts where somebody wrote over it, or erased it although its job has not ended; `replaced` names these.
        What no job of the log has is read to be erased, up to a size: whoever may write the topic can fill it.
        """
        active = self._active_keys(state)
        named = {
            f"{self._pool}/{job.id}{digest}".encode() for job in state.jobs.values() for digest in ("", f"/{job.spec_digest}")
        }
        found, written_over = dict[bytes, StoredSpec](), set[bytes]()
        unnamed, room = dict[bytes, int](), MAX_UNNAMED_BYTES
        async for key, value in self._read_topic(bus):
            before = found.get(key)
            if key not in named:
                room += unnamed.pop(key, 0)
                if len(value) > room:
                    continue
                room -= unnamed.setdefault(key, len(value))
            stored = self._decoded(key, value, is_wanted=key in named and before is None) if value else None
            if stored is not None:
                found[key] = stored
                written_over.discard(key)
            elif not value and key not in active:
                found.pop(key, None)
                written_over.discard(key)
            elif before is not None:
                written_over.add(key)
        self._specs |= {(_job_of(stored.key), stored.digest): stored for stored in found.values()}
        self.replaced += [found[key] for key in sorted(written_over)]

    async def take_erasures(self, bus: Bus, state: PoolState) -> None:
        """Forget what others have erased since, such as `bailiff audit erase`; not the specs of jobs that have not ended."""
        active, held = self._active_keys(state), {stored.key for stored in self._specs.values()}
        erased = {key async for key, value in self._read_topic(bus) if not value and key in held and key not in active}
        self._specs = {at: stored for at, stored in self._specs.items() if stored.key not in erased}

    def _active_keys(self, state: PoolState) -> set[bytes]:
        return {f"{self._pool}/{job.id}/{job.spec_digest}".encode() for job in state.jobs.values() if job.phase not in ENDED}

    async def _read_topic(self, bus: Bus) -> AsyncGenerator[tuple[bytes, bytes], None]:
        """Key and value of each message of this pool that was not read yet; an empty value erases."""
        spans = await bus.spans(topics.JOB_SPECS.name)
        begins = {
            partition: max(span.begin, self._read_to.get((span.topic_id, partition), 0)) for partition, span in spans.items()
        }
        reader = await bus.reader([(topics.JOB_SPECS.name, partition, begin) for partition, begin in begins.items()])
        try:
            remaining = {partition: span.end for partition, span in spans.items() if span.end > begins[partition]}
            while remaining:
                for message in await reader.read():
                    if message.key is not None and message.key.startswith(f"{self._pool}/".encode()):
                        yield message.key, message.value
                remaining = {
                    partition: end
                    for partition, end in remaining.items()
                    if reader.position(topics.JOB_SPECS.name, partition) < end
                }
        finally:
            await reader.close()
        self._read_to = {(span.topic_id, partition): span.end for partition, span in spans.items()}

    def _decoded(self, key: bytes, value: bytes, *, is_wanted: bool) -> StoredSpec | None:
        """The spec in this value, if it is the one that its key names. is_wanted: a job has it, and no earlier value was it."""
        job = _job_of(key)
        try:
            stored = self._decrypted(key, json.loads(value))
            text = canonical_json(stored["spec"])
            JobSpec.model_validate_json(text)
            salt = bytes.fromhex(stored["salt"])
        except CannotDecrypt:
            if is_wanted:
                self._undecryptable.add(job)
            return None
        except (ValueError, KeyError, TypeError) as error:
            logger(pool=self._pool).warning("unreadable job spec skipped", job=job, reason=type(error).__name__)
            return None
        digest = spec_digest(salt, text)
        if key.count(b"/") > 1 and not key.endswith(f"/{digest}".encode()):
            logger(pool=self._pool).warning("false job spec skipped", job=job)
            return None
        self._undecryptable.discard(job)
        return StoredSpec(key, salt.hex(), digest, _compact(text))

    def _decrypted(self, key: bytes, value: dict[str, Any]) -> dict[str, Any]:
        """Salt and spec. Raises `CannotDecrypt`, `ValueError`, `TypeError` or `KeyError`."""
        if self._keys is None or "encrypted" not in value:
            return value
        for each in (self._keys.present, *self._keys.earlier):
            with suppress(CannotDecrypt):
                content: dict[str, Any] = json.loads(decrypt(value["encrypted"], each, _purpose(key)))
                return content
        raise CannotDecrypt("encrypted with another key")

    def take(self, job: str, spec: bytes, salt: bytes) -> OutgoingMessage:
        """Register a spec, as canonical JSON. Returns the message to store before the record that references it."""
        digest = spec_digest(salt, spec)
        stored = StoredSpec(f"{self._pool}/{job}/{digest}".encode(), salt.hex(), digest, _compact(spec))
        self._specs[job, digest] = stored
        return self.message(stored)

    def message(self, stored: StoredSpec) -> OutgoingMessage:
        content = b'{"salt":"%b","spec":%b}' % (stored.salt.encode(), stored.text)
        if self._keys is not None:
            text = encrypt(content, encryption_key_id(self._keys.present), _purpose(stored.key))
            content = b'{"encrypted":"%b"}' % text.encode()
        return stored.key, (), content

    def copy(self, job: str, digest: str, grant: int, encryption_key: str) -> JobSpecCopy:
        """For whom the record `grant` names; without content if the spec was erased."""
        stored = self.get(job, digest)
        if stored is None:
            return JobSpecCopy(job=job, grant=grant)
        return JobSpecCopy(
            job=job, grant=grant, encrypted=encrypt_copy(self._pool, grant, stored.text, stored.salt, encryption_key)
        )

    async def store(self, producer: Producer, messages: Sequence[OutgoingMessage]) -> list[Batch]:
        """Send these messages; await the results before appending a record that references them."""
        return await producer.send_many(topics.JOB_SPECS.name, messages) if messages else []

    async def erase_old(self, producer: Producer, state: PoolState) -> int:
        """Erase specs of jobs past retention and specs that the log does not reference. Returns how many."""
        retention = state.rules.retention.job_specs
        old = []
        for name, digest in self._specs:
            job = state.jobs.get(name)
            if job is None or job.spec_digest != digest or (job.phase in ENDED and state.now - (job.ended_at or 0) >= retention):
                old.append((name, digest))
        for each in old:
            await (await producer.send(topics.JOB_SPECS.name, b"", key=self._specs[each].key))
            del self._specs[each]
        return len(old)


def _job_of(key: bytes) -> str:
    return key.decode(errors="replace").split("/")[1]


def _purpose(key: bytes) -> str:
    """Binds the encrypted text to its message key: pool, job and digest."""
    return f"bailiff-job-spec-1 {key.decode(errors='replace')}"


def _compact(text: bytes) -> bytes:
    """The same bytes in as much memory as they need: what writes JSON leaves room of some KiB behind it."""
    return bytes(memoryview(text))

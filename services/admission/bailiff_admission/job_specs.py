"""Private parts of jobs: written to `bailiff.job-specs` before the record that references them, erased some time after the end.

The audit log holds SHA-256(salt ‖ spec) only; the salt is stored with the spec. The digest is part of the message key, so that
a writer that was replaced and reads the same request with another salt does not overwrite the spec in the log.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from bailiff_admission.request_handlers.requests import digest_of_spec
from bailiff_bus import topics
from bailiff_bus.messages import JobSpec
from bailiff_bus.port import Batch, Bus, OutgoingMessage, Producer
from bailiff_core.model.state import ENDED, PoolState
from bailiff_service.logs import logger


@dataclass(frozen=True, slots=True)
class StoredSpec:
    """A spec with its message key, salt (hex) and digest."""

    key: bytes
    spec: JobSpec
    salt: str
    digest: str


class JobSpecs:
    """The specs of one pool's jobs, by job and digest."""

    def __init__(self, pool: str) -> None:
        self._pool = pool
        self._specs: dict[tuple[str, str], StoredSpec] = {}

    def get(self, job: str, digest: str) -> StoredSpec | None:
        """The job's spec with this digest, unless it was erased."""
        return self._specs.get((job, digest))

    async def load(self, bus: Bus) -> None:
        """Read the whole topic; the newest value per key is valid."""
        spans = await bus.spans(topics.JOB_SPECS.name)
        reader = await bus.reader([(topics.JOB_SPECS.name, partition, span.begin) for partition, span in spans.items()])
        newest: dict[bytes, bytes] = {}
        try:
            remaining = {partition: span.end for partition, span in spans.items() if span.end > span.begin}
            while remaining:
                for message in await reader.read():
                    if message.key is not None and message.key.startswith(f"{self._pool}/".encode()):
                        newest[message.key] = message.value
                remaining = {
                    partition: end
                    for partition, end in remaining.items()
                    if reader.position(topics.JOB_SPECS.name, partition) < end
                }
        finally:
            await reader.close()
        for key, value in newest.items():
            if value:
                self._take(key, value)

    def _take(self, key: bytes, value: bytes) -> None:
        job = key.decode(errors="replace").split("/")[1]  # keys of early releases have no digest
        try:
            stored = json.loads(value)
            spec = JobSpec.model_validate_json(json.dumps(stored["spec"]))
            salt = bytes.fromhex(stored["salt"])
        except (ValueError, KeyError, TypeError) as error:
            logger(pool=self._pool).warning("unreadable job spec skipped", job=job, reason=type(error).__name__)
            return
        digest = digest_of_spec(salt, spec)
        self._specs[job, digest] = StoredSpec(key, spec, salt.hex(), digest)

    def take(self, job: str, digest: str, spec: JobSpec, salt: bytes) -> OutgoingMessage:
        """Register a spec. Returns the message to store before the record that references it."""
        stored = StoredSpec(f"{self._pool}/{job}/{digest}".encode(), spec, salt.hex(), digest)
        self._specs[job, digest] = stored
        return stored.key, (), b'{"salt":"%b","spec":%b}' % (stored.salt.encode(), spec.to_json())

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

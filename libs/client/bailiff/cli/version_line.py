"""What `bailiff version` and `bailiff --version` print. Without the option parser."""

from bailiff_log.engine_identity import engine_identity


def version_text() -> str:
    """The release, the engine's digest and the version of its rules, on one line."""
    engine = engine_identity()
    return f"bailiff {engine.release}, engine {engine.digest[:12]}, logic {engine.logic}"

"""Live figures in windows, folded from the audit log and telemetry. What must be exact about the past is in the archive."""

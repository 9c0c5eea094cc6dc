"""Live figures in windows, folded from the audit log. Nothing that must be exact about the past: that is the archive."""

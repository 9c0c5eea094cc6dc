"""Trace loaders: one module per trace or format, from rows to jobs."""

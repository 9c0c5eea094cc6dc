"""Loaders: one small file per trace or format, each from rows to jobs."""

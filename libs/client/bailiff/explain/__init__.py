"""Explanations of jobs, decisions and devices, read from a log."""

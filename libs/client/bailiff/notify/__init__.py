"""Notifications to job owners about evictions and resumptions."""

"""Project quotas: the tree of projects, usage, fair share, and the checks that a placement must pass."""

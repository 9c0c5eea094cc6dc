"""Live view of a pool: follows its log, renders rows, sends changes to subscribers."""

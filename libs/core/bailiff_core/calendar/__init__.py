"""The calendar: when GPUs are reserved for projects, in integers of UTC alone.

No records and no decisions: those are in `fold`, `quota`, `lifecycle` and `admission`.
"""

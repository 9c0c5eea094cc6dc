"""The victim's receipt: one file that proves one preemption, made from a log, checked from the file alone."""

"""What another scheduler recorded, as one small common form: `AttemptRow` in, `HistoryJob` out. One module per source format.

No module here decides or simulates; lines that cannot be read are yielded as `BadLine`, never guessed.
"""

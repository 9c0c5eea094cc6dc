"""Tables and blocks, made from the data of `serializers` and of reports, never from state itself.

Designed for 100 columns; colour only repeats a word.
"""

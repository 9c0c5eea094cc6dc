"""Tables and blocks of text, built from serialized data and reports, never from state.

Designed for 100 columns; colour only repeats a word.
"""

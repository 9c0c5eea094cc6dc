"""Tables and blocks for people, made from the dicts of `present` and `walk`, never from state itself.

Meant to be read at 100 columns; colour only repeats what a word says already.
"""

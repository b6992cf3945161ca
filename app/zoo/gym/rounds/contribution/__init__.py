"""Contributions: fine-tunes coded in the form of a round, as delta files of a fixed layout.

`changes` reads what a fine-tune changes, `write` codes it, `check` refuses files that differ from
what the round's manifest allows.
"""

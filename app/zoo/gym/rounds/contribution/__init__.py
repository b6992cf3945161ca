"""Contributions: fine-tunes coded in the form of a round, as delta files of a fixed layout.

`write` codes what a fine-tune changes (see `zoo.gym.tuned`), `check` refuses files that differ from
what the round's manifest allows.
"""

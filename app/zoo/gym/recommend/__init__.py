"""Recommends a way to train: from a user's rows, model and aim to a command that runs.

`rules.py` is the table, `rows.py` reads what the user has, `memory.py` what fits, and `advise.py`
puts the command together. Whether a method gives better models than another is not said.
"""

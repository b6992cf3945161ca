"""Community rounds (DeltaSoup): many fine-tunes of one base become one better delta.

`rules` decide what counts, `log` keeps what was said in which order, `storage` the files of a
round.
"""

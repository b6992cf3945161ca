"""From lessons in the prompt to weights: an adapter that answers as with them, and what it gained.

`start` makes a run, `session` does its work: `training` by stage `lessons`, or by supervised
training on rewarded answers of a model on a server (`rewarded`); then `comparison` measures it.
"""

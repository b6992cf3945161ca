"""What is signed in a round, and in which order it counts.

`manifest` has the terms of a round, `objects` what participants sign, `state` what the log's
entries make of them. Nothing here reads a clock, a file or a model.
"""

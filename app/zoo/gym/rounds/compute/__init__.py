"""From revealed contributions to the result of a round, and the same again for whoever verifies it.

Everything here follows from the log and the chunks alone, to the byte.
"""

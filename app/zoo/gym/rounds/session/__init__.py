"""What people do in a round: open it, contribute, write its log, compute and verify its result.

Every step is idempotent: the same command again continues where the last one was cut.
"""

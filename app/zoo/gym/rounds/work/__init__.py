"""Divides the computation of a result among processes: tasks in a queue, leased to workers.

A task is some tensors of a job, and its result is bytes that every worker computes alike. A worker
that dies loses its lease, and another one takes the task; doing a task twice changes nothing.
"""

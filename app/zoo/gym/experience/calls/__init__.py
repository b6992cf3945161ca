"""Calls of chat models that are paid once: a journal, a budget, and a caller.

`journal` names calls and stores requests and answers on the disk, `budget` reserves the worst case
before each call, `caller` makes many calls at once and returns their answers by slot.
"""

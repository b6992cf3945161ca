"""Servers by name: their addresses, keys, prices and limits.

`table` has the servers, their file and their keys, `names` finds the model that an id names and
asks for consent to send it something.
"""

"""Lessons of others: what is held back, what peers measured of each, and what is kept of them.

`quarantine` finds texts that could be orders, `measurement` has the signed record of one lesson's
gain, `keep` decides by the records of trusted keys.
"""

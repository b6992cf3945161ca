"""Rounds of kind `experience`: lessons in text, kept for what keys of role gate measured of them.

A contribution is a library without anything but texts, parents and licences; the result is a
library, too. No weights change, and nothing here loads a model but `measuring`.
"""

"""Dialogs: boxes on top of a screen."""

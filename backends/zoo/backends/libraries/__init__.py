"""Checks for libraries of extras, without importing them."""

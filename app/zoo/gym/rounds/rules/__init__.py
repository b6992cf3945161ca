"""Aggregation rules: from the Gram matrix of contributions, or their columns, to one delta."""

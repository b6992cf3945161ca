"""Merges models and fine-tunes of one base: by mergekit, or weighed by held-out rows."""

"""Codecs of a delta's tensors: signs, integers, sparse values, low-rank factors."""

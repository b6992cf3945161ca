"""The forms of contributions: signs with one scale a tensor, plain floats, low-rank factors."""

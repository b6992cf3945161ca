"""How the tensors of a delta are coded: signs, integers, sparse values and low-rank factors."""

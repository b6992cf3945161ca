"""The head, the softmax over the vocabulary and the statistics of tokens."""

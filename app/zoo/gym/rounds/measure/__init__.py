"""What a key of role gate does: measures contributions and the result with the model, and signs it.

`examples` reads the held-out rows, `losses` scores them, `gating` and `probes` make the figures,
`measure` brings them into a round in order, and `repeat` measures signed figures again.
"""

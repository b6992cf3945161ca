"""Which fine-tune, on which base: the one answer for chat, deltas, rounds, export and serving.

`source.resolve_tuned` turns a name into a `Source`, before there are any settings;
`base.resolve_base` finds its base; `opened.open_tuned` gives its changes, its record and the merged
tensors.
"""

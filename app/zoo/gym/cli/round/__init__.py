"""The commands of `zoo-gym round`: a file a verb, or a few that belong together."""

"""The colour of a state, which always stands beside its word."""

_COLOURS = {
    "running": "success",
    "done": "success",
    "failed": "warning",
    "interrupted": "warning",
    "killed": "warning",
    "damaged": "warning",
    "stopped": "warning",
}


def colour_of(state: str) -> str:
    """Returns the theme's variable for a state as it is displayed; others are plain text."""
    return _COLOURS.get(state.partition(" ")[0].rstrip(","), "foreground")

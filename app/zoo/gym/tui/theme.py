"""The look of the app: a black background and violet, and the place of messages."""

from textual.theme import Theme

MESSAGES = """
ToastRack { layer: default; align: left bottom; }
ToastHolder { align-horizontal: left; }
Toast { width: 100%; max-width: 100%; margin: 0; padding: 0 1; background: $panel; }
"""
"""The style of messages: in lines of their own above the keys, so that they cover no text."""

ZOO = Theme(
    name="zoo",
    primary="#a78bfa",
    secondary="#67e8f9",
    accent="#fbbf24",
    foreground="#e7e5e4",
    background="#000000",
    surface="#0c0c11",
    panel="#191920",
    success="#86efac",
    warning="#fcd34d",
    error="#fca5a5",
    dark=True,
    variables={"footer-key-foreground": "#fbbf24", "block-cursor-text-style": "bold"},
)

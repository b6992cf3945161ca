"""The colours of the app: a black ground and violet; `ctrl+p` has the other themes."""

from textual.theme import Theme

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

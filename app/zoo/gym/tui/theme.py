"""The themes: black or white with greys, and two colours that carry state.

`success` marks what runs or went well and the first series of a chart, `warning` what needs
attention and the second series. Everything else is told by place, weight and words.
"""

from textual.theme import Theme

ZOO = Theme(
    name="zoo",
    primary="#d6d3d1",
    secondary="#a8a29e",
    accent="#d6d3d1",
    foreground="#e7e5e4",
    background="#000000",
    surface="#0a0a0a",
    panel="#1c1a19",
    success="#5eead4",
    warning="#fbbf24",
    error="#fbbf24",
    dark=True,
    variables={
        "border": "#a8a29e",
        "border-blurred": "#44403c",
        "footer-key-foreground": "#e7e5e4",
        "footer-description-foreground": "#a8a29e",
        "footer-background": "#1c1a19",
        "block-cursor-foreground": "#000000",
        "block-cursor-background": "#d6d3d1",
        "block-cursor-text-style": "none",
        "block-cursor-blurred-background": "#292524",
        "block-cursor-blurred-foreground": "#e7e5e4",
    },
)

LIGHT = Theme(
    name="zoo-light",
    primary="#292524",
    secondary="#57534e",
    accent="#292524",
    foreground="#1c1917",
    background="#ffffff",
    surface="#fafaf9",
    panel="#f0efed",
    success="#0f766e",
    warning="#b45309",
    error="#b45309",
    dark=False,
    variables={
        "border": "#57534e",
        "border-blurred": "#d6d3d1",
        "footer-key-foreground": "#1c1917",
        "footer-description-foreground": "#57534e",
        "footer-background": "#f0efed",
        "block-cursor-foreground": "#ffffff",
        "block-cursor-background": "#292524",
        "block-cursor-text-style": "none",
        "block-cursor-blurred-background": "#e7e5e4",
        "block-cursor-blurred-foreground": "#1c1917",
    },
)

THEMES = (
    ("black", "white and grey on black", ZOO.name),
    ("light", "black and grey on white", LIGHT.name),
    ("terminal", "the colours of the terminal", "ansi-dark"),
)
"""What a theme is called here, what it looks like, and its name."""

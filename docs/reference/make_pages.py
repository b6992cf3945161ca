"""Generates the tables of cli.md, config.md and rewards.md from the program.

Run it after changing commands or settings: python docs/reference/make_pages.py
"""

from collections.abc import Iterable
from pathlib import Path

from cyclopts import App

from zoo.gym.cli.boundary import build_app
from zoo.gym.cli.flags import SETTINGS
from zoo.gym.cli.verbs import VERBS
from zoo.gym.config.describe import Description, describe_fields, describe_settings
from zoo.gym.config.foreign import (
    ALIASES,
    MISSING,
    MISSING_PREFIXES,
    VALUES_OF_SWITCHES,
    WITHOUT_EFFECT,
)
from zoo.gym.config.reward import KINDS, RewardSettings

FOLDER = Path(__file__).parent
MARK = "<!-- made -->\n"


def cli_page() -> str:
    """Returns the part of cli.md below the mark: every command with its options."""
    app = build_app()
    return "\n".join(_command(app, words) for words in (verb.words for verb in VERBS))


def config_page() -> str:
    """Returns the part of config.md below the mark: every key."""
    settings = [
        (f"`{item.key}`", item.kind.replace(" | ", ", "), item.note, item.text)
        for item in describe_settings()
    ]
    aliases = [(f"`{name}`", f"`{key}`") for name, key in sorted(ALIASES.items())]
    aliases += [
        (f"`{name}: true`", f"`{key}: {value}`")
        for name, (key, value) in sorted(VALUES_OF_SWITCHES.items())
    ]
    ignored = [(f"`{key}`", reason) for key, reason in sorted(WITHOUT_EFFECT.items())]
    missing = [(f"`{key}`", text) for key, text in sorted(MISSING.items())]
    missing += [(f"`{key}...`", text) for key, text in sorted(MISSING_PREFIXES.items())]
    return "\n".join(
        [
            *_table(("key", "kind", "range and default", "meaning"), settings),
            "\n## Other spellings\n",
            *_table(("key", "means"), aliases),
            "\n## Recognised, without effect\n",
            *_table(("key", "why"), ignored),
            "\n## Refused by name\n\nFalse, none and 0 switch a feature off and are accepted.\n",
            *_table(("key", "message"), missing),
            "",
        ]
    )


def rewards_page() -> str:
    """Returns the part of rewards.md below the mark: every kind of reward with its options."""
    common = set(RewardSettings.model_fields)
    lines = ["## Options of all kinds\n", *_options(describe_fields(RewardSettings))]
    for name, model in KINDS.items():
        own = [item for item in describe_fields(model) if item.key not in common]
        lines += [f"\n## {name}\n", str(model.__doc__), *([""] if own else []), *_options(own)]
    return "\n".join([*lines, ""])


def _options(items: list[Description]) -> list[str]:
    rows = [
        (f"`{one.key}`", one.kind.replace(" | ", ", "), " ".join(one.note.split()), one.text)
        for one in items
    ]
    return _table(("option", "kind", "range and default", "meaning"), rows) if rows else []


def made(page: str, text: str) -> str:
    """Returns a page with everything below its mark replaced."""
    head, _, _ = page.partition(MARK)
    return f"{head}{MARK}\n{text}"


def main() -> None:
    """Writes the pages."""
    pages = {"cli.md": cli_page(), "config.md": config_page(), "rewards.md": rewards_page()}
    for name, text in pages.items():
        path = FOLDER / name
        path.write_text(made(path.read_text(encoding="utf-8"), text), encoding="utf-8")


def _command(app: App, words: str) -> str:
    verb = next(verb for verb in VERBS if verb.words == words)
    found = app
    for word in words.split():
        found = found[word]
    rows = [
        (f"`{', '.join(option.names)}`", option.parameter.help or "")
        for option in found.assemble_argument_collection(parse_docstring=True)
        if option.show and option.parameter.group != (SETTINGS,)
    ]
    if words == "train":
        rows.append(("`--KEY`", "any setting of [config.md](config.md)"))
    usage = f"zoo-gym {words} {verb.usage}".strip()
    head = [f"## {words}\n", f"`{usage}`", f"\n{verb.summary}\n"]
    return "\n".join([*head, *_table(("option", "meaning"), rows), ""])


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    lines = [head, tuple("---" for _ in head), *rows]
    cells = [[" ".join(cell.replace("|", " or ").split()) for cell in line] for line in lines]
    return [f"| {' | '.join(line)} |" for line in cells]


if __name__ == "__main__":
    main()

"""What stands below the mark of docs/reference/models.md, from what was measured."""

from pathlib import Path

from tests.breadth.probe import COLUMNS

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "models.md"

MARK = "<!-- made -->\n"


def write_page(found: dict[str, dict[str, str]]) -> None:
    """Writes the page; `found` holds the cells of each family."""
    head, _, _ = PAGE.read_text(encoding="utf-8").partition(MARK)
    PAGE.write_text(f"{head}{MARK}\n{page(found, versions())}", encoding="utf-8")


def versions() -> dict[str, str]:
    """Returns the versions that the page names."""
    from importlib.metadata import version

    return {name: version(name) for name in ("transformers", "peft", "torch")}


def page(found: dict[str, dict[str, str]], made_with: dict[str, str]) -> str:
    """Returns what stands below the mark.

    >>> text = page({"llama": {"loads": "ok", "LoRA": "refused: no"}}, versions())
    >>> text.splitlines()[-5]
    '| llama | ok | - | - | refused [1] | - | - | - | - | - | - | - | - |'
    """
    notes: list[str] = []
    lines = [_line("family", *COLUMNS), _line(*["---"] * (len(COLUMNS) + 1))]
    for name in sorted(found):
        cells = [_cell(found[name].get(column, "-"), notes) for column in COLUMNS]
        lines.append(_line(name, *cells))
    numbered = [f"{number}. {_plain(note)}" for number, note in enumerate(notes, 1)]
    told = ", ".join(f"{name} {number}" for name, number in made_with.items())
    return "\n".join([f"Measured with {told}.", "", *lines, "", "## Notes", "", *numbered, ""])


def read_page(text: str) -> dict[str, dict[str, str]]:
    """Returns the cells of a page: the word before a note's number."""
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("|")]
    start = next(at for at, row in enumerate(rows) if row[0] == "family")
    return {
        row[0]: dict(
            zip(rows[start][1:], [cell.partition(" [")[0] for cell in row[1:]], strict=True)
        )
        for row in rows[start + 2 :]
    }


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(text: str, notes: list[str]) -> str:
    word, _, note = text.partition(": ")
    if not note:
        return word
    if note not in notes:
        notes.append(note)
    return f"{word} [{notes.index(note) + 1}]"


def _plain(note: str) -> str:
    return " ".join(note.split()).replace("|", "/").replace("<", "&lt;")

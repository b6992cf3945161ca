"""Files that begin like rows or documents are refused; prose that contains such text is learned."""

from pathlib import Path

import pytest

from tests.codes import raises
from zoo.gym.data.reading.text import read_paragraphs

ROW = '{"prompt": "a", "completion": "b"}'

REFUSED = {
    "a comment above a list": ("rows.jsonc", f"// mine\n[\n{ROW}\n]", 2),
    "a block of comments": ("rows.json5", f"/* mine,\n all */\n[{ROW}]", 3),
    "hash lines above JSON Lines": ("rows.txt", f"# mine\n# all\n{ROW}\n{ROW}\n", 3),
    "Python's dicts": ("rows.txt", "{'prompt': 'a', 'completion': \"it's\"}\n", 1),
    "a list of Python's dicts": ("rows.txt", "\n[{'prompt': 'a'}, {'prompt': 'b'}]", 2),
    "curly quotes": ("rows.txt", "{\u201cprompt\u201d: \u201ca\u201d}", 1),
    "a truncated row": ("rows.txt", ROW[:-1] + "\n" + ROW, 1),
    "RTF": ("letter.rtf", r"{\rtf1\ansi Dear all, ...}", 1),
    "a page": ("page.html", "<!DOCTYPE html>\n<html><body>Hello</body></html>", 1),
    "a page under another name": ("page.txt", "\n<html lang='en'>Hello</html>", 2),
    "XML": ("feed.xml", "<rss><item>Hello</item></rss>", 1),
}

LEARNED = {
    "a heading": "# Title\n\nSome words.",
    "a heading above a brace": "# Title\n\n{ is a brace.",
    "a tag in prose": "Write <html> first, then <body>.",
    "a tag at the start": "<b>Bold</b> words are rare.",
    "JSON within prose": f"This is a row:\n\n{ROW}\n",
    "quotes in brackets": "['Hello', she said.]",
    "a heading above an example": f"# Rows\n\n{ROW}\n\nThis was a row.",
    "a comment alone": "// nothing follows\n",
    "a list of words": "[red, green]",
}


@pytest.mark.parametrize("case", REFUSED)
def test_text_that_begins_like_rows_is_refused_with_its_line(case: str, tmp_path: Path) -> None:
    name, text, line = REFUSED[case]
    (tmp_path / name).write_text(text, encoding="utf-8")
    with raises("data.other_format", rf"{name}:{line}: expected rows of JSON or plain text"):
        list(read_paragraphs(tmp_path / name))


@pytest.mark.parametrize("case", LEARNED)
def test_prose_that_contains_such_characters_is_learned(case: str, tmp_path: Path) -> None:
    file = tmp_path / "prose.txt"
    file.write_text(LEARNED[case])
    found = "\n\n".join(record.text for record in read_paragraphs(file))
    assert found == LEARNED[case].strip("\n")

"""Names of columns that mean a prompt or its answer, in any case and in a few languages.

Only a row that is in no format as it is has its names compared with these.
"""

from collections.abc import Mapping, Set

from zoo.gym.errors import InputError

ASKED = ("prompt", "question", "query", "problem", "input", "instruction")
"""Keys that mean a prompt."""

CONTEXT = "context"
"""A key that means a part of a prompt, beside another one."""

PARTS = frozenset(
    {CONTEXT, "passage", "article", "document", "paragraph", "story", "options", "choices"}
    | {"distractors", "a", "b", "c", "d", "e"}
)
"""Keys of parts of a prompt in other tables, such as the options of a question."""

ANSWERED = ("answer", "response", "solution", "output", "completion", "target")
"""Keys that mean the answer to a prompt."""

_TRANSLATED = {
    "frage": "question",
    "pregunta": "question",
    "domanda": "question",
    "pergunta": "question",
    "antwort": "answer",
    "réponse": "answer",
    "reponse": "answer",
    "respuesta": "answer",
    "risposta": "answer",
    "resposta": "answer",
}
"""Column of a German, French, Spanish, Italian or Portuguese table -> our key."""


def under_our_names(row: Mapping[str, object], known: Set[str]) -> dict[str, object]:
    """Returns a row whose keys are ours where they differ from ours by case or language alone.

    Args:
        row: the decoded row.
        known: every key that a format reads.

    Raises:
        InputError: two keys of the row would become the same one.
    """
    ours: dict[str, str] = {}
    for key in row:
        folded = key.strip().casefold()
        name = _TRANSLATED.get(folded, folded)
        name = name if name in known else key
        if ours.setdefault(name, key) != key:
            raise InputError(
                f"two columns for {name!r}: expected one, got {ours[name]!r} and {key!r}: choose "
                "with columns, such as columns=prompt:NAME,response:NAME"
            )
    return {name: row[key] for name, key in ours.items()}

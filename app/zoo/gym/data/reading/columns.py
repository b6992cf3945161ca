"""Maps columns of tables and keys of JSON to our keys.

`columns` of an entry in `dataset_info.json` names them for one file by the roles of LLaMA-Factory,
the setting `columns` for all files of a run. Otherwise, a row that is in no format as it is has its
names compared with those that mean a prompt or its answer, in any case and in a few languages.
"""

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import cast

from zoo.gym.data.reading.turns.values import shown, wrong_type
from zoo.gym.errors import InputError

_SAME = ("history", "messages", "system", "tools", "images", "videos", "audios")
PUBLISHED = {
    "prompt": "instruction",
    "query": "input",
    "response": "output",
    **{name: name for name in (*_SAME, "chosen", "rejected", "kto_tag")},
}
"""Role of a column in LLaMA-Factory -> our key."""

ROLES = (*PUBLISHED, "completion", "text", "answer", "label", "forget", "margin", "weight")

ASKED = ("prompt", "question", "query", "problem", "input", "instruction")

PARTS = frozenset(
    {"context", "passage", "article", "document", "paragraph", "story", "options", "choices"}
    | {"distractors", "a", "b", "c", "d", "e"}
)
"""Keys of parts of a prompt in other tables, such as the options of a question."""

ANSWERED = ("answer", "response", "solution", "output", "completion", "target")

_TRANSLATED = {
    **dict.fromkeys(("frage", "pregunta", "domanda", "pergunta"), "question"),
    **dict.fromkeys(
        ("antwort", "réponse", "reponse", "respuesta", "risposta", "resposta"), "answer"
    ),
}
"""Column of a German, French, Spanish, Italian or Portuguese table -> our key."""


@dataclass(frozen=True)
class Layout:
    """How the rows of all files are laid out, as far as the settings say.

    Attributes:
        columns: role -> column of the files; empty to detect the format of each row.
        me: the speaker to learn from in chats with speakers.
    """

    columns: Mapping[str, str] = field(default_factory=dict[str, str])
    me: str | None = None

    @property
    def keys(self) -> dict[str, str]:
        """Column of the files -> our key."""
        ours = {role: PUBLISHED.get(role, role) for role in self.columns}
        # as in LLaMA-Factory, a prompt is an instruction beside these only
        if "prompt" in ours and not {"response", "query", "history"} & ours.keys():
            ours["prompt"] = "prompt"  # a text, or turns
        return {column: ours[role] for role, column in self.columns.items()}


DETECTED = Layout()


def suggestion(name: str, names: Iterable[str]) -> str:
    """Returns the end of a message that suggests the nearest name, if one is near."""
    near = get_close_matches(name, list(names), n=1)
    return f". Did you mean {shown(near[0])}?" if near else ""


def parse_columns(value: object) -> dict[str, str]:
    """Returns the column of each role.

    Args:
        value: `prompt:Question,response:Answer`, or a mapping.

    Raises:
        InputError: a role is unknown, or a role or a column is named twice.
    """
    pairs = _pairs(value)
    for role, column in pairs:
        if role not in ROLES:
            mean = suggestion(role, ROLES) or f": expected {', '.join(ROLES)}"
            raise InputError(
                f"{shown(role)} is no role of a column{mean}", code="data.unknown_column_role"
            )
        if not column:
            raise InputError(
                f"expected the name of a column for {role}, got none", code="data.bad_columns"
            )
    for names in zip(*pairs, strict=True):
        if twice := [name for name in names if names.count(name) > 1]:
            raise InputError(
                f"expected each role and each column once, got {shown(twice[0])} twice",
                code="data.bad_columns",
            )
    return dict(pairs)


def _pairs(value: object) -> list[tuple[str, str]]:
    if isinstance(value, Mapping) and value:
        named = cast("Mapping[object, object]", value).items()
        for role, column in named:
            if not isinstance(column, str | int) or isinstance(column, bool):
                raise wrong_type(str(role), "a column", column)
        return [(str(role), str(column)) for role, column in named]
    if not isinstance(value, str) or not value.strip():
        raise InputError(
            "expected roles with columns, such as prompt:Question,response:Answer",
            code="data.bad_columns",
        )
    parts = [part.partition(":") for part in value.split(",")]
    return [(role.strip(), column.strip()) for role, _, column in parts]


def require_columns(where: str, columns: Iterable[str], present: Iterable[str]) -> None:
    """Refuses columns that no row of a file has.

    Raises:
        InputError: there is one.
    """
    names = list(present)
    for column in columns:
        if column not in names:
            problem = "expected a table or rows of JSON, got text without columns"
            if names:
                problem = f"no column {shown(column)}: expected one of "
                problem += ", ".join(map(shown, names)) + suggestion(column, names)
            raise InputError(
                f"{where}: columns: {problem}",
                hint="for files with different columns, describe each in a dataset_info.json",
                code="data.missing_column",
            )


def under_our_names(row: Mapping[str, object], keys: Set[str]) -> dict[str, object]:
    """Returns a row with keys that differ from ours only by case or language replaced by ours.

    Args:
        keys: every key that a format reads.

    Raises:
        InputError: two keys of the row would become the same one.
    """
    ours: dict[str, str] = {}
    for key in row:
        folded = key.strip().casefold()
        name = _TRANSLATED.get(folded, folded)
        name = name if name in keys else key
        if ours.setdefault(name, key) != key:
            raise InputError(
                f"two columns for {name!r}: expected one, got {ours[name]!r} and {key!r}: choose "
                "with columns, such as columns=prompt:NAME,response:NAME",
                code="data.duplicate_key",
            )
    return {name: row[key] for name, key in ours.items()}

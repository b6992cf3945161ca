"""Parses the name of a model on the hub, as a user writes it, into its id.

Known names are recognised in any case, with or without their organisation, and in a URL:
`zen-nano`, `qwen3-4b`, `Qwen/Qwen3-4B@main`, `https://huggingface.co/Qwen/Qwen3-4B/tree/main`.
"""

import difflib
import re
import shlex
from collections.abc import Collection
from dataclasses import dataclass

from zoo.core.errors import NotAvailableError
from zoo.models.registry import PICO, Entry, published_names, registry

_ADDRESS = re.compile(
    r"^(?:hf://|(?:https?://)?(?:www\.)?(?:huggingface\.co|hf\.co)/)(?:models/)?", re.IGNORECASE
)
_TREE = re.compile(r"/(?:tree|blob|resolve)/([^/]+)(?:/.*)?$")
_LOCAL_SERVER = re.compile(r"(ollama|lm-?studio)[/:](.+)", re.IGNORECASE)
_LOCAL_URLS = {"ollama": "http://127.0.0.1:11434/v1", "lmstudio": "http://127.0.0.1:1234/v1"}
"""Where programs that serve models answer on this machine by default."""
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)


@dataclass(frozen=True)
class Name:
    """A model's id and revision, parsed from what the user wrote.

    Attributes:
        id: `zen-pico` or `org/name`.
        revision: branch, tag or commit; None for the default branch.
        notice: a message for the user if the id is not what was written.
    """

    id: str
    revision: str | None = None
    notice: str | None = None


def parse_name(text: str, extra_names: Collection[str] = ()) -> Name:
    """Returns the model that `text` refers to.

    Args:
        text: an alias, a published name, `org/name`, each with an optional `@revision`.
        extra_names: other existing ids, accepted as they are or suggested as the nearest.

    Raises:
        NotAvailableError: nothing was ever published under this name; suggests the nearest one.
    """
    plain, revision = _split_revision(text.strip())
    name = known_names().get(plain.lower())
    if name and "/" not in name and revision:
        state = "is built in" if name == PICO else "has one version only"
        msg = f"'{name}' {state}: expected no revision, got '{revision}'"
        raise NotAvailableError(msg, code="models.no_such_revision")
    if name:
        return Name(name, revision)
    if plain in extra_names:
        return Name(plain, revision)
    if (served := _LOCAL_SERVER.fullmatch(text.strip())) is not None:
        raise _served_elsewhere(text, *served.groups())
    for published in published_names():
        if plain.lower() not in {published.name.lower(), short_name(published.name).lower()}:
            continue
        if published.state == "never published":
            msg = f"no model was published as '{plain}': the nearest is '{published.id}'"
            raise NotAvailableError(
                msg, hint=f"--model {published.id}", code="models.unknown_model"
            )
        notice = f"'{plain}' is now published as '{published.id}'"
        return Name(published.id, revision, notice if published.state == "renamed" else None)
    if not _HUB_ID.fullmatch(plain):
        raise unknown_model(text, extra_names)
    return Name(plain, revision)


def known_names() -> dict[str, str]:
    """Returns the ids of all listed models, by lower-case name."""
    names: dict[str, str] = {}
    for entry in registry():
        model_id = entry.hub_id or entry.alias
        for name in (entry.alias, model_id, short_name(model_id), *entry.published):
            names[name.lower()] = model_id
    return names


def is_known_name(name: str) -> bool:
    """Returns whether a name without an organisation means a listed or a published model."""
    published = (short_name(published.name).lower() for published in published_names())
    return name.lower() in known_names() or name.lower() in published


def family_entry(text: str) -> Entry:
    """Returns the listed model that `text` refers to, whether it is here or not.

    Raises:
        NotAvailableError: it is not listed.
    """
    model_id = known_names().get(_split_revision(text.strip())[0].lower())
    for entry in registry():
        if model_id is not None and model_id in {entry.hub_id, entry.alias}:
            return entry
    aliases = ", ".join(entry.alias for entry in registry())
    raise NotAvailableError(
        f"expected a listed model ({aliases}), got '{text}'", code="models.unknown_model"
    )


def short_name(model_id: str) -> str:
    """Returns an id without its organisation."""
    return model_id.rpartition("/")[2]


def unknown_model(text: str, extra_names: Collection[str] = ()) -> NotAvailableError:
    """Returns the error for a model that does not exist, with the nearest name that does."""
    aliases = [entry.alias for entry in registry()]
    plain_names = sorted(
        name for name in extra_names if "/" not in name and name not in aliases
    )  # imported
    names = ", ".join([*aliases, *plain_names])
    msg = f"no such model: expected one of {names}, an id 'org/name' or a folder, got '{text}'"
    near = nearest(text, extra_names)
    return NotAvailableError(
        msg, hint=f"did you mean '{near}'?" if near else None, code="models.unknown_model"
    )


def _served_elsewhere(text: str, server: str, model: str) -> NotAvailableError:
    url = _LOCAL_URLS[server.lower().replace("-", "")]
    return NotAvailableError(
        f"'{text}' is a model of another program: expected one whose weights are here",
        hint=f"zoo-gym experience asks it as --model {url}#{shlex.quote(model)}; "
        "to train or chat here: zoo-gym models import FILE.gguf",
        code="models.of_another_program",
    )


def nearest(text: str, extra_names: Collection[str] = ()) -> str | None:
    """Returns the most similar name among the known ones and `extra_names`, if any is similar."""
    candidates = {entry.alias for entry in registry()} | set(extra_names)
    candidates |= {entry.hub_id for entry in registry() if entry.hub_id}
    candidates |= {published.id for published in published_names()}
    by_lower = {name.lower(): name for name in sorted(candidates)}
    near = difflib.get_close_matches(text.lower(), by_lower, n=1, cutoff=0.5)
    return by_lower[near[0]] if near else None


def _split_revision(text: str) -> tuple[str, str | None]:
    bare = _ADDRESS.sub("", text).rstrip("/")
    tree = _TREE.search(bare)
    if tree and bare != text:
        return bare[: tree.start()], tree[1]
    name, _, revision = bare.partition("@")
    return name, revision or None

"""The chat template and end-of-text token of a fine-tune, where they differ from the base's.

TRL, unsloth and LLaMA-Factory write a tokenizer beside the adapter: with the chat template and the
end-of-text token that the adapter was trained with. The setting `template` gives a run its own. The
tokens are always the base's, as the embeddings are.
"""

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

from zoo.gym.data.reading.files import read_text
from zoo.gym.data.rendering.mask import PROBE, end_markers, render_turns
from zoo.gym.data.rendering.template import ChatTemplate, chat_template
from zoo.gym.data.templates import TEMPLATES, template_text
from zoo.gym.data.tokenizer import Tokenizer, has_tokenizer, load_tokenizer
from zoo.gym.errors import InputError
from zoo.gym.files import write_beside
from zoo.models.folder import read_object

TEMPLATE, CONFIG = "chat_template.jinja", "tokenizer_config.json"
MORE = "additional_chat_templates"

_PLAIN = re.compile(r"[\w-]+")
"""The names of templates that become names of files."""

TOKENIZER_KEY = "tokenizer"

PARTS = {"chat_template": "chat template", "eos_token": "end-of-text token"}
"""The parts that are read, and their names for messages."""


DATE = "2024-07-26"
"""The date that a template may print while the end of its turns is looked for."""


class Own(NamedTuple):
    """A tokenizer with the parts of a fine-tune, or of a given template.

    Attributes:
        parts: what differs from the base, by the keys of `PARTS`.
        notes: what the user should know of it, a sentence each.
    """

    tokenizer: Tokenizer
    parts: dict[str, Any]
    notes: tuple[str, ...]


def own_tokenizer(
    base: Path,
    tuned: Path | None = None,
    template: str | None = None,
    stored: Mapping[str, object] | None = None,
) -> Own:
    """Returns the tokenizer that a model is used with; a given template replaces the model's own.

    Args:
        tuned: a peft folder, or a delta; a folder without tokenizer files changes nothing.

    Raises:
        NotAvailableError: the template is a file that does not exist.
        InputError: a file is damaged, or the fine-tune ends texts with a token that the base lacks;
            turns in the template end with no token of the base; see also `load_tokenizer`.
    """
    tokenizer = load_tokenizer(base)
    parts = dict(stored or {})
    if stored is None and tuned is not None:
        parts = _differing(tokenizer, tuned)
    with_own(tokenizer, parts)
    changed, notes = ({}, []) if template is None else _given(tokenizer, template)
    names = " and ".join(name for key, name in PARTS.items() if key in parts and key not in changed)
    if names:
        notes = [f"{tuned}: its own {names}, not the base's, is used", *notes]
    return Own(with_own(tokenizer, changed), parts | changed, tuple(notes))


def tokenizer_of(base: Path, adapter: Path | None = None, template: str | None = None) -> Tokenizer:
    """Returns only the tokenizer of `own_tokenizer`.

    Raises:
        InputError: see `own_tokenizer`.
    """
    return own_tokenizer(base, adapter, template).tokenizer


def _given(tokenizer: Tokenizer, template: str) -> tuple[dict[str, Any], list[str]]:
    """Returns what a given template changes in a tokenizer, and notes.

    Turns end with a token, so that their end is learned and ends an answer. This is the token that
    the template writes; it becomes the end-of-text token for programs that know no other. If the
    tokenizer lacks a published template's marker, its end-of-text token replaces the marker.
    """
    named = tokenizer.chat_template
    previous: object = named.get("default") if isinstance(named, dict) else named
    text = template_text(template)
    notes = [f"template: {template} is used, not the model's own"] if previous else []
    parts: dict[str, Any] = {}
    tokenizer.chat_template = text
    chat = chat_template(tokenizer, DATE)
    assert chat is not None
    end, last = _end_of_turn(chat), tokenizer.eos_token_id
    words = [str(cast("Any", token).content) for token in tokenizer.added_tokens_decoder.values()]
    if any(word in (end or "") for word in words if word):
        if markers := end_markers(chat) - chat.stops:
            parts["eos_token"] = tokenizer.decode([*markers])
            notes.append(f"template: texts end as turns do, with {parts['eos_token']}")
    elif template not in TEMPLATES and end is not None:
        got = f"{end!r}, which is none" if end else "nothing"
        raise InputError(
            f"template: {template}: expected turns that end with a token of the base, got {got}",
            hint="write {{ eos_token }} where a turn ends",
            code="data.template_end",
        )
    elif last is None:
        raise InputError(
            f"template: {template} ends turns with {end!r}: expected a token of the base, which "
            "has no end-of-text token either",
            code="data.template_end",
        )
    elif end:
        text = text.replace(end, eos := tokenizer.decode([last]))
        notes.append(f"template: the base has no token {end}: turns end with {eos} in its place")
    tokenizer.chat_template = named
    if text == previous:
        return {}, []
    parts["chat_template"] = {**named, "default": text} if isinstance(named, dict) else text
    return parts, notes


def _end_of_turn(chat: ChatTemplate) -> str | None:
    """Returns what is written after the last answer; None if a short chat is refused."""
    try:
        rendered = render_turns(chat, PROBE)
    except InputError:  # the rows report it
        return None
    return rendered.text[rendered.turns[-1].stop :].strip()


def with_own(tokenizer: Tokenizer, own: Mapping[str, object]) -> Tokenizer:
    """Sets the parts of a fine-tune in a tokenizer of the base, and returns it.

    Several templates without one named `default` are refused where a chat is rendered.

    Raises:
        InputError: the base lacks the end-of-text token.
    """
    for key in PARTS.keys() & own.keys():
        value = own[key]
        if key == "eos_token" and value not in tokenizer.backend_tokenizer.get_vocab():
            raise InputError(
                f"the fine-tune ends texts with {value!r}: expected a token of the base "
                f"{tokenizer.name_or_path}",
                hint="use the base that it was trained on",
                code="data.missing_token",
            )
        setattr(tokenizer, key, value)
    return tokenizer


def own_parts(base: Path, tuned: Path) -> dict[str, Any]:
    """Returns the parts in a fine-tune's folder that differ from the base, by keys of `PARTS`."""
    if not has_tokenizer(base) or not stated_parts(tuned):
        return {}
    return _differing(load_tokenizer(base), tuned)


def _differing(tokenizer: Any, tuned: Path) -> dict[str, Any]:  # noqa: ANN401
    stated, named = stated_parts(tuned), tokenizer.chat_template
    if isinstance(named, dict) and isinstance(stated.get("chat_template"), str):
        # written by a program that knows one template only: the others remain
        stated["chat_template"] = {**named, "default": stated["chat_template"]}
    return {key: value for key, value in stated.items() if getattr(tokenizer, key, None) != value}


def write_own(folder: Path, recipe: Mapping[str, object]) -> None:
    """Writes the parts in a delta's recipe into the folder rebuilt from it.

    Raises:
        InputError: the folder's tokenizer_config.json is damaged.
    """
    own = own_in(recipe)
    config = read_object(folder / CONFIG) if (folder / CONFIG).is_file() else {}
    if template := own.pop("chat_template", None):
        config.pop("chat_template", None)
        shutil.rmtree(folder / MORE, ignore_errors=True)
        templates = dict(template) if isinstance(template, dict) else {"default": template}
        if (default := templates.pop("default", None)) is None:
            (folder / TEMPLATE).unlink(missing_ok=True)
        else:
            write_beside(folder / TEMPLATE, default)
        for name, text in templates.items():
            (folder / MORE).mkdir(exist_ok=True)
            write_beside(folder / MORE / f"{name}.jinja", text)
        write_beside(folder / CONFIG, json.dumps(config, indent=2, ensure_ascii=False) + "\n")
    if eos := own.get("eos_token"):
        write_beside(folder / CONFIG, json.dumps(config | own, indent=2, ensure_ascii=False) + "\n")
        for name in ("config.json", "generation_config.json"):
            if (folder / name).is_file():
                number = load_tokenizer(folder).backend_tokenizer.token_to_id(eos)
                settings = read_object(folder / name) | {"eos_token_id": number}
                write_beside(folder / name, json.dumps(settings, indent=2) + "\n")


def own_in(recipe: Mapping[str, object]) -> dict[str, Any]:
    """Returns the parts of the tokenizer in a delta's recipe."""
    stored = recipe.get(TOKENIZER_KEY)
    own = cast("dict[str, Any]", stored) if isinstance(stored, dict) else {}
    return {key: value for key, value in own.items() if key in PARTS and _is_part(key, value)}


def _is_part(key: str, value: object) -> bool:
    if key == "chat_template" and isinstance(value, dict):
        return all(
            isinstance(name, str) and _PLAIN.fullmatch(name) and isinstance(text, str)
            for name, text in value.items()
        )
    return isinstance(value, str)


def states_template(folder: Path) -> bool:
    """Returns whether the files of a model, or of an adapter, have a chat template.

    Raises:
        InputError: one is damaged.
    """
    return "chat_template" in stated_parts(folder)


def stated_parts(adapter: Path) -> dict[str, Any]:
    """Returns what a folder states; a template in a file counts before that in the config."""
    config = read_object(adapter / CONFIG) if (adapter / CONFIG).is_file() else {}
    template, eos = config.get("chat_template"), config.get("eos_token")
    if isinstance(template, list):  # several by name, as transformers writes them
        entries = [entry for entry in template if isinstance(entry, dict)]
        template = {str(entry.get("name")): str(entry.get("template")) for entry in entries}
    if (adapter / TEMPLATE).is_file():
        template = read_text(adapter / TEMPLATE)
        more = {file.stem: read_text(file) for file in sorted((adapter / MORE).glob("*.jinja"))}
        template = {"default": template, **more} if more else template
    elif not isinstance(config.get("chat_template"), str | list):
        template = None
    eos = eos.get("content") if isinstance(eos, dict) else eos
    stated = {"chat_template": template, "eos_token": eos if isinstance(eos, str) else None}
    return {key: value for key, value in stated.items() if value}

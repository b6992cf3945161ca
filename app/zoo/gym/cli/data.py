"""`zoo-gym data`: what training would learn from files of examples."""

import datetime as dt
from typing import Annotated, Literal

from cyclopts import Parameter

from zoo.gym.cli.ending import fail
from zoo.gym.cli.items import existing
from zoo.gym.cli.options import Json, Model, Offline, Switch, Yes
from zoo.gym.cli.output import Output
from zoo.gym.cli.sources import resolve_model
from zoo.gym.config import load_config
from zoo.gym.errors import EXIT_CODES, GymError, InputError
from zoo.models import PICO

Special = Annotated[
    bool, Parameter(name="--split_special_tokens", negative="--no_split_special_tokens")
]


def inspect(
    *files: str,
    model: Model = PICO,
    cutoff_len: Annotated[int, Parameter(name="--cutoff_len")] = 2048,
    think: Literal["template", "keep", "drop"] = "template",
    split_special_tokens: Special = True,
    strict: Switch = False,
    yes: Yes = False,
    offline: Offline = False,
    as_json: Json = False,
) -> int:
    """Shows what training would learn: formats, roles, lengths, and one example marked.

    Data that training would refuse ends with exit code 2; rows that it would leave out are listed,
    and end with exit code 1 under --strict.

    Args:
        files: files of examples, or folders of them
        model: the model whose tokenizer and chat template to use
        cutoff_len: the longest row, in tokens; the rest is cut off
        think: thinking in answers: as the chat template does, all kept, dropped
        split_special_tokens: special tokens in the data are plain text
        strict: end with exit code 1 if a row cannot be used
        yes: download without asking
        offline: never use the network
        as_json: print one JSON object as stdout's last line
    """
    from zoo.gym.data import inspect_dataset
    from zoo.gym.data.reading.files import files_in
    from zoo.gym.data.report import report
    from zoo.gym.train.rows import encode_options

    if not files:
        raise InputError("FILE: expected at least one file of examples, got none")
    paths = files_in([existing(file) for file in files])
    name = PICO if model is None else model
    today = dt.datetime.now().astimezone().date().isoformat()
    flags: dict[str, object] = {"model_name_or_path": name, "dataset": files, "date": today}
    flags |= {"cutoff_len": cutoff_len, "think": think}
    flags["split_special_tokens"] = split_special_tokens
    config = load_config([], [], flags).config
    folder = resolve_model(name, yes=yes, offline=offline).folder
    out = Output(as_json)
    found = inspect_dataset(paths, folder, encode_options(config, folder))
    out.styled(report(found, colour=out.colour))
    if found.refusal is not None:
        hint = "training would refuse this data"
        return fail(out, found.as_json(), found.refusal, hint, EXIT_CODES[InputError])
    if strict and found.problems:
        message = f"{len(found.problems)} of {found.rows + len(found.problems)} rows cannot be used"
        return fail(out, found.as_json(), message, None, EXIT_CODES[GymError])
    out.result(found.as_json())
    return 0

"""`zoo-gym data`: what training would learn from files of examples."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from zoo.gym.cli.ending import fail
from zoo.gym.cli.options import Json, Model, Offline, Switch, Template, Yes
from zoo.gym.cli.output import Output
from zoo.gym.cli.sources import resolve_model, template_of
from zoo.gym.config import load_config
from zoo.gym.config.items import existing
from zoo.gym.config.stages import METHODS, config_class, load_method, stages_reading
from zoo.gym.config.train import TrainConfig
from zoo.gym.errors import GymError, InputError
from zoo.gym.humanize import today
from zoo.gym.paths import given_path
from zoo.models import PICO

if TYPE_CHECKING:
    from zoo.gym.data import Inspection
    from zoo.gym.data.reading.columns import Layout

Special = Annotated[
    bool, Parameter(name="--split_special_tokens", negative="--no_split_special_tokens")
]

SETTINGS = ("model", "columns", "me", "cutoff_len", "template", "think", "stage")
"""Settings of training that inspection takes as flags."""


def inspect(
    *files: str,
    model: Model = PICO,
    columns: str | None = None,
    me: str | None = None,
    cutoff_len: Annotated[int, Parameter(name="--cutoff_len")] = 2048,
    template: Template = None,
    think: Literal["template", "keep", "drop"] = "template",
    split_special_tokens: Special = True,
    stage: str | None = None,
    show_prompt: Switch = False,
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
        columns: the columns of all files by role, such as prompt:Question,response:Answer
        me: the speaker whose messages are learned, in exports of WhatsApp
        cutoff_len: the longest row, in tokens; the rest is cut off
        template: a chat template to use instead of the model's own, by name or a file
        think: thinking in answers: as the chat template does, all kept, dropped
        split_special_tokens: special tokens in the data are plain text
        stage: the method; by default the first that can learn from the rows
        show_prompt: print what chat, samples and rewards ask for the answer of the example
        strict: end with exit code 1 if a row cannot be used
        yes: download without asking
        offline: never use the network
        as_json: print one JSON object as stdout's last line
    """
    from zoo.gym.data.reading.files import data_files
    from zoo.gym.data.report import report

    if not files:
        raise InputError(
            "FILE: expected at least one file of examples, got none", code="cli.missing_argument"
        )
    for file in files:
        key, is_setting, value = file.partition("=")
        if is_setting and key.isidentifier() and not given_path(file).exists():
            hint = f"--{key} {value}" if key in SETTINGS else None
            raise InputError(
                f"{file}: expected a file of examples, got a setting",
                hint=hint,
                code="cli.bad_value",
            )
    data = data_files([existing(file) for file in files])
    paths = list(data.train)
    name = PICO if model is None else model
    flags: dict[str, object] = {"model_name_or_path": name, "dataset": files, "date": today()}
    flags |= {"cutoff_len": cutoff_len, "think": think, "columns": columns, "me": me}
    out = Output(as_json)
    flags["split_special_tokens"] = split_special_tokens
    flags["template"] = template_of(template, out)
    config_for(flags, stage)  # refuses an unknown stage
    folder = resolve_model(name, yes=yes, offline=offline).folder
    for part, use in ((data.validation, "held out"), (data.test, "not learned")):
        if part:
            out.say(f"{use}: {', '.join(map(str, part))}")
    inspected, stages = _inspected(paths, folder, flags, [stage] if stage else list(METHODS))
    out.styled(report(inspected, stages, colour=out.colour, show_prompt=show_prompt))
    figures = asdict(inspected) | {"stages": stages}
    if inspected.refusal is not None:
        hint = "training would refuse this data"
        error = InputError(inspected.refusal, hint=hint, code="cli.data_refused")
        return fail(out, figures, error)
    if strict and inspected.problems:
        bad = len(inspected.problems)
        message = f"{bad} of {inspected.rows + bad} rows cannot be used"
        return fail(out, figures, GymError(message, code="cli.unusable_rows"))
    out.result(figures)
    return 0


def _inspected(
    paths: list[Path], folder: Path, flags: dict[str, object], stages: list[str]
) -> "tuple[Inspection, list[str]]":
    """Returns the inspection for the first stage that can use a row, and the stages like it.

    Raises:
        InputError: no row is usable; for several stages, the error of the first, or that of the
            first one for pairs if the rows have answers to compare.
    """
    from zoo.gym.data import inspect_dataset
    from zoo.gym.train.rows import encode_options
    from zoo.gym.train.run_folder.pinned import layout_of

    errors: dict[str, InputError] = {}
    readable = list[str]()
    for stage in stages:
        if stage in readable:
            continue
        readable += stages_reading(stage)
        config = config_for(flags, stage)
        options, layout = encode_options(config, folder), layout_of(config)
        try:
            if errors:
                _require_answers(paths, stage, layout)
            kinds = load_method(stage).reads
            inspected = inspect_dataset(paths, folder, options, kinds, layout, config.template)
        except InputError as error:
            errors[stage] = error
        else:
            return inspected, stages_reading(stage)
    # the method that the rows were probably written for
    from zoo.gym.data.reading.keys import NEEDS_PREFERENCE

    first = next(iter(errors.values()))
    pairs = (error for stage, error in errors.items() if "pair" in load_method(stage).reads)
    raise next(pairs, first) if NEEDS_PREFERENCE in first.message else first


def config_for(flags: dict[str, object], stage: str | None) -> TrainConfig:
    """Returns the settings of a stage; rows are encoded the same whatever else it needs."""
    stated = {} if stage is None else {"stage": stage}
    fields = config_class(stage).model_fields.items()
    needed = [key for key, field in fields if field.is_required() and key not in flags]
    models = dict.fromkeys(needed, flags["model_name_or_path"])
    return load_config([], [], flags | stated | models).config


def _require_answers(paths: list[Path], stage: str, layout: "Layout") -> None:
    """Refuses prompts that no reward can judge: their answers may be under a misspelt key.

    Raises:
        InputError: no row can be used, or the first is a prompt without an answer.
    """
    from zoo.gym.data import read_dataset

    kinds = load_method(stage).reads
    first = read_dataset(paths[:1], 1, kinds, layout=layout).records[0]
    if first.kind == "prompt" and first.answer is None:
        raise InputError(
            f"{first.source}: expected an answer beside the prompt, got none", code="cli.no_answer"
        )

"""The base model, the examples and how they are read."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from zoo.gym.config.settings import Settings
from zoo.gym.config.stages import DEFAULT
from zoo.gym.config.values import (
    Listed,
    Number,
    Whole,
    folder_text,
    iso_date,
    path_text,
    role_columns,
    split_paths,
    template_name,
)


class DataKeys(Settings, frozen=True):
    """The base model, the examples and how they are read."""

    model_name_or_path: Annotated[str, BeforeValidator(folder_text)] = Field(
        min_length=1,
        description="the base model: zen-nano, org/name, org/name@revision, a folder",
    )
    dataset: Annotated[tuple[str, ...], BeforeValidator(split_paths)] = Field(
        min_length=1,
        description="the files of examples, read in this order; a folder: all files in it, by name;"
        " a name: its file in dataset_info.json",
    )
    dataset_dir: Annotated[str, BeforeValidator(path_text)] | None = Field(
        default=None,
        min_length=1,
        description="the folder for relative names in dataset; none: the working folder",
    )
    eval_dataset: Annotated[tuple[str, ...], BeforeValidator(split_paths)] = Field(
        default=(),
        description="the files of held-out examples; none: those of a folder in dataset whose names"
        " say validation, or else as val_size says",
    )
    columns: Annotated[dict[str, str] | None, BeforeValidator(role_columns)] = Field(
        default=None,
        description="the columns of all files by role, such as prompt:Question,response:Answer;"
        " none: by their names",
    )
    me: str | None = Field(
        default=None,
        min_length=1,
        description="the speaker whose messages are learned, in exports of WhatsApp",
    )
    stage: str = Field(
        default=DEFAULT,
        description="the method",
    )
    cutoff_len: Whole = Field(
        default=2048,
        ge=8,
        le=1_048_576,
        description="the maximum length of a row in tokens; the rest is cut off",
    )
    max_samples: Whole | None = Field(
        default=None,
        ge=1,
        description="use only the first rows of each file, up to this number; none: all",
    )
    mix_strategy: Literal["concat", "interleave_under", "interleave_over"] = Field(
        default="concat",
        description="how several files are joined: one after the other, or by shares until the"
        " first of them, or the last of them, is used up",
    )
    interleave_probs: Listed | None = Field(
        default=None,
        description="the share of each file, numbers separated by commas that add up to 1; none:"
        " rows are taken in turn",
    )
    val_size: Number = Field(
        default=0.1,
        ge=0,
        description="rows held out: a share below 1, or a number of rows; chats and pairs are drawn"
        " by the seed; texts are held out at their end, a share is counted in characters",
    )
    template: Annotated[str | None, BeforeValidator(template_name)] = Field(
        default=None,
        description="the chat template: chatml, gemma, llama3, mistral, phi, qwen, or a file of"
        " Jinja; none: the model's own",
    )
    think: Literal["template", "keep", "drop"] = Field(
        default="template",
        description="thinking in answers: as the chat template does, all kept, dropped",
    )
    split_special_tokens: bool = Field(
        default=True,
        description="special tokens in the data are plain text; false allows them",
    )
    append_eos: bool = Field(
        default=True,
        description="texts end with the end-of-text token: each row's text, a text file once",
    )
    date: Annotated[str, BeforeValidator(iso_date)] | None = Field(
        default=None,
        description="the date that a chat template prints, YYYY-MM-DD; none: today",
    )

"""A settings file of a server: YAML with a block `serving:`, in our names or published ones."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import PydanticCustomError

from zoo.backends.spec import QuantizationSpec
from zoo.core import read_gguf_header
from zoo.gym.config.keys.quantization import VALUES
from zoo.gym.config.report import sentences, shown
from zoo.gym.errors import InputError
from zoo.gym.files.yaml_entries import read_entries
from zoo.gym.humanize import parsed_bytes
from zoo.gym.serving.run import ServeConfig

BLOCK = "serving"

PUBLISHED = {"batch_size": "rows", "max_concurrent": "queue"}
"""Published names of settings."""

FIELDS = {"allow_host": "names", "cors": "origins", "user_token": "user_tokens"}
"""Settings that `ServeConfig` has under another name."""


def _mapping(value: object) -> object:
    if not isinstance(value, Mapping):
        text = f"expected NAME: SOURCE, got {shown(value)}"
        raise PydanticCustomError("sentence", "{text}", {"text": text})
    return value


class Block(BaseModel):
    """The settings in a file; flags of `zoo-gym serve` win over them."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    model: str | None = None
    variant: Annotated[dict[str, str], BeforeValidator(_mapping)] = Field(
        default_factory=dict[str, str]
    )
    variants: str | None = None
    template: str | None = None
    host: str | None = None
    port: int | None = Field(default=None, ge=0, le=65_535)
    allow_host: list[str] | None = None
    cors: list[str] | None = None
    user_token: list[str] | None = None
    no_token: bool = False
    allow_graders: bool | None = None
    rows: int | None = Field(default=None, ge=1, le=1024)
    queue: int | None = Field(default=None, ge=1, le=100_000)
    request_s: float | None = Field(default=None, gt=0, le=86_400)
    concurrency: int | None = Field(default=None, ge=1, le=10_000)
    cache_size: str | int | None = None
    quantization: str | int | None = None
    model_format: Literal["gguf", "safetensors"] | None = None

    def config(self) -> dict[str, object]:
        """Returns what the file says of `ServeConfig`, by its fields, but for `quantization`."""
        values = self.model_dump(exclude={"quantization"}, exclude_none=True, exclude_unset=True)
        named = {FIELDS.get(key, key): value for key, value in values.items()}
        if self.no_token:
            named["needs_token"] = False
        return {key: value for key, value in named.items() if key in ServeConfig.model_fields}


def read_block(path: Path) -> Block:
    """Reads the settings of a server.

    Raises:
        NotAvailableError: there is no such file.
        InputError: something is wrong; the message has one line for each error.
    """
    entries = read_entries(path)
    others = [entry for entry in entries if entry.key != BLOCK]
    if others or not entries:
        got = f"'{others[0].key}' in line {others[0].line}" if others else "nothing"
        raise _wrong(path, f"expected one block '{BLOCK}:', got {got}")
    values = entries[0].value
    if not isinstance(values, Mapping):
        raise _wrong(path, f"{BLOCK}: expected settings, got {values!r:.60}")
    stated: dict[str, object] = {}
    for key, value in cast("Mapping[object, object]", values).items():
        name = PUBLISHED.get(str(key), str(key))
        if name in stated:
            raise _wrong(path, f"{BLOCK}: expected {name} or its published name, got both")
        stated[name] = value
    try:
        block = Block.model_validate(stated)
    except ValidationError as error:
        ours = {name: key for key, name in PUBLISHED.items() if key in values}
        faults = [f"{BLOCK}: {ours.get(key, key)}: {why}" for key, why in sentences(error, Block)]
        raise _wrong(path, *faults) from None
    if block.cache_size is not None:
        size = parsed_bytes(str(block.cache_size))
        if not size:
            raise _wrong(
                path,
                f"{BLOCK}: cache_size: expected bytes, such as 10GB or 500MB, got "
                f"{block.cache_size!r:.60}",
            )
        block = block.model_copy(update={"cache_size": size})
    return block


def check_format(block: Block, got: str) -> None:
    """Refuses a format that the model does not have.

    Args:
        block: the settings.
        got: the format of the model: `gguf` or `safetensors`.

    Raises:
        InputError: it is another one.
    """
    if block.model_format not in {None, got}:
        what = "a GGUF file" if block.model_format == "gguf" else "a model folder"
        raise InputError(
            f"model_format {block.model_format}: expected {what} as model, got {block.model!r}",
            code="serving.settings",
        )


def check_bits(block: Block, file: Path) -> None:
    """Refuses a quantization that a GGUF file does not have: its values are used as they are.

    Raises:
        InputError: most of its bytes are of another number of bits.
    """
    if block.quantization is None:
        return
    sizes: dict[str, int] = {}
    for tensor in read_gguf_header(file).tensors.values():
        sizes[tensor.type] = sizes.get(tensor.type, 0) + tensor.stop - tensor.start
    most = max(sizes, key=lambda kind: sizes[kind], default="nothing")
    bits = "".join(char for char in most.partition("_")[0] if char.isdecimal())
    if str(block.quantization).removeprefix("int") != bits:
        raise InputError(
            f"quantization: expected a GGUF file in {block.quantization}, got most of '{file}' in "
            f"{most}",
            code="serving.settings",
        )


def quantization_of(block: Block) -> QuantizationSpec | None:
    """Returns how the weights of a model folder are quantised when they are loaded.

    Raises:
        InputError: they cannot be in this way.
    """
    if block.quantization is None:
        return None
    meant = VALUES.get(block.quantization)
    if meant is None:
        known = ", ".join(dict.fromkeys(str(key) for key in VALUES))
        raise InputError(
            f"quantization: expected {known} for a model folder, got {block.quantization!r:.60}",
            hint="int4 is a format of GGUF files: model: FILE.gguf",
            code="serving.settings",
        )
    bits = cast("int", meant["quantization_bit"])
    return QuantizationSpec(bits=bits, kind=str(meant.get("quantization_type", "nf4")))


def _wrong(path: Path, *faults: str) -> InputError:
    return InputError("\n".join(f"{path}: {fault}" for fault in faults), code="serving.settings")

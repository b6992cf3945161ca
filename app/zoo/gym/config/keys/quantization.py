"""The base in few bits, while an adapter is trained; or the adapter itself."""

from collections.abc import Mapping
from typing import Annotated, Literal, cast

from pydantic import BeforeValidator, Field

from zoo.gym.config.settings import Settings

OTHER_NAMES = {"bitsandbytes": "bnb"}
"""Other published names of the methods."""


def _method(value: object) -> object:
    return OTHER_NAMES.get(value, value) if isinstance(value, str) else value


def _bits(value: object) -> object:
    return int(value) if isinstance(value, str) and value.isdecimal() else value


class QuantizationKeys(Settings, frozen=True):
    """The base in few bits, while an adapter is trained."""

    quantization_bit: Annotated[Literal[2, 3, 4, 6, 8], BeforeValidator(_bits)] | None = Field(
        default=None,
        description="the bits of a weight in the linear layers of the base, under an adapter"
        " (QLoRA): 4 or 8 with torch, each of them with MLX; none: the base is not quantised",
    )
    quantization_method: Annotated[Literal["bnb", "mlx"], BeforeValidator(_method)] | None = Field(
        default=None,
        description="what quantises: bnb is bitsandbytes (torch), mlx is MLX's affine codes in"
        " groups of 64; none: bnb with torch, mlx with MLX",
    )
    quantization_type: Literal["nf4", "fp4"] | None = Field(
        default=None,
        description="the codes of 4 bits of bnb: nf4 fits normally distributed weights, fp4 is a"
        " floating-point number; none: nf4",
    )
    double_quantization: bool | None = Field(
        default=None,
        description="store the scales of 4-bit blocks of bnb in 8 bits; none: true",
    )

    @property
    def doubles(self) -> bool:
        """Whether the scales of 4-bit blocks are quantised, too."""
        return self.double_quantization is not False

    @property
    def names_codes_of_bnb(self) -> bool:
        """Whether codes are given that bitsandbytes alone has."""
        return self.quantization_type is not None or self.double_quantization is not None


VALUES: dict[object, dict[str, object]] = {
    4: {"quantization_bit": 4},
    8: {"quantization_bit": 8},
    "4": {"quantization_bit": 4},
    "8": {"quantization_bit": 8},
    "4bit": {"quantization_bit": 4},
    "8bit": {"quantization_bit": 8},
    "nf4": {"quantization_bit": 4, "quantization_type": "nf4"},
    "fp4": {"quantization_bit": 4, "quantization_type": "fp4"},
    "int8": {"quantization_bit": 8},
}
"""Values of `quantization` that mean a quantised base."""

QLORA = {"finetuning_type": "lora", "quantization_bit": 4}
"""What `finetuning_type: qlora` means, if the bits are not given."""

DELTAS = {"bitdelta": 1, "deltaquant": 4}
"""The methods that mean an adapter in few bits, with the bits that they have by default."""

CONTRIBUTING = "enable_deltasoup"
WHY_NOT_CONTRIBUTING = "to contribute is a command of its own: zoo-gym round contribute"

PARTS = {"bits": "quantization_bit", "method": "quantization_method", "type": "quantization_type"}
"""Our names of the parts in `quantization: {method: bnb, bits: 4}`."""


def meaning(key: str, value: object, *, bits_given: bool) -> Mapping[str, object] | None:
    """Returns the settings that a published one stands for, or None if it is no such setting.

    `enable_deltasoup` of a delta is left out, whatever its value.

    Args:
        key: its name.
        value: its value.
        bits_given: whether `quantization_bit` is given somewhere.

    >>> meaning("quantization", {"method": "bnb", "bits": 4}, bits_given=False)
    {'quantization_method': 'bnb', 'quantization_bit': 4}
    """
    if key == "finetuning_type" and value == "qlora":
        return {name: QLORA[name] for name in QLORA if not (bits_given and name.endswith("_bit"))}
    if key != "quantization":
        return None
    if (bits := _delta_bits(value)) is not None:
        return {"delta_bits": bits}
    if isinstance(value, dict):
        return _of_parts(cast("dict[object, object]", value))
    hashable = isinstance(value, str | int) and not isinstance(value, bool)
    return VALUES.get(value.lower() if isinstance(value, str) else value) if hashable else None


def _of_parts(value: Mapping[object, object]) -> Mapping[str, object] | None:
    if "bits" not in value or not value.keys() <= PARTS.keys() or value["bits"] == 1:
        return None
    return {PARTS[str(part)]: entry for part, entry in value.items()}


def _delta_bits(value: object) -> object:
    """Returns the bits of an adapter that is trained towards a delta; None for another value."""
    parts = cast("dict[object, object]", value) if isinstance(value, dict) else {"method": value}
    method = parts.get("method")
    bits = DELTAS.get(method.lower()) if isinstance(method, str) else None
    read = {"method", "bits", CONTRIBUTING}
    if bits is None or not parts.keys() <= read:
        return None
    stated = parts.get("bits")
    if isinstance(stated, bool):  # would count as 1
        return str(stated).lower()
    return bits if stated is None else _bits(stated)

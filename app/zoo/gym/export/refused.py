"""Formats that are not written, each with its reason and what to take in its place."""

from dataclasses import dataclass

from zoo.gym.errors import NotAvailableError

_CODES = "--format gguf --quantization q4_k_m, or --format mlx --quantization 4bit"


@dataclass(frozen=True)
class Refusal:
    """Why a format is not written.

    Attributes:
        package: the library that would write it, which no extra of ours has.
        reason: what is wrong with it.
        hint: the formats in its place.
    """

    package: str
    reason: str
    hint: str


REFUSED: dict[str, Refusal] = {
    "awq": Refusal("autoawq", "autoawq is deprecated by its authors", _CODES),
    "coreml": Refusal(
        "coremltools",
        "coremltools 9.0 lacks operations of transformers' attention masks (new_ones, diff), and "
        "only macOS could open the result to check it",
        "--format mlx for Macs, or --format onnx",
    ),
    "gptq": Refusal(
        "auto-round", "auto-round downloads its calibration rows (NeelNanda/pile-10k)", _CODES
    ),
    "tensorrt": Refusal(
        "tensorrt",
        "an engine belongs to one GPU and one version of TensorRT, whose packages do not install "
        "beside ours",
        "--format onnx prints the line of trtexec that makes one",
    ),
    "w4a16": Refusal(
        "llmcompressor",
        "what llmcompressor wrote without calibration was half as large an error as the logits, on "
        "a random model, and has not been tried on a real one",
        _CODES,
    ),
}
"""By the name of the format."""


def refuse(name: str) -> None:
    """Refuses a format of the table.

    Raises:
        NotAvailableError: it is one.
    """
    if (refusal := REFUSED.get(name)) is not None:
        raise NotAvailableError(
            f"--format {name}: not supported: {refusal.reason}",
            hint=refusal.hint,
            code="export.format_not_supported",
        )

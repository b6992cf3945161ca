"""What a result says of a base in few bits: its codes, and how peft loads the adapter on them."""

from typing import Any

import pytest

from zoo.gym.config import TrainConfig
from zoo.gym.train.result.few_bits import codes_of, loading_note


def config(**settings: Any) -> TrainConfig:
    return TrainConfig(model_name_or_path="zen-pico", dataset="rows.jsonl", **settings)


CODES: list[tuple[dict[str, Any], str | None]] = [
    ({}, None),
    ({"quantization_bit": 4}, "4 bits (NF4 with double quantisation, by bitsandbytes)"),
    (
        {"quantization_bit": 4, "quantization_type": "fp4", "double_quantization": False},
        "4 bits (FP4, by bitsandbytes)",
    ),
    ({"quantization_bit": 8}, "8 bits (int8, by bitsandbytes)"),
    (
        {"quantization_bit": 3, "quantization_method": "mlx"},
        "3 bits (MLX's affine codes in groups of 64)",
    ),
]


@pytest.mark.parametrize(("given", "words"), CODES)
def test_codes_are_named_in_words(given: dict[str, Any], words: str | None) -> None:
    assert codes_of(config(**given)) == words
    assert (words or "") in loading_note(config(**given), "zen-pico", "FOLDER")


def test_a_base_that_was_not_quantised_has_no_section() -> None:
    assert loading_note(config(), "zen-pico", "FOLDER") == ""


def test_an_adapter_that_begins_as_what_codes_lost_is_for_them_alone() -> None:
    given = config(quantization_bit=4, loftq_init=True)
    assert "it is only for a base in them" in loading_note(given, "zen-pico", "FOLDER")
    assert "as it is in its files" not in loading_note(given, "zen-pico", "FOLDER")


@pytest.mark.slow
@pytest.mark.parametrize("bits", [4, 8])
def test_the_example_gives_peft_the_codes_of_the_run(bits: int) -> None:
    pytest.importorskip("bitsandbytes")
    import transformers

    text = loading_note(config(quantization_bit=bits), "zen-pico", "FOLDER").partition(
        "```python\n"
    )[2]
    line = next(line for line in text.splitlines() if line.startswith("codes = "))
    names: dict[str, Any] = {"BitsAndBytesConfig": transformers.BitsAndBytesConfig}
    found = eval(line.partition(" = ")[2], names)
    assert (found.load_in_4bit, found.load_in_8bit) == (bits == 4, bits == 8)
    assert (found.bnb_4bit_quant_type, found.bnb_4bit_use_double_quant) == (
        *(("nf4", True) if bits == 4 else ("fp4", False)),
    )

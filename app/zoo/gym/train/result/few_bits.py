"""Says of a result which base in few bits it was learned on, and how peft loads it."""

from zoo.gym.config.train import TrainConfig
from zoo.gym.delta.origin.usage import HERE

BNB = "bitsandbytes"


def codes_of(config: TrainConfig) -> str | None:
    """Returns the codes of a quantised base in words, None for another base.

    >>> codes_of(TrainConfig(model_name_or_path="m", dataset="d", quantization_bit=4))
    '4 bits (NF4 with double quantisation, by bitsandbytes)'
    """
    bits, method = config.quantization_bit, config.quantization_method
    if bits is None:
        return None
    if method == "mlx":
        return f"{bits} bits (MLX's affine codes in groups of 64)"
    if bits == 8:
        return f"8 bits (int8, by {BNB})"
    double = " with double quantisation" if config.doubles else ""
    return f"{bits} bits ({(config.quantization_type or 'nf4').upper()}{double}, by {BNB})"


def loading_note(config: TrainConfig, base: str, folder: str) -> str:
    """Returns a section of a model card, empty for a base that was not quantised.

    Args:
        config: the settings at the end of the run.
        base: the name of the base.
        folder: where transformers loads it from.
    """
    codes = codes_of(config)
    if codes is None:
        return ""
    beside = (
        "The adapter begins as what these codes lost: it is only for a base in them."
        if config.loftq_init
        else "The adapter loads on the base as it is in its files, too, with slightly other logits."
    )
    return (
        f"## The base in few bits\n\nThe linear layers of {base} were in {codes} while this "
        f"adapter was trained.\n{beside}\n{_example(config, folder)}\n"
    )


def _example(config: TrainConfig, folder: str) -> str:
    """Returns how peft loads the adapter on the same codes; only bitsandbytes' exist there."""
    if config.quantization_method == "mlx":
        return "peft has no codes of MLX: there it is for the base as it is in its files.\n"
    options = "load_in_8bit=True"
    if config.quantization_bit == 4:
        options = (
            f'load_in_4bit=True, bnb_4bit_quant_type="{config.quantization_type or "nf4"}", '
            f"bnb_4bit_use_double_quant={config.doubles}"
        )
    return (
        "On the same codes:\n\n```python\n"
        "from peft import PeftModel\n"
        "from transformers import AutoModelForCausalLM, BitsAndBytesConfig\n\n"
        f"codes = BitsAndBytesConfig({options})\n"
        f'base = AutoModelForCausalLM.from_pretrained("{folder}", quantization_config=codes)\n'
        f'model = PeftModel.from_pretrained(base, "{HERE}")\n```\n'
    )

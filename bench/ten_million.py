"""A random Qwen3 with 9.9 million parameters, its words, and rows with a common prompt."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zoo.backends.base import Batch

WORDS = 4096
_WORDS = [f"w{i}" for i in range(WORDS)]


def write_model(folder: Path) -> Path:
    """Writes the model's folder: 7 layers, hidden size 320, 4,096 words."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    from zoo.backends.torch.quiet import quiet

    torch.manual_seed(0)
    config = Qwen3Config(
        hidden_size=320,
        num_hidden_layers=7,
        num_attention_heads=10,
        num_key_value_heads=5,
        head_dim=32,
        intermediate_size=960,
        vocab_size=WORDS,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=0,
    )
    model: Any = Qwen3ForCausalLM(config)
    with quiet():
        model.save_pretrained(folder)
    return folder


def write_tokenizer(folder: Path) -> Path:
    """Writes a tokenizer to a model's folder, for which `words` are one token each."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    special = ("<pad>", "<bos>", "<eos>")
    vocabulary = {name: i for i, name in enumerate((*special, *_WORDS[len(special) :]))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<pad>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    fast: Any = PreTrainedTokenizerFast
    fast(tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<eos>").save_pretrained(folder)
    return folder


def words(seed: int, count: int) -> str:
    """Returns pseudo-random words, separated by spaces."""
    import numpy as np

    return " ".join(_WORDS[i] for i in np.random.default_rng(seed).integers(3, WORDS, count))


def prompt_ids(tokens: int) -> list[int]:
    """Returns a pseudo-random prompt."""
    import numpy as np

    return [int(token) for token in np.random.default_rng(0).integers(3, WORDS, tokens)]


def group(rows: int, prompt: int, answer: int) -> "Batch":
    """Returns rows with a common prompt whose answers are learned."""
    import numpy as np

    from zoo.backends.base import Batch, SharedPrefix
    from zoo.gym.objectives.constants import WINDOW_TOKENS

    answers_BT = np.random.default_rng(1).integers(3, WORDS, (rows, answer))
    prompts_BT = np.tile(np.array(prompt_ids(prompt)), (rows, 1))
    ids_BT = np.concatenate([prompts_BT, answers_BT], -1)
    mask_BT = np.tile(np.arange(prompt + answer) >= prompt, (rows, 1))
    return Batch(
        ids_BT,
        np.full(rows, prompt + answer),
        mask_BT,
        constants={WINDOW_TOKENS: float(rows * answer)},
        prefix=SharedPrefix(np.zeros(rows, np.int64), np.array([prompt])),
    )

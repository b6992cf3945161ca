"""The chat templates of five model families, on Qwen3's tokenizer with each one's markers."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from zoo.gym.data.rendering.template import ChatTemplate, chat_template
from zoo.gym.data.tokenizer import load_tokenizer

FILES = {
    "qwen3": "tokenizers/qwen3/chat_template.jinja",
    "qwen2.5": "chat_templates/Qwen-Qwen2.5-7B-Instruct.jinja",
    "llama3.2": "chat_templates/meta-llama-Llama-3.2-3B-Instruct.jinja",
    "gemma2": "chat_templates/google-gemma-2-2b-it.jinja",
    "phi3.5": "chat_templates/microsoft-Phi-3.5-mini-instruct.jinja",
}
MARKERS = [
    "<|begin_of_text|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|eot_id|>",
    "<bos>",
    "<start_of_turn>",
    "<end_of_turn>",
    "<|system|>",
    "<|user|>",
    "<|assistant|>",
    "<|end|>",
]
BOS = {"llama3.2": "<|begin_of_text|>", "gemma2": "<bos>"}


def read_templates(shared: Callable[[str], Path]) -> dict[str, ChatTemplate]:
    """Returns the templates by family, from the shared files."""
    tokenizer: Any = load_tokenizer(shared("data/tokenizers/qwen3"))
    tokenizer.add_special_tokens({"additional_special_tokens": MARKERS})
    made: dict[str, ChatTemplate] = {}
    for name, file in FILES.items():
        tokenizer.chat_template = shared(f"data/{file}").read_text(encoding="utf-8")
        template = chat_template(tokenizer, "2024-07-26")
        assert template is not None
        bos = "" if name not in BOS else "{%- set bos_token = '" + BOS[name] + "' %}\n"
        made[name] = replace(template, source=bos + template.source)
    return made

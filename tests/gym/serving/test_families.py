"""The server, a chat and `generate` answer what plain transformers' `generate` answers."""

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from openai import AsyncOpenAI
from transformers import AutoModelForCausalLM, AutoTokenizer

from tests.breadth.families import model_class, tiny_config
from zoo.gym import generate, open_chat
from zoo.gym.chat import ChatSession
from zoo.gym.data import Message, encode_prompt
from zoo.gym.serving.run import ModelServer, ServeConfig
from zoo.models import pico_folder

pytestmark = pytest.mark.slow

FAMILIES = [
    *("llama", "mistral", "qwen2", "qwen3", "gemma", "gemma3_text", "phi3", "gpt2", "gpt_neox"),
    *("olmo", "mixtral", "qwen3_5_text", "bloom", "mamba"),
]
TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
NEW = 12
NEAR = 1e-3
"""Two logits that are closer may come in another order."""


def write(folder: Path, family: str) -> Path:
    """A random model of a family with zen-pico's tokens."""
    config = tiny_config(family)
    config.vocab_size = 320
    config.eos_token_id, config.pad_token_id = 258, 256
    torch.manual_seed(0)
    model = model_class(config)(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3 if parameter.dim() > 1 else 1)
    model.save_pretrained(folder)
    for name in TOKENIZER:
        shutil.copy(pico_folder() / name, folder)
    return folder


def plain(folder: Path, ids: list[int], stops: tuple[int, ...]) -> tuple[str, str]:
    """Returns transformers' answer, and the part of it before a near tie."""
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    prompt = torch.tensor([ids])
    out = model.generate(
        prompt,
        attention_mask=torch.ones_like(prompt),
        max_new_tokens=NEW,
        do_sample=False,
        eos_token_id=list(stops),
        output_scores=True,
        return_dict_in_generate=True,
    )
    new = [token for token in out.sequences[0, len(ids) :].tolist() if token not in stops]
    tops = [scores[0].topk(2).values for scores in out.scores]
    near = (n for n, (first, second) in enumerate(tops) if first - second < NEAR)
    return tokenizer.decode(new), tokenizer.decode(new[: next(near, len(new))])


def rendered(folder: Path, session: ChatSession, prompt: str) -> list[int]:
    """Returns a prompt as transformers renders it, or as we do without a chat template."""
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    if tokenizer.chat_template is None:
        return encode_prompt([Message("user", prompt)], session.tokenizer, session.options)
    chat = [{"role": "user", "content": prompt}]
    text = tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=False)
    ids: list[int] = tokenizer(text, add_special_tokens=False).input_ids
    return ids


async def served(folder: Path, prompt: str) -> str:
    server = ModelServer(folder, "model", {}, ServeConfig(port=0))
    await server.start()
    client = AsyncOpenAI(base_url=f"{server.url}/v1", api_key=server.token or "", max_retries=0)
    try:
        answer = await client.chat.completions.create(
            model="model",
            messages=[{"role": "user", "content": prompt}],
            max_tokens=NEW,
            temperature=0,
        )
        return answer.choices[0].message.content or ""
    finally:
        await client.close()
        await server.stop()


def assert_all_answer_alike(folder: Path) -> None:
    prompt = "Say it: abc"
    with open_chat(folder, max_new_tokens=NEW) as session:
        ids, stops = rendered(folder, session, prompt), session.sampling.stop_ids
        chatted = session.talk(prompt)
    (generated,) = generate(folder, [prompt], max_new_tokens=NEW)
    expected, sure = plain(folder, ids, stops)
    answers = [asyncio.run(served(folder, prompt)), generated, chatted]
    if sure != expected:
        answers, expected = [answer[: len(sure)] for answer in answers], sure
    assert expected.strip()
    assert [answer.strip() for answer in answers] == [expected.strip()] * 3


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.filterwarnings("ignore::zoo.core.errors.GymWarning")
def test_a_family_answers_as_transformers_does(tmp_path: Path, family: str) -> None:
    assert_all_answer_alike(write(tmp_path / family, family))


def test_zen_pico_answers_as_transformers_does() -> None:
    assert_all_answer_alike(pico_folder())


@pytest.mark.filterwarnings("ignore::zoo.core.errors.GymWarning")
def test_stories_answer_as_transformers_does(shared: Callable[[str], Path]) -> None:
    assert_all_answer_alike(shared("data/models/stories260K"))

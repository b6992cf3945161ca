"""The zen-pico that ships: loads like any model, and does what its card says."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pico import tasks
from pico.tokenizer import CHAT_TEMPLATE, encode_answer, encode_prompt
from pico.train import greedy_accuracy
from zoo.models import checkpoint_files, pico_folder, registry

FOLDER = pico_folder()


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    """The tokenizer that ships, loaded as anybody would."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(FOLDER)


@pytest.fixture(scope="module")
def model() -> Any:
    """The model that ships, loaded as anybody would, in float32."""
    import torch
    from transformers import AutoModelForCausalLM

    torch.set_num_threads(1)
    return AutoModelForCausalLM.from_pretrained(FOLDER, dtype=torch.float32)


def test_it_is_a_qwen3_of_the_shape_in_the_registry(model: Any) -> None:
    config, shape = model.config, registry()[0].geometry
    assert type(model).__name__ == "Qwen3ForCausalLM"
    assert sum(parameter.numel() for parameter in model.parameters()) == 821_632
    assert (config.hidden_size, config.num_hidden_layers) == (shape.hidden, shape.layers)
    assert (config.num_attention_heads, config.head_dim) == (shape.heads, shape.head_dim)
    assert config.tie_word_embeddings


def test_its_weights_are_one_bfloat16_file() -> None:
    from safetensors import safe_open

    [file] = checkpoint_files(FOLDER)
    with safe_open(file, "pt") as weights:
        kinds = {weights.get_slice(name).get_dtype() for name in weights.offset_keys()}
    assert kinds == {"BF16"}
    assert file.stat().st_size < 1_700_000


@pytest.mark.slow
def test_it_adds_pairs_that_training_never_saw(model: Any) -> None:
    assert greedy_accuracy(model, tasks.test_slice()[:200]) >= 0.40


def test_plain_generation_gives_the_same_answers(model: Any, tokenizer: Any) -> None:
    messages = [{"role": "user", "content": "Spell nolat."}]
    inputs = tokenizer.apply_chat_template(
        messages, add_generation_prompt=True, return_tensors="pt", return_dict=True
    )
    output = model.generate(**inputs, max_new_tokens=10)
    answer = output[0, inputs["input_ids"].shape[1] :]
    assert tokenizer.decode(answer) == "n o l a t<|im_end|>"


@pytest.mark.slow
def test_it_cannot_spell_backward_yet(model: Any) -> None:
    words = ["nolat", "bick", "sut", "frem", "olgup", "tavi", "wek", "puzno", "larb", "gid"]
    problems = [tasks.Problem(f"Spell {word} backward.", word[::-1]) for word in words]
    assert greedy_accuracy(model, problems) <= 0.05


@pytest.mark.slow
@given(text=st.text())
def test_any_text_comes_back(tokenizer: Any, text: str) -> None:
    assert tokenizer.decode(tokenizer.encode(text)) == text


@pytest.mark.slow
@given(text=st.text(st.characters(exclude_characters="<", codec="utf-8")))
def test_one_token_is_one_byte(tokenizer: Any, text: str) -> None:
    assert tokenizer.encode(text) == list(text.encode())


def test_the_eight_tokens_of_the_structure_are_single(tokenizer: Any) -> None:
    names = ["endoftext", "im_start", "im_end", "system", "user", "assistant"]
    texts = [f"<|{name}|>" for name in names] + ["<think>", "</think>"]
    assert [tokenizer.encode(text) for text in texts] == [[i] for i in range(256, 264)]
    assert (tokenizer.pad_token_id, tokenizer.eos_token_id) == (256, 258)


def test_role_words_in_a_text_are_plain_bytes(tokenizer: Any) -> None:
    assert len(tokenizer.encode("user")) == 4


def render(tokenizer: Any, messages: Any, **options: bool) -> str:
    """Returns the chat as text."""
    return str(tokenizer.apply_chat_template(messages, tokenize=False, **options))


def test_the_template_renders_every_role(tokenizer: Any) -> None:
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "2+2?"},
        {"role": "assistant", "content": "4", "reasoning_content": "two pairs"},
        {"role": "user", "content": " Sure? "},
    ]
    assert render(tokenizer, messages, add_generation_prompt=True) == (
        "<|im_start|><|system|>Be brief.<|im_end|>"
        "<|im_start|><|user|>2+2?<|im_end|>"
        "<|im_start|><|assistant|><think>two pairs</think>4<|im_end|>"
        "<|im_start|><|user|> Sure? <|im_end|>"
        "<|im_start|><|assistant|>"
    )


def test_an_unknown_role_is_refused(tokenizer: Any) -> None:
    from jinja2.exceptions import TemplateError

    with pytest.raises(TemplateError, match="knows the roles system, user and assistant"):
        render(tokenizer, [{"role": "tool", "content": "42"}])


def test_training_rows_are_what_the_template_renders(tokenizer: Any) -> None:
    problem = tasks.addition(17, 25)
    messages = [
        {"role": "user", "content": problem.prompt},
        {"role": "assistant", "content": problem.answer},
    ]
    ids = tokenizer.apply_chat_template(messages, return_dict=False)
    assert ids == encode_prompt(problem) + encode_answer(problem)


def test_the_template_that_ships_is_the_one_in_the_script() -> None:
    assert (FOLDER / "chat_template.jinja").read_text(encoding="utf-8") == CHAT_TEMPLATE


def test_every_figure_of_the_card_is_in_the_log() -> None:
    card = (FOLDER / "README.md").read_text(encoding="utf-8")
    log = json.loads((FOLDER / "training_log.json").read_text(encoding="utf-8"))
    for name, share in log["shipped"].items():
        assert f"| {name} | {share:.1%} |" in card
    assert f"| {log['curve'][-1]['step']:,} |" in card


def test_training_stopped_at_the_first_evaluation_that_reached_the_target() -> None:
    log = json.loads((FOLDER / "training_log.json").read_text(encoding="utf-8"))
    reached = [point["accuracy"] >= log["target"] for point in log["curve"]]
    assert reached == [False] * (len(reached) - 1) + [True]
    assert [point["step"] for point in log["curve"]] == list(range(50, 50 * len(reached) + 1, 50))

"""A GGUF file gives in llama.cpp what the model gives in transformers; wrong files are found."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.codes import raises
from tests.gym.export.conftest import FAMILIES, MakeJob, random_model
from tests.gym.export.tuned import adapter
from tests.models.gguf.llama_cpp import LlamaCpp
from zoo.gym import generate
from zoo.gym.cli import main
from zoo.gym.data.rendering.template import chat_template, render
from zoo.gym.errors import InputError
from zoo.gym.export import gguf
from zoo.gym.export.conversations import CONVERSATIONS
from zoo.gym.export.job import DATE
from zoo.gym.export.run import export
from zoo.models import pico_folder
from zoo.models.gguf.parts import open_gguf
from zoo.models.gguf.writing import tensors, vocabulary

pytest.importorskip("xllamacpp")


@pytest.mark.parametrize("family", FAMILIES)
def test_log_probabilities_in_float32_are_those_of_transformers(
    family: str, job: MakeJob, tmp_path: Path
) -> None:
    model = random_model(tmp_path / "model", family)
    report = export(job(model, quantization="f32"), "gguf", tmp_path / "m.gguf")
    assert report.check is not None
    # llama.cpp has GELU as a table in float16, see `llamacpp.MAX_LOGPROB`
    assert report.check["max_logprob_difference"] <= (5e-3 if "gemma" in family else 1e-4)
    assert report.check["top1_equal"] == 1


@pytest.mark.parametrize(
    ("quantization", "figure", "most"),
    [
        ("f16", "max_logprob_difference", 2e-2),
        ("bf16", "max_logprob_difference", 0.1),
        ("q8_0", "mean_kl", 5e-3),
    ],
)
def test_zen_pico_in_other_types_is_as_near_as_they_allow(
    quantization: str, figure: str, most: float, job: MakeJob, tmp_path: Path
) -> None:
    report = export(job("zen-pico", quantization=quantization), "gguf", tmp_path / "m.gguf")
    assert report.check is not None
    assert report.check[figure] <= most


def test_codes_of_four_bits_give_in_llama_cpp_what_their_values_give_here(
    job: MakeJob, tmp_path: Path
) -> None:
    model = random_model(tmp_path / "model", "qwen3")
    report = export(job(model, quantization="q4_k_m"), "gguf", tmp_path / "m.gguf")
    assert report.check is not None
    assert report.check["kl_to_own_values"] < 3e-3
    assert report.check["mean_kl"] > 1e-2
    assert report.facts["types"]["Q4_K"] > report.facts["types"]["Q6_K"] > 0


def test_what_codes_cost_stands_beside_what_the_fine_tune_changes(
    job: MakeJob, tmp_path: Path
) -> None:
    report = export(job(adapter(tmp_path / "a")), "gguf", tmp_path / "m.gguf")
    assert report.check is not None
    assert report.check["kl_of_fine_tune"] > 10 * report.check["mean_kl"]


def _with(change: Callable[[np.ndarray], np.ndarray], name: str) -> Callable[..., Any]:
    """Returns a reading of weights with one of them changed."""
    values = tensors.Tensor.values

    def changed(self: tensors.Tensor, read: Any) -> np.ndarray:
        found = values(self, read)
        return change(found) if self.name == name else found

    return changed


def _drop_end(vocabulary_keys: Any) -> Any:
    def without(*arguments: Any) -> dict[str, Any]:
        keys: dict[str, Any] = vocabulary_keys(*arguments)
        return keys | {"tokenizer.ggml.add_bos_token": True, "tokenizer.ggml.bos_token_id": 256}

    return without


def test_queries_that_are_not_permuted_leave_no_file(
    job: MakeJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = random_model(tmp_path / "model", "llama")
    monkeypatch.setattr(tensors, "interleaved", lambda _: lambda values: values)
    with raises("export.other_results", "expected a log-probability within"):
        export(job(model, quantization="f32"), "gguf", tmp_path / "m.gguf")
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == []


def test_a_tensor_of_zeros_leaves_no_file(
    job: MakeJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zeros = _with(np.zeros_like, "blk.3.ffn_down.weight")
    monkeypatch.setattr(tensors.Tensor, "values", zeros)
    with raises("export.other_results", "expected a mean KL within"):
        export(job("zen-pico"), "gguf", tmp_path / "m.gguf")
    assert not (tmp_path / "m.gguf").exists()


def test_another_token_before_each_chat_leaves_no_file(
    job: MakeJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = _drop_end(vocabulary.vocabulary_keys)
    monkeypatch.setattr(gguf, "vocabulary_keys", wrong)
    with raises("export.other_chat"):
        export(job("zen-pico"), "gguf", tmp_path / "m.gguf")
    assert not (tmp_path / "m.gguf").exists()


@pytest.mark.parametrize(
    ("lost", "words"),
    [
        ("tokenizer.chat_template", "expected the same tokens from llama"),
        ("tokenizer.ggml.eot_token_id", "tokens that end an answer: expected"),
    ],
)
def test_a_lost_template_or_end_leaves_no_file(
    lost: str, words: str, job: MakeJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys_of = vocabulary.vocabulary_keys

    def without(*arguments: Any) -> dict[str, Any]:
        return {key: value for key, value in keys_of(*arguments).items() if key != lost}

    monkeypatch.setattr(gguf, "vocabulary_keys", without)
    made = job(random_model(tmp_path / "model", "qwen2", eos_token_id=256), quantization="f32")
    with pytest.raises(InputError, match=words):
        export(made, "gguf", tmp_path / "m.gguf")
    assert not (tmp_path / "m.gguf").exists()


def test_a_weight_without_a_name_in_the_file_is_refused(job: MakeJob, tmp_path: Path) -> None:
    from safetensors.numpy import load_file, save_file

    model = random_model(tmp_path / "model", "qwen3")
    file = model / "model.safetensors"
    extra = {"model.layers.0.self_attn.sinks": np.zeros(4, np.float32)}
    save_file(load_file(file) | extra, file)
    with pytest.raises(InputError, match=r"weight 'model\.layers\.0\.self_attn\.sinks'"):
        gguf.plan(job(model))


def test_template_ends_and_special_tokens_are_in_the_header(job: MakeJob, tmp_path: Path) -> None:
    made = job("zen-pico")
    export(made, "gguf", tmp_path / "m.gguf")
    metadata = open_gguf(tmp_path / "m.gguf").metadata
    assert metadata.text("tokenizer.chat_template") == made.template
    assert metadata.integer("tokenizer.ggml.eos_token_id") == 258
    assert metadata.integer("tokenizer.ggml.padding_token_id") == 256
    assert metadata.boolean("tokenizer.ggml.add_bos_token") is False


def test_llama_cpp_renders_the_template_as_we_do(job: MakeJob, tmp_path: Path) -> None:
    made = job("zen-pico")
    export(made, "gguf", tmp_path / "m.gguf")
    llama = LlamaCpp(tmp_path / "m.gguf")
    template = chat_template(made.tokenizer, DATE)
    assert template is not None
    for chat in CONVERSATIONS:
        turns = [
            {"role": turn.role, "content": turn.content}
            | ({"reasoning_content": turn.reasoning} if turn.reasoning else {})
            for turn in chat
        ]
        assert llama.rendered(turns) == render(template, chat, generation_prompt=True)


@pytest.mark.parametrize("model", ["zen-pico", "stories260K", "qwen3"])
def test_the_first_32_tokens_are_those_of_our_engine(
    model: str, job: MakeJob, shared: Callable[[str], Path], tmp_path: Path
) -> None:
    if model == "qwen3":
        folder = random_model(tmp_path / "model", model)
    else:
        folder = pico_folder() if model == "zen-pico" else shared("data/models/stories260K")
    export(job(folder, quantization="f32"), "gguf", tmp_path / "m.gguf")
    prompts = ["spell: cat", "Once upon a time"]
    ours = generate(folder, prompts, max_new_tokens=32)
    assert generate(tmp_path / "m.gguf", prompts, max_new_tokens=32) == ours


def test_a_token_that_was_added_is_read_as_one(job: MakeJob, tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    model = random_model(tmp_path / "model", "qwen3", vocab_size=265)
    tokenizer = AutoTokenizer.from_pretrained(model)
    tokenizer.add_tokens(["<mine>"])
    tokenizer.save_pretrained(model)
    export(job(model, quantization="f32"), "gguf", tmp_path / "m.gguf")
    text = "one <mine>two"
    assert LlamaCpp(tmp_path / "m.gguf").ids(text) == tokenizer(text)["input_ids"]
    assert 264 in tokenizer(text)["input_ids"]


@pytest.mark.slow
@pytest.mark.mlx
def test_what_mlx_trained_is_what_llama_cpp_computes(
    job: MakeJob, tmp_path: Path, near_worker: None
) -> None:
    pytest.importorskip("mlx.core")
    rows = [{"prompt": f"Say {n}.", "completion": f"It is {n}."} for n in range(20)]
    (tmp_path / "d.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = ["train", "d.jsonl", "--model", "zen-pico", "max_steps=4", "backend=mlx"]
    assert main(words) == 0
    report = export(job("last", quantization="f32"), "gguf", tmp_path / "m.gguf")
    assert report.check is not None
    assert report.check["mean_kl"] <= 1e-6


def test_narrow_tensors_are_named_and_refused_if_strict(job: MakeJob, tmp_path: Path) -> None:
    model = random_model(tmp_path / "model", "qwen3", head_dim=32)
    narrow = {"blk.0.attn_output.weight": "Q5_0", "blk.1.attn_output.weight": "Q5_0"}
    assert gguf.plan(job(model, quantization="q4_k_m")).fallbacks == narrow
    with raises("export.narrow", "--strict: expected every matrix"):
        gguf.plan(job(model, quantization="q4_k_m", strict=True))


def test_a_file_without_a_tensor_of_its_type_is_refused(job: MakeJob) -> None:
    with raises("export.no_such_type", "a multiple of 256 for Q4_K, got none") as refused:
        gguf.plan(job("zen-pico", quantization="q4_k_m"))
    assert refused.value.hint == "--quantization q8_0"


DYNAMIC = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}


@pytest.mark.parametrize(
    ("family", "settings", "words"),
    [
        ("llama", {"hidden_act": "relu"}, "hidden_act: expected 'silu'"),
        ("qwen3", {"rope_parameters": DYNAMIC}, "rope_type"),
        ("gemma2", {"query_pre_attn_scalar": 100}, "query_pre_attn_scalar: expected 64"),
        ("gemma2", {"final_logit_softcapping": None}, "final_logit_softcapping: expected a number"),
        ("llama", {"rms_norm_eps": -1.0}, "expected a number above 0, got -1.0"),
        ("qwen3_moe", {"norm_topk_prob": False}, "norm_topk_prob: expected True"),
    ],
)
def test_a_setting_that_llama_cpp_would_ignore_is_refused(
    family: str, settings: dict[str, Any], words: str, job: MakeJob, tmp_path: Path
) -> None:
    model = random_model(tmp_path / "model", family, **settings)
    with pytest.raises(InputError, match=words):
        gguf.plan(job(model))


@pytest.mark.parametrize(("family", "key"), [("mistral", "llama"), ("phi3", "phi3")])
def test_a_window_that_does_not_slide_becomes_the_context(
    family: str, key: str, job: MakeJob, tmp_path: Path
) -> None:
    model = random_model(tmp_path / "model", family, sliding_window=128)
    assert gguf.plan(job(model)).keys[f"{key}.context_length"] == 128


@pytest.mark.parametrize("begins", [True, False])
def test_a_chat_gets_the_first_token_that_the_template_writes(
    begins: bool, job: MakeJob, tmp_path: Path
) -> None:
    from tokenizers.processors import TemplateProcessing
    from transformers import AutoTokenizer

    model = random_model(tmp_path / "model", "llama")
    tokenizer = AutoTokenizer.from_pretrained(model)
    tokenizer.bos_token = "<|endoftext|>"
    special = [("<|endoftext|>", 256)]
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="<|endoftext|> $A", pair="<|endoftext|> $A $B", special_tokens=special
    )
    if begins:
        tokenizer.chat_template = "{{ bos_token }}" + tokenizer.chat_template
    tokenizer.save_pretrained(model)
    report = export(job(model, quantization="f32"), "gguf", tmp_path / "m.gguf")
    assert report.check is not None
    assert report.check["chats"] == 8
    metadata = open_gguf(tmp_path / "m.gguf").metadata
    assert metadata.boolean("tokenizer.ggml.add_bos_token") is begins


def test_a_name_that_changes_tokens_in_llama_cpp_is_refused(job: MakeJob) -> None:
    with raises("export.name_changes_tokens"):
        gguf.plan(job("zen-pico", name="my-phi-3"))


def test_more_tokens_than_rows_are_refused_with_both_numbers(job: MakeJob, tmp_path: Path) -> None:
    model = random_model(tmp_path / "model", "qwen3", vocab_size=262)
    with pytest.raises(InputError, match=r"tokens below 262, .* got 263"):
        gguf.plan(job(model))


def test_rows_without_a_token_become_unused_ones(job: MakeJob, tmp_path: Path) -> None:
    model = random_model(tmp_path / "model", "qwen3", vocab_size=300)
    report = export(job(model, quantization="f32"), "gguf", tmp_path / "m.gguf")
    types = open_gguf(tmp_path / "m.gguf").metadata.integers("tokenizer.ggml.token_type")
    assert types is not None
    assert list(types[264:]) == [5] * 36
    assert report.check is not None

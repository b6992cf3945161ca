"""A settings file of a server: every setting has its effect, or is refused by name."""

import asyncio
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.codes import raises
from tests.gym.serving.conftest import NAME, serving
from tests.models.gguf.files import settings, write_gguf
from zoo.backends.spec import QuantizationSpec
from zoo.gym.cli import main
from zoo.gym.serving.run import ServeConfig
from zoo.gym.serving.settings import Block, check_bits, check_format, quantization_of, read_block

PUBLISHED = """
serving:
  model_format: gguf
  quantization: int4
  batch_size: 32
  max_concurrent: 100
  cache_size: 10GB
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "serving.yaml"


def test_published_names_are_ours(file: Path) -> None:
    file.write_text(PUBLISHED)
    config = ServeConfig.model_validate(read_block(file).config())
    assert (config.rows, config.queue, config.cache_size) == (32, 100, 10_000_000_000)


def test_every_other_setting_reaches_the_server(file: Path) -> None:
    file.write_text(
        "serving: {model: zen-pico, variant: {ann: r0001}, host: 127.0.0.1, port: 9000, "
        "allow_host: [box], cors: ['https://a.org'], user_token: [ann], request_s: 5, "
        "concurrency: 7, template: chatml, quantization: nf4, model_format: safetensors}"
    )
    block = read_block(file)
    assert (block.model, block.variant) == ("zen-pico", {"ann": "r0001"})
    config = ServeConfig.model_validate(block.config() | {"quantization": quantization_of(block)})
    assert (config.port, config.names, config.origins) == (9000, ("box",), ("https://a.org",))
    assert (config.request_s, config.concurrency, config.template) == (5, 7, "chatml")
    assert (config.user_tokens, config.quantization) == (("ann",), QuantizationSpec())
    check_format(block, "safetensors")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "expected one block 'serving:', got nothing"),
        ("serving: {}\nlr: 1", "expected one block 'serving:', got 'lr' in line 2"),
        ("serving: 5", "serving: expected settings, got 5"),
        ("serving: {batch_sise: 4}", "serving: batch_sise: no such setting"),
        ("serving: {batch_size: 0}", "serving: batch_size: expected 1 to 1,024, got 0"),
        ("serving: {batch_size: '4'}", 'serving: batch_size: expected a whole number, got "4"'),
        (
            "serving: {rows: 4, batch_size: 5}",
            "serving: expected rows or its published name, got both",
        ),
        ("serving: {cache_size: much}", "serving: cache_size: expected bytes, such as 10GB"),
        ("serving: {user_token: ann}", 'serving: user_token: expected a list, as [ann], got "ann"'),
        ("serving: {cors: 5}", "serving: cors: expected a list, got 5"),
        ("serving: {variant: [r0001]}", "serving: variant: expected NAME: SOURCE, got a list"),
        ("serving: {model_format: onnx}", "serving: model_format: expected"),
    ],
)
def test_a_wrong_file_is_refused(file: Path, text: str, expected: str) -> None:
    file.write_text(text)
    with raises("serving.settings", re.escape(f"{file}: {expected}")):
        read_block(file)


def test_a_format_or_bits_that_the_model_does_not_have_are_refused(tmp_path: Path) -> None:
    with raises("serving.settings", "model_format gguf: expected a GGUF file as model"):
        check_format(Block(model=NAME, model_format="gguf"), "safetensors")
    with raises("serving.settings", r"quantization: expected 4, 8.*got 'int4'"):
        quantization_of(Block(quantization="int4"))
    tensors = {"a": np.zeros((8, 32), "f4"), "b": np.zeros(32, "f4")}
    file = write_gguf(tmp_path / "a.gguf", settings("llama", {}), tensors, "Q8_0")
    with raises("serving.settings", r"quantization: expected .* in int4, got .* Q8_0"):
        check_bits(Block(quantization="int4"), file)
    check_bits(Block(quantization="int8"), file)


def test_flags_win_over_the_file(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text("serving: {model: no-such-model, host: example.org, port: 1}")
    flags = ["--model", NAME, "--host", "0.0.0.0"]
    assert main(["serve", "--config", str(file), *flags]) == 2
    assert "--host: 0.0.0.0: expected the names that others use" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["../evil", "a=b", "a,b", "ann+words", "Ann"])
@pytest.mark.parametrize("flags", [[], ["--print", "vllm", "--out", "out"]], ids=len)
def test_variants_that_no_request_can_name_are_refused(
    name: str,
    flags: list[str],
    variants: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "serving.yaml"
    file.write_text(f"serving: {{model: {NAME}, variant: {{'{name}': '{variants['ann']}'}}}}")
    assert main(["serve", "--config", str(file), *flags]) == 2
    assert "variant: expected names of 1 to 64 of a-z" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_variant_of_a_gguf_file_that_no_request_can_name_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tensors = {"a": np.zeros((8, 32), "f4")}
    base = write_gguf(tmp_path / "a.gguf", settings("llama", {}), tensors, "Q8_0")
    file = tmp_path / "serving.yaml"
    file.write_text(f"serving: {{model: '{base}', variant: {{ann+words: '{base}'}}}}")
    assert main(["serve", "--config", str(file)]) == 2
    assert "variant: expected names of 1 to 64 of a-z" in capsys.readouterr().err


def test_an_answer_that_takes_longer_than_request_s_is_cut_off_then(
    variants: dict[str, Path],
) -> None:
    openai = pytest.importorskip("openai")

    async def ask() -> None:
        async with serving(variants, request_s=0.2) as (_, client):
            with pytest.raises(openai.APIConnectionError):
                # none of them ends before: the tokens that end an answer are banned
                await client.completions.create(
                    model=NAME,
                    prompt="ab",
                    max_tokens=400,
                    n=16,
                    temperature=0,
                    logit_bias={"256": -100, "257": -100, "258": -100},
                )

    asyncio.run(ask())


@pytest.mark.filterwarnings("ignore:.* is used, not the model's own")
def test_a_quantised_base_and_another_template_change_answers(variants: dict[str, Path]) -> None:
    pytest.importorskip("bitsandbytes")
    file = variants["ann"].parent / "shout.jinja"
    file.write_text("{% for m in messages %}!{{ m.content }}{{ eos_token }}{% endfor %}")

    async def logprob(**settings: Any) -> float:
        async with serving(variants, **settings) as (_, client):
            answer = await client.chat.completions.create(
                model=f"{NAME}:ann",
                messages=[{"role": "user", "content": "ab"}],
                max_tokens=1,
                temperature=0,
                logprobs=True,
            )
            scores = answer.choices[0].logprobs
            assert scores is not None
            assert scores.content
            return scores.content[0].logprob

    kinds: list[dict[str, Any]] = [{}, {"quantization": QuantizationSpec()}]
    kinds.append({"template": str(file)})
    plain, quantised, shouted = [asyncio.run(logprob(**kind)) for kind in kinds]
    assert abs(plain - quantised) > 1e-4
    assert abs(plain - shouted) > 1e-4

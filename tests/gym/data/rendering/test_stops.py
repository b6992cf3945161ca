"""What ends an answer."""

from pathlib import Path
from typing import Any

import pytest

from zoo.gym.data import EncodeOptions, chat_stops, load_tokenizer
from zoo.gym.data.rendering import mask
from zoo.gym.data.rendering.mask import end_markers
from zoo.gym.data.rendering.renderer import RenderLimitError
from zoo.gym.data.rendering.template import ChatTemplate
from zoo.models import pico_folder


def test_stops_are_those_of_tokenizer_configs_and_template(tmp_path: Path) -> None:
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [7, 5]}')
    (tmp_path / "config.json").write_text('{"eos_token_id": 9}')
    tokenizer: Any = load_tokenizer(pico_folder())
    end = tokenizer.eos_token_id
    tokenizer.eos_token = "<|endoftext|>"  # as a base model's; the template still writes the other
    stops = chat_stops(tmp_path, tokenizer, EncodeOptions(cutoff_len=99))
    assert tokenizer.eos_token_id != end
    assert set(stops) == {5, 7, 9, end, tokenizer.eos_token_id}
    tokenizer.chat_template = None
    stops = chat_stops(tmp_path, tokenizer, EncodeOptions(cutoff_len=99))
    assert set(stops) == {5, 7, 9, tokenizer.eos_token_id}


@pytest.mark.parametrize(
    ("family", "marker"),
    [
        ("qwen3", "<|im_end|>"),
        ("qwen2.5", "<|im_end|>"),
        ("llama3.2", "<|eot_id|>"),
        ("gemma2", "<end_of_turn>"),
        ("phi3.5", "<|end|>"),
    ],
)
def test_the_marker_is_the_one_that_the_template_writes(
    templates: dict[str, ChatTemplate], family: str, marker: str
) -> None:
    tokenizer: Any = templates[family].tokenizer
    assert end_markers(templates[family]) == {tokenizer.convert_tokens_to_ids(marker)}


def test_a_template_that_ran_out_of_time_once_is_asked_again(
    templates: dict[str, ChatTemplate], monkeypatch: pytest.MonkeyPatch
) -> None:
    end_markers.cache_clear()
    with monkeypatch.context() as patched:

        def late(*_: object) -> None:
            raise RenderLimitError("the chat template took longer than 1 s")

        patched.setattr(mask, "render_turns", late)
        with pytest.raises(RenderLimitError):
            end_markers(templates["qwen3"])
    assert end_markers(templates["qwen3"])

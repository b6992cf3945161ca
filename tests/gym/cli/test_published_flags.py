"""Commands of published texts: their flags, with the values that a run would have."""

from pathlib import Path

import pytest

from tests.gym.cli.conftest import Call

COMMANDS = [
    (
        "grpo --base-model zen-pico --dataset my.jsonl --group-size 4 --max-epochs 2 --output out",
        {"stage": "grpo", "group_size": 4, "num_train_epochs": 2.0, "output_dir": "out"},
    ),
    (
        "--stage grpo --do_train --model_name_or_path zen-pico --dataset my.jsonl --template qwen3"
        " --finetuning_type lora --per_device_train_batch_size 2 --learning_rate 1e-5"
        " --grpo_group_size 6 --grpo_beta 0.1 --grpo_clip_range 0.2",
        {"stage": "grpo", "group_size": 6, "beta": 0.1, "epsilon": 0.2, "learning_rate": 1e-5},
    ),
    (
        "--stage sft --do_train true --model zen-pico --data my.jsonl --lora_target q_proj,v_proj",
        {"stage": "sft", "lora_target": "q_proj,v_proj"},
    ),
    ("--do_train True --model zen-pico --dataset my.jsonl --lora_rank 64", {"lora_rank": 64}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("words", "settings"), COMMANDS)
def test_published_flags_have_their_effect(
    words: str, settings: dict[str, object], call: Call
) -> None:
    write_rows()
    found = call("train", *words.split(), "--print-config", "--json")
    assert found.code == 0, found.stderr
    printed = found.json["config"]
    assert isinstance(printed, dict)
    assert {key: printed[key] for key in settings} == settings
    ignored = found.json["ignored"]
    assert isinstance(ignored, list)
    keys = {one["key"] for one in ignored}
    assert keys == {key for key in ("do_train", "template") if f"--{key}" in words}


def write_rows() -> None:
    """Writes `my.jsonl` into the working folder."""
    rows = "".join(
        f'{{"prompt": "{n} + 1 =", "answer": {n + 1}, "completion": "{n}"}}\n' for n in range(12)
    )
    Path("my.jsonl").write_text(rows)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--quantization_method gptq", "--quantization_method: gptq is a format of models that"),
        ("--grpo_loss x", "--grpo_loss: no such setting: expected the name without grpo_"),
    ],
)
def test_a_published_flag_of_later_is_refused_by_name(words: str, message: str, call: Call) -> None:
    write_rows()
    found = call("train", "my.jsonl", "--model", "zen-pico", *words.split(), "--json")
    assert (found.code, message in found.stderr) == (2, True), found.stderr

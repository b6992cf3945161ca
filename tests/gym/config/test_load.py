"""Reading settings: precedence, origins, and every fault in one go."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.codes import raises
from zoo.gym.config import TrainConfig, dump_config, extend_config, load_config, load_values
from zoo.gym.config.stages import METHODS
from zoo.gym.errors import InputError

NEEDED = ["model=zen-pico", "data=my.jsonl"]


def write(folder: Path, text: str) -> Path:
    path = folder / "train.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def faults(folder: Path, text: str) -> list[str]:
    """Returns the lines that a file is refused with, without the folder's name."""
    path = write(folder, f"model: zen-pico\ndataset: a.jsonl\n{text}")
    with pytest.raises(InputError) as caught:
        load_config([path], [], {})
    return caught.value.message.replace(f"{folder}/", "").splitlines()


BAD_VALUES = [
    ("lora_rank: many", 'lora_rank: expected a whole number, got "many"'),
    ("lora_rank: 1.5", "lora_rank: expected a whole number, got 1.5"),
    ("seed: true", "seed: expected a whole number, got true"),
    ("learning_rate: fast", 'learning_rate: expected a number, got "fast"'),
    ("learning_rate: yes", "learning_rate: expected a number, got true"),
    ("learning_rate: 0", "learning_rate: expected more than 0, got 0"),
    ("learning_rate: 2", "learning_rate: expected at most 1, got 2"),
    ("lora_dropout: 1", "lora_dropout: expected less than 1, got 1"),
    ("val_size: -1", "val_size: expected at least 0, got -1"),
    ("val_size: 1.5", "val_size: expected a share below 1 or a whole number of rows, got 1.5"),
    ("lora_alpha: .inf", "lora_alpha: expected a finite number, got inf"),
    ("lora_alpha: .nan", "lora_alpha: expected a finite number, got nan"),
    ("use_rslora: [1]", "use_rslora: expected true or false, got a list"),
    ("output_dir: {a: 1}", "output_dir: expected text, got a mapping"),
    ("lora_rank:", "lora_rank: expected a whole number, got nothing"),
    ("date: 0", "date: expected a date as YYYY-MM-DD, got 0"),
    ("date: tomorrow", 'date: expected a date as YYYY-MM-DD, got "tomorrow"'),
    ("dtype: f64", "dtype: expected 'auto', 'f32', 'bf16' or 'bf16-widened', got \"f64\""),
    (
        "report_to: swanlab",
        "report_to: expected 'none', 'tensorboard', 'wandb' or 'tensorboard,wandb',"
        ' got "swanlab"',
    ),
    ("stage: gpro", f"stage: expected {', '.join(METHODS)}, got \"gpro\". Did you mean 'gspo'?"),
    ("stage: pt", f"stage: the method 'pt' is not supported yet: expected {', '.join(METHODS)}"),
    ("learning_rte: 1", "learning_rte: no such setting. Did you mean 'learning_rate'?"),
    ("lr: 1", "lr: no such setting. Did you mean 'learning_rate'?"),
    ("zzz: 1", "zzz: no such setting"),
    ("quantization_bit: 5", "quantization_bit: expected 2, 3, 4, 6 or 8, got 5"),
    (
        "quantization: bnb",
        "quantization: expected 4, 8, nf4, fp4, int8 or {method: bnb, bits: 4} for the base;"
        " bitdelta or deltaquant, with bits or without, for the adapter",
    ),
    ("quantization_method: hqq", "quantization_method: hqq is not supported: expected bnb"),
    (
        "reward_weights: [1]",
        "reward_weights: expected weights in reward: {numeric: 1, format: 0.2}",
    ),
    ("grpo_clip: 1", "grpo_clip: no such setting: expected the name without grpo_, such as beta"),
    ("fp16: true", "fp16: float16 training is not supported: expected dtype bf16 or f32"),
    ("base_model: b", "base_model: already given as 'train.yaml:1: model'"),
]


@pytest.mark.parametrize(("text", "fault"), BAD_VALUES)
def test_a_bad_setting_is_reported_with_its_line(tmp_path: Path, text: str, fault: str) -> None:
    assert faults(tmp_path, text) == [f"train.yaml:3: {fault}"]


BROKEN = [
    ("a: [1", "train.yaml:3: broken YAML: "),
    ("a: 1\n\tb: 2", "train.yaml:4: broken YAML: "),
    ("a: 1\nb: 2\na: 3", "train.yaml:5: a: also on line 3"),
    ("a: \x07", "train.yaml:3: broken YAML: a character that is not allowed"),
    ("? [1]\n: 2", "train.yaml:3: expected the name of a setting, got a list or a mapping"),
    ("a: &a {}\n<<: *a", "train.yaml:4: <<: merge keys are not supported: expected the settings"),
    ("date: 2024-13-45", "train.yaml:3: date: unreadable value: month must be in 1..12"),
    ("--- b", "train.yaml:3: broken YAML: but found another document"),
    ("a: !!python/name:os.system", "train.yaml:3: broken YAML: could not determine a constructor"),
]


@pytest.mark.parametrize(("text", "start"), BROKEN)
def test_a_broken_file_is_reported_with_its_line(tmp_path: Path, text: str, start: str) -> None:
    assert faults(tmp_path, text)[0].startswith(start)


@pytest.mark.parametrize("text", ["- a\n- b\n", "just words\n"])
def test_a_file_that_is_no_mapping_is_refused(tmp_path: Path, text: str) -> None:
    with raises("files.not_settings", r":1: expected 'key: value' lines, got"):
        load_config([write(tmp_path, text)], NEEDED, {})


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "train.yaml"
    path.write_bytes(b"model: \xff\xfe")
    with raises("files.not_text", r"train\.yaml: not text: expected UTF-8, .* at 7$"):
        load_config([path], NEEDED, {})


@pytest.mark.slow
def test_a_deeply_nested_file_is_refused(tmp_path: Path) -> None:
    with raises("files.broken_yaml", "nested too deeply"):
        load_config([write(tmp_path, "a: " + "[" * 3000)], NEEDED, {})


def test_a_file_of_data_by_the_name_of_settings_is_refused(tmp_path: Path) -> None:
    with raises("files.yaml_too_large", "expected at most 1000000 bytes of settings"):
        load_config([write(tmp_path, "#" * 1_000_001)], NEEDED, {})


def test_an_absent_file_is_not_available(tmp_path: Path) -> None:
    with raises("files.no_such_file", r"absent\.yaml: no such file"):
        load_config([tmp_path / "absent.yaml"], NEEDED, {})


def test_an_empty_file_gives_no_setting(tmp_path: Path) -> None:
    loaded = load_config([write(tmp_path, "# nothing\n")], NEEDED, {})
    assert loaded.config == load_config([], NEEDED, {}).config


def test_every_fault_is_reported_in_the_order_of_the_sources(tmp_path: Path) -> None:
    path = write(tmp_path, "seed: -1\nlora_rank: many\nlearning_rte: 1\n")
    with raises("config.invalid") as caught:
        load_config([path], ["dtype=f64"], {"max_steps": "0"})
    starts = [line.removeprefix(f"{path}:") for line in caught.value.message.splitlines()]
    assert [start.split(" ")[0] for start in starts] == [
        *("1:", "2:", "3:", "dtype=f64:", "--max_steps:", "model_name_or_path:", "dataset:")
    ]


def test_flags_and_items_win_over_a_file_over_the_default(tmp_path: Path) -> None:
    path = write(tmp_path, "seed: 1\nlora_rank: 1\ncutoff_len: 100\n")
    loaded = load_config([path], [*NEEDED, "lora_rank=2"], {"seed": "3"})
    config = loaded.config
    assert (config.seed, config.lora_rank, config.cutoff_len, config.lora_dropout) == (3, 2, 100, 0)
    names = ("seed", "lora_rank", "cutoff_len", "lora_dropout")
    assert [loaded.origins[name] for name in names] == [
        f"flag, over 1 of {path}:1",
        f"key=value, over 1 of {path}:2",
        f"{path}:3",
        "default",
    ]


@pytest.mark.parametrize("item", ["seed=2", "seed=3", "model=zen-pico"])
def test_an_item_and_a_flag_for_one_setting_are_refused(item: str) -> None:
    with raises("config.invalid", f"already given as '{item}'"):
        load_config([], ["dataset=d.jsonl", item], {"seed": "3", "model_name_or_path": "m"})


def test_a_later_file_wins_over_an_earlier_one(tmp_path: Path) -> None:
    first, second = tmp_path / "a.yaml", tmp_path / "b.yaml"
    first.write_text("seed: 1\nlora_rank: 1\n")
    second.write_text("seed: 2\n")
    config = load_config([first, second], NEEDED, {}).config
    assert (config.seed, config.lora_rank) == (2, 1)


VALUES = [
    ("learning_rate=1e-4", "learning_rate", 1e-4),
    ("learning_rate=5.0e-5", "learning_rate", 5e-5),
    ("val_size=20", "val_size", 20.0),
    ("lora_rank=8.0", "lora_rank", 8),
    ("use_rslora=yes", "use_rslora", True),
    ("max_steps=null", "max_steps", None),
    ("date=2024-07-26", "date", "2024-07-26"),
    ("dataset=a.jsonl, b.json", "dataset", ("a.jsonl", "b.json")),
    ("dataset=[a.jsonl]", "dataset", ("a.jsonl",)),
    ("model=123", "model_name_or_path", "123"),
    ("algorithm=sft", "stage", "sft"),
    ("epochs=2", "num_train_epochs", 2.0),
    ("bf16=true", "dtype", "bf16"),
    ("output_dir=a: [b", "output_dir", "a: [b"),
]


@pytest.mark.parametrize(("item", "key", "value"), VALUES)
def test_an_override_is_read_as_yaml(item: str, key: str, value: object) -> None:
    needed = [word for word in NEEDED if word[:4] != item[:4]]
    assert getattr(load_config([], [*needed, item], {}).config, key) == value


def test_the_same_setting_under_two_names_is_refused() -> None:
    with raises("config.invalid", "data=b: already given as 'dataset=a'"):
        load_config([], ["model=m", "dataset=a", "data=b"], {})


@pytest.mark.parametrize(
    ("file", "item", "key"),
    [
        ("max_steps: 30\nnum_train_epochs: 3\n", "num_train_epochs=1", "max_steps"),
        ("warmup_steps: 2\n", "warmup_ratio=0.9", "warmup_steps"),
        ("bf16: true\n", "bf16=false", "dtype"),
    ],
)
def test_what_a_stronger_layer_asks_for_under_another_key_wins(
    tmp_path: Path, file: str, item: str, key: str
) -> None:
    path = write(tmp_path, file)
    loaded = load_config([path], [*NEEDED, item], {})
    assert getattr(loaded.config, key) == getattr(load_config([], NEEDED, {}).config, key)
    assert (loaded.origins[key], loaded.ignored) == ("default", ())


@pytest.mark.parametrize(
    ("items", "key"),
    [
        (["max_steps=30", "num_train_epochs=1"], "num_train_epochs"),
        (["warmup_steps=2", "warmup_ratio=0.9"], "warmup_ratio"),
    ],
)
def test_an_overridden_setting_is_reported(items: list[str], key: str) -> None:
    [ignored] = load_config([], [*NEEDED, *items], {}).ignored
    assert (ignored.key, ignored.reason.startswith("overridden by")) == (key, True)


@pytest.mark.parametrize("value", ["n", "1", "on and off", "2"])
def test_bf16_is_true_or_false(value: str) -> None:
    with raises("config.invalid", f"bf16={value}: expected true or false, got "):
        load_config([], [*NEEDED, f"bf16={value}"], {})


def test_a_flag_may_give_what_a_file_gave_under_another_name(tmp_path: Path) -> None:
    path = write(tmp_path, "base_model: a\n")
    loaded = load_config([path], ["data=d"], {"model_name_or_path": "b"})
    assert loaded.config.model_name_or_path == "b"


def test_a_dumped_config_reads_back_as_itself(tmp_path: Path) -> None:
    items = [*NEEDED, "learning_rate=1e-5", "date=2024-07-26", "finetuning_type=full", "seed=7"]
    config = load_config([], items, {}).config
    assert load_config([write(tmp_path, dump_config(config))], [], {}).config == config


def test_a_model_without_data_is_refused_with_what_to_type() -> None:
    with raises("config.invalid", "dataset: not given") as caught:
        load_config([], ["model=zen-pico"], {})
    assert caught.value.hint == "give a file of examples: zoo-gym train my.jsonl"


TOGETHER = [
    (["finetuning_type=full", "lora_rank=8"], "lora_rank=8: has no effect with finetuning_type"),
    (["finetuning_type=full", "use_rslora=true"], "use_rslora=true: has no effect"),
    (["finetuning_type=full", "use_dora=true"], "use_dora=true: has no effect"),
    (["finetuning_type=dora", "use_dora=false"], "use_dora=false: expected true with"),
    (["freeze_trainable_layers=3"], "freeze_trainable_layers=3: has no effect with finetuning_ty"),
    (["finetuning_type=freeze", "lora_rank=4"], "lora_rank=4: has no effect with finetuning_type"),
    (
        ["finetuning_type=freeze", "freeze_trainable_layers=0"],
        "freeze_trainable_layers=0: expected",
    ),
    (
        ["finetuning_type=freeze", "freeze_trainable_modules=all,mlp"],
        "freeze_trainable_modules=all",
    ),
    (["adapter_name_or_path=a", "pissa_init=true"], "pissa_init=true: has no effect with adapter"),
    (["adapter_name_or_path=a", "finetuning_type=dora"], "adapter_name_or_path=a: has no effect"),
    (["finetuning_type=oft", "lora_rank=4"], "lora_rank=4: has no effect with finetuning_type oft"),
    (["oft_block_size=4"], "oft_block_size=4: has no effect with finetuning_type lora"),
    (["module_dropout=0.1"], "module_dropout=0.1: has no effect with finetuning_type lora"),
    (
        ["finetuning_type=oft", "oft_rank=4", "oft_block_size=8"],
        "oft_block_size=8: expected 0 with oft_rank 4, got 8",
    ),
    (["finetuning_type=oft", "oft_block_size=0"], "oft_block_size=0: expected 2 or more without"),
    (["finetuning_type=oft", "oft_block_size=1"], "oft_block_size=1: expected 2 or more without"),
    (["finetuning_type=oft", "oft_target=all,q_proj"], "oft_target=all,q_proj: expected all or"),
    (["finetuning_type=oft", "loraplus_lr_ratio=2"], "loraplus_lr_ratio=2: has no effect with"),
    (["finetuning_type=full", "additional_target=lm_head"], "additional_target=lm_head: has no ef"),
    (["adapter_name_or_path=a", "additional_target=norm"], "additional_target=norm: has no effect"),
    (["stage=rm", "additional_target=norm"], "additional_target=norm: cannot be with stage rm"),
    (
        ["lora_target=q_proj,v_proj", "additional_target=norm,q_proj"],
        "additional_target=norm,q_proj: expected modules without an adapter, got one that lora",
    ),
    (
        ["adapter_name_or_path=a", "create_new_adapter=true"],
        "create_new_adapter=true: cannot be with adapter_name_or_path: the result would be for",
    ),
    (["finetuning_type=full", "create_new_adapter=true"], "create_new_adapter=true: has no effect"),
    (["loftq_init=true"], "loftq_init=true: expected false without quantization_bit 4"),
    (
        ["loftq_init=true", "quantization_bit=8"],
        "loftq_init=true: expected false without quantization_bit 4",
    ),
    (
        ["loftq_init=true", "quantization_bit=4", "use_dora=true"],
        "loftq_init=true: expected false with DoRA",
    ),
    (
        ["loftq_init=true", "quantization_bit=4", "pissa_init=true"],
        "loftq_init=true: expected false with pissa_init",
    ),
    (["pissa_iter=4"], "pissa_iter=4: has no effect without pissa_init"),
    (["finetuning_type=full", "pissa_init=true"], "pissa_init=true: has no effect with"),
    (["use_dora=true", "pissa_init=true"], "pissa_init=true: expected false with DoRA"),
    (["val_size=0", "eval_steps=5"], "eval_steps=5: has no effect without held-out rows"),
    (["lora_target=all,q_proj"], "lora_target=all,q_proj: expected all or names of layers, got"),
    (["lora_alpha=1e300"], "lora_alpha=1e300: expected at most 1,000,000, got"),
    (["max_steps=5", "warmup_steps=5"], "warmup_steps=5: expected less than max_steps 5, got 5"),
]


@pytest.mark.parametrize(("items", "start"), TOGETHER)
def test_settings_that_contradict_each_other_are_refused(items: list[str], start: str) -> None:
    with raises("config.invalid") as caught:
        load_config([], [*NEEDED, *items], {})
    assert caught.value.message.startswith(start)


def test_chosen_values_join_the_given_ones() -> None:
    config = load_config([], [*NEEDED, "warmup_steps=5"], {}).config
    assert extend_config(config, {"max_steps": 6}).max_steps == 6


def test_a_chosen_value_that_contradicts_a_given_one_is_reported() -> None:
    config = load_config([], [*NEEDED, "warmup_steps=5"], {}).config
    with raises("config.invalid", r"^warmup_steps: expected less than max_steps 5, got 5$"):
        extend_config(config, {"max_steps": 5})


def test_overwriting_without_an_output_dir_is_reported_as_without_effect() -> None:
    items = ["model=m", "dataset=d.jsonl", "overwrite_output_dir=true"]
    loaded = load_config([], items, {})
    assert [one.key for one in loaded.ignored] == ["overwrite_output_dir"]
    assert load_config([], [*items, "output_dir=o"], {}).ignored == ()


@pytest.mark.parametrize("text", ["010", "+10", "1_0"])
def test_a_number_is_decimal_in_an_item_a_file_and_a_flag(tmp_path: Path, text: str) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(f"seed: {text}\n")
    assert load_config([file], NEEDED, {}).config.seed == 10
    assert load_config([], [*NEEDED, f"seed={text}"], {}).config.seed == 10
    assert load_config([], NEEDED, {"seed": text}).config.seed == 10


@pytest.mark.parametrize("text", ["0x10", "1:30", "0b11"])
def test_a_number_of_another_kind_is_refused(text: str) -> None:
    with raises("config.invalid", f'expected a whole number, got "{text}"'):
        load_config([], [*NEEDED, f"seed={text}"], {})


def test_python_is_given_the_reason_of_a_setting_without_effect() -> None:
    given = {"warmup_ratio": 0.1, "warmup_steps": 3, "overwrite_output_dir": True}
    config = TrainConfig(model_name_or_path="m", dataset="d.jsonl", **given)
    assert [key for key, _ in config.idle_settings()] == ["warmup_ratio", "overwrite_output_dir"]


def test_python_reports_the_stage_of_a_setting() -> None:
    with raises("config.invalid", "pref_beta: has no effect with stage sft: expected stage"):
        TrainConfig(model_name_or_path="m", dataset="d.jsonl", pref_beta=0.5)


@pytest.mark.parametrize(
    ("reward", "hint"),
    [
        ("nothing", "a reward is a function (my.py:score), a reward model (its folder, org/name)"),
        ([{"kind": "exact"}, "exact"], "give one of them another name"),
    ],
)
def test_the_hint_of_a_wrong_reward_reaches_the_user(reward: object, hint: str) -> None:
    given = {"model": "m", "data": "d.jsonl", "stage": "grpo", "reward": reward}
    made: list[Callable[[], object]] = [
        lambda: load_config([], [], given),
        lambda: load_values(given),
        lambda: TrainConfig(model_name_or_path="m", dataset="d.jsonl", stage="grpo", reward=reward),
    ]
    for make in made:
        with raises("config.invalid", "reward: ") as caught:
            make()
        assert caught.value.hint is not None
        assert caught.value.hint.startswith(hint)


ELSEWHERE = {
    "pissa": "pissa_init true",
    "loftq": "loftq_init true and quantization_bit 4",
    "rslora": "use_rslora true",
    "loraplus": "loraplus_lr_ratio",
    "vera": "expected lora",
    "lorra": "qlora is 'lora' with quantization_bit 4",
}


@pytest.mark.parametrize("name", ELSEWHERE)
def test_an_adapter_by_its_own_name_is_refused_with_the_key_that_gives_it(name: str) -> None:
    with raises("config.invalid", f"^finetuning_type={name}: .*{ELSEWHERE[name]}"):
        load_config([], [*NEEDED, f"finetuning_type={name}"], {})


def test_a_rate_in_a_file_needs_no_point(tmp_path: Path) -> None:
    path = write(tmp_path, "learning_rate: 1e-4\n")  # text to PyYAML
    assert load_config([path], NEEDED, {}).config.learning_rate == 1e-4

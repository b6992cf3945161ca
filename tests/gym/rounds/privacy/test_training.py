"""Training for a private round: its settings, and that a contribution of it is kept whole."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.codes import raises
from tests.gym.rounds.contribution.conftest import LAYERS, SHAPES
from tests.gym.rounds.privacy.conftest import RANK, SEED
from tests.gym.rounds.protocol.people import ALICE, LOG
from zoo.gym.cli import main
from zoo.gym.config import load_config, load_values
from zoo.gym.delta.reading.weights import open_weights
from zoo.gym.errors import InputError
from zoo.gym.paths import folders
from zoo.gym.published.api import train_here
from zoo.gym.rounds.protocol.manifest import Manifest
from zoo.gym.rounds.session.contributing import prepare
from zoo.gym.rounds.session.opening import open_round
from zoo.gym.rounds.session.writing import create_round
from zoo.gym.rounds.storage.base import FolderStorage
from zoo.gym.train.planning.fixed_base import check_fixed_base
from zoo.models.fixed_factor import fixed_factor
from zoo.models.resolve import pico_folder


@pytest.fixture
def place(storage: FolderStorage, private_manifest: Manifest) -> str:
    create_round(storage, private_manifest, LOG)
    return f"round={storage.address}"


def test_a_round_gives_base_layers_rank_and_factors(place: str) -> None:
    found = load_config([], [place, "dataset=x.jsonl"], {})
    config = found.config
    assert (config.model_name_or_path, config.lora_rank) == ("tiny", RANK)
    assert config.lora_fixed_a == SEED
    assert set(config.lora_target.split(",")) == {name.removesuffix(".weight") for name in LAYERS}
    assert found.origins["lora_fixed_a"] == "round"


def test_same_values_and_another_base_path_are_accepted(place: str) -> None:
    given = [place, "dataset=x.jsonl", f"lora_rank={RANK}", "model_name_or_path=/elsewhere"]
    assert load_config([], given, {}).config.model_name_or_path == "/elsewhere"


def test_qlora_is_lora_as_the_round_has_it(place: str) -> None:
    given = [place, "dataset=x.jsonl", "finetuning_type=qlora"]
    config = load_config([], given, {}).config
    assert (config.finetuning_type, config.quantization_bit) == ("lora", 4)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (f"base_identity={SEED}", "as the round has it, got 5a5a"),
        ("lora_rank=3", "lora_rank=3: expected 2, as the round has it, got 3"),
        ("lora_target=q_proj", "lora_target=q_proj: expected model.layers.0"),
        ("finetuning_type=full", "finetuning_type=full: expected lora"),
        ("use_dora=true", "use_dora=true: cannot be with lora_fixed_a"),
        ("pissa_init=true", "pissa_init=true: cannot be with lora_fixed_a"),
        ("additional_target=norm", "additional_target=norm: cannot be with lora_fixed_a"),
    ],
)
def test_what_the_round_has_fixed_cannot_be_changed(given: str, message: str, place: str) -> None:
    with pytest.raises(InputError, match=message):
        load_config([], [place, "dataset=x.jsonl", given], {})


@pytest.fixture
def other_base(tmp_path: Path) -> Path:
    """Zen-pico with another bit in a layer."""
    folder = shutil.copytree(pico_folder(), tmp_path / "other")
    file, place = open_weights(folder).tensors["model.layers.0.self_attn.q_proj.weight"]
    content = bytearray(file.read_bytes())
    content[place.start] ^= 1
    file.write_bytes(content)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("way", ["command", "Python"])
def test_other_base_is_refused_before_a_run_starts(
    way: str, storage: FolderStorage, other_base: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    create = ["round", "create", "quiet", "--base", "zen-pico", "--out", storage.address]
    assert main([*create, "--private", "epsilon=8", "--rank", "4", "--force"]) == 0
    rows = other_base / "rows.jsonl"
    rows.write_text('{"prompt": "a", "completion": "b"}\n' * 10)
    given = {"model_name_or_path": str(other_base), "dataset": str(rows), "round": "quiet"}
    said = f"model_name_or_path={other_base}: expected the base of the round (identity"
    if way == "command":
        assert main(["train", *(f"{key}={value}" for key, value in given.items())]) == 2
        assert said in capsys.readouterr().err
    else:
        with raises("train.wrong_base", re.escape(said)):
            train_here(load_values(given).config)
    assert not list(folders().data.rglob("config.yaml"))


def test_base_with_other_layers_is_refused(place: str, base: Path) -> None:
    given = [place, "dataset=x.jsonl", f"model_name_or_path={base}"]
    config = load_config([], given, {}).config
    check_fixed_base(config, base)
    more = config.model_copy(update={"lora_target": f"{config.lora_target},model.layers.9.x"})
    with raises("train.wrong_base", r"got one without tensor 'model\.layers\.9\.x\.weight'"):
        check_fixed_base(more, base)


def test_other_rounds_and_none_are_refused_by_name(
    storage: FolderStorage, manifest: Manifest, tmp_path: Path
) -> None:
    create_round(storage, manifest, LOG)
    with raises("rounds.not_private") as caught:
        load_config([], [f"round={storage.address}", "dataset=x.jsonl"], {})
    assert caught.value.code == "rounds.not_private"
    with raises("rounds.no_round") as refused:
        load_config([], ["round=no-such-round", "dataset=x.jsonl"], {})
    assert refused.value.code == "rounds.no_round"
    with raises("config.given_twice", "round=b: already given as 'round=a'"):
        load_config([], ["round=a", "round=b", "dataset=x.jsonl"], {})


def test_an_adapter_on_the_rounds_factors_is_contributed_whole(
    storage: FolderStorage, base: Path, private_manifest: Manifest, tmp_path: Path
) -> None:
    from tests.gym.delta.models_on_disk import write_adapter

    arrays: dict[str, np.ndarray[tuple[int, ...], np.dtype[np.float32]]] = {}
    random = np.random.default_rng(7)
    for name in LAYERS:
        rows, columns = SHAPES[name]
        stem = f"base_model.model.{name.removesuffix('.weight')}"
        arrays[f"{stem}.lora_A.weight"] = fixed_factor(SEED, name, RANK, columns)
        b = random.standard_normal((rows, RANK)) / 100
        arrays[f"{stem}.lora_B.weight"] = b.astype(np.float32)
    source = write_adapter(tmp_path / "adapter", arrays, RANK)
    create_round(storage, private_manifest, LOG)
    own, _ = prepare(open_round(storage), source, base, ALICE)
    assert own.written
    assert own.written.kept == pytest.approx(1)
    assert own.written.clipped == pytest.approx(1, rel=1e-4)


@pytest.mark.slow
def test_a_run_for_a_round_is_contributed_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    rows = [{"prompt": f"{word}?", "completion": word[::-1]} for word in ("abc", "bcd", "cde")] * 8
    Path("words.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    create = ["round", "create", "quiet", "--base", "zen-pico", "--out", "round"]
    assert main([*create, "--private", "epsilon=8", "--rank", "4", "--force"]) == 0
    train = ["train", "words.jsonl", "round=quiet", "max_steps=3", "val_size=0", "seed=1"]
    assert main([*train, "backend=cpu"]) == 0
    capsys.readouterr()
    assert main(["round", "contribute", "last", "--round", "quiet", "--json"]) == 0
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert told["private"]["kept"] == pytest.approx(1)
    assert told["private"]["norm"] > 0

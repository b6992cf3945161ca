"""Whatever a settings file holds, the answer is a config or one of our errors."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zoo.gym.config import TrainConfig, dump_config, load_config
from zoo.gym.errors import GymError

WORDS = st.sampled_from([*TrainConfig.model_fields, "model", "data", "bf16", "template", "zzz"])
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
VALUES = SCALARS | st.lists(SCALARS, max_size=2)


@pytest.mark.slow
@given(st.binary(max_size=60))
def test_a_file_of_any_bytes_gives_a_config_or_our_error(content: bytes) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "any.yaml"
        path.write_bytes(b"model: m\ndata: d\n" + content)
        try:
            told = load_config([path], [], {}).config.model_name_or_path
        except GymError as error:
            told = error.message
        assert told == "m" or told.startswith(str(path))


@pytest.mark.slow
@given(st.dictionaries(WORDS, VALUES, max_size=4))
def test_flags_of_any_value_give_a_config_that_reads_back(flags: dict[str, object]) -> None:
    try:
        config = load_config([], [], {"model": "m", "data": "d", **flags}).config
    except GymError:
        return
    with TemporaryDirectory() as folder:
        path = Path(folder) / "dumped.yaml"
        path.write_text(dump_config(config), encoding="utf-8")
        assert load_config([path], [], {}).config == config

"""Runs of methods on a base in 4 bits: a stopped one resumes to the bytes of a whole one."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.gym.train.methods.pairs import write_pairs
from tests.gym.train.methods.rollout_runs import PPO, SETTINGS, digest, events, start, stopped
from tests.gym.train.methods.teachers import write_teacher
from tests.night import one_in
from zoo.backends.torch.quantized.library import import_bitsandbytes
from zoo.gym.train.run_folder.settings import stored_settings
from zoo.gym.train.session import run_session

if import_bitsandbytes() is None:
    pytest.skip("needs the extra qlora", allow_module_level=True)

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("home")]

REWARDED = ("grpo", "ppo")
OF_REWARDS = ("group_size", "max_completion_length")

STAGES: dict[str, dict[str, Any]] = {
    "grpo": {"beta": 0.1},
    "ppo": PPO,
    "dpo": {"val_size": 3},
    "distill": {},
}


@pytest.fixture
def data(
    request: pytest.FixtureRequest, stage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """The rows of a stage; settings that it does not have are taken away."""
    if stage in REWARDED:
        sums: Path = request.getfixturevalue("sums")
        return sums
    for key in OF_REWARDS:
        monkeypatch.delitem(SETTINGS, key)
    if stage == "dpo":
        return write_pairs(tmp_path)
    monkeypatch.setitem(SETTINGS, "teacher_model", str(write_teacher(tmp_path / "teacher")))
    rows = tmp_path / "rows.jsonl"
    chats = ({"prompt": f"{n} + 1", "completion": f"{n + 1}."} for n in range(12))
    rows.write_text("".join(json.dumps(row) + "\n" for row in chats))
    return rows


@pytest.mark.parametrize("stage", one_in(4, STAGES))
def test_a_stopped_run_resumes_to_the_same_bytes(stage: str, data: Path) -> None:
    given = {"stage": stage, "quantization_bit": 4, **STAGES[stage]}
    whole, run = start(data, **given), stopped(data, 2, **given)
    run_session(stored_settings(run.config_file, run.env_file), run, lambda: None)
    assert digest(run) == digest(whole)
    assert [event["grad_norm"] > 0 for event in events(whole, "step")] == [True] * 4
    assert digest(whole) != digest(start(data, **{**given, "quantization_bit": 8}))

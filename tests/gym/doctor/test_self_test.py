"""The self-test finds what it is there to find."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.codes import raises
from zoo.backends.base import Rollout
from zoo.backends.torch.policy import TorchPolicy
from zoo.core.selftest import Verdict
from zoo.gym.doctor import self_test
from zoo.gym.errors import GymError
from zoo.models import pico_folder


def test_the_stored_score_is_what_plain_transformers_finds() -> None:
    from transformers import AutoModelForCausalLM

    batch = self_test.rows()
    model: Any = AutoModelForCausalLM.from_pretrained(pico_folder(), dtype=torch.float32)
    with torch.no_grad():
        logits_BTV = model(torch.from_numpy(batch.ids_BT)).logits
    ids_BT1 = torch.from_numpy(batch.ids_BT)[:, 1:, None]
    logprobs_BT = logits_BTV[:, :-1].log_softmax(-1).gather(-1, ids_BT1)[..., 0].numpy()
    found = -logprobs_BT[batch.loss_mask_BT[:, 1:]].mean()
    assert abs(found - self_test.SCORE_NATS) < 1e-4


@pytest.mark.slow
def test_every_check_goes_well_here() -> None:
    told: list[Mapping[str, object]] = []
    self_test.run_checks(told.append)
    assert [line["done"] for line in told if "done" in line] == list(self_test.CHECKS)


def test_each_other_engine_that_works_is_tried_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong step on it is reported with its name."""
    monkeypatch.setattr(
        "zoo.backends.machine.detect.probe", lambda name: (name in {"mlx", "cpu"}, "")
    )
    opened: list[str] = []

    def load(name: str) -> str:
        opened.append(name)
        return name

    def score(policy: object, *_: object) -> None:
        raise GymError(f"expected 1, got {policy}")

    monkeypatch.setattr("zoo.backends.load_backend", load)
    monkeypatch.setattr(self_test, "load", lambda backend, _: backend)
    monkeypatch.setattr(self_test, "score", score)
    with raises("doctor.failed", "backend=mlx: expected 1, got mlx"):
        self_test.engines("cpu", self_test.rows(), print)
    for check in ("score", "train", "generate"):
        monkeypatch.setattr(self_test, check, lambda *_: None)
    said: list[str] = []
    self_test.engines("cuda", self_test.rows(), said.append)
    assert (opened, said) == (["mlx", "mlx", "cpu"], ["the same on mlx, cpu"])


def test_an_instruction_set_that_gives_other_bytes_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wrong = Verdict("avx2", 3, "signs: bits at (0, 1): expected 1, got 2")
    monkeypatch.setattr("zoo.core.selftest.self_test", lambda: (wrong,))
    with raises("doctor.failed", r"avx2: signs: bits at \(0, 1\): expected 1, got 2"):
        self_test.run_checks(lambda _: None)


@pytest.mark.slow
def test_a_machine_that_scores_otherwise_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(self_test, "loss", lambda *_: self_test.SCORE_NATS + 0.01)
    with raises("doctor.failed", r"expected 10\.6966 nats per token, got 10\.7066"):
        self_test.run_checks(lambda _: None)


@pytest.mark.slow
def test_a_step_that_moves_nothing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TorchPolicy, "optimizer_step", lambda *_: None)
    with raises("doctor.failed", "expected a step to change the weights"):
        self_test.run_checks(lambda _: None)


@pytest.mark.slow
def test_a_draw_that_scores_otherwise_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    generate = TorchPolicy.generate

    def otherwise(*args: Any, **options: Any) -> list[Rollout]:
        drawn = generate(*args, **options)
        return [replace(one, logprobs=[x - 0.01 for x in one.logprobs]) for one in drawn]

    monkeypatch.setattr(TorchPolicy, "generate", otherwise)
    with raises("doctor.failed", r"when scored, got a difference of 0\.0100"):
        self_test.run_checks(lambda _: None)


def test_a_reader_that_takes_damaged_deltas_is_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "d"
    file.write_bytes(b"ab")
    monkeypatch.setattr("zoo.gym.delta.load_delta", lambda _: None)
    assert not self_test.refuses_flipped_bit(file)
    assert file.read_bytes() == b"ac"  # b is 0x62, c is 0x63

"""Distillation: from a teacher to a result, its gradient, and what is refused."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch

from tests.backends.conftest import write_tiny
from tests.backends.reference import example_batch, relative_error
from tests.codes import raises
from tests.gym.conftest import Refused
from tests.gym.train.methods.pairs import GIVEN, events
from tests.gym.train.methods.teachers import write_teacher
from tests.gym.train.planning.needs import LORA
from tests.gym.train.test_resume import leave_behind
from zoo.backends import load_backend
from zoo.backends.base import LoadSpec, Stat
from zoo.backends.memory import estimate_memory
from zoo.gym import run_training
from zoo.gym.cli import main
from zoo.gym.config import TrainConfig, dump_config, load_config
from zoo.gym.config.stages import load_method
from zoo.gym.errors import InputError
from zoo.gym.jobs import create_run
from zoo.gym.objectives.distillation import DistillationLoss
from zoo.gym.train.plan import Plan
from zoo.gym.train.run_folder.base import check_same_base
from zoo.gym.train.session import run_session
from zoo.models import pico_folder


@pytest.fixture
def teacher(tmp_path: Path) -> Path:
    return write_teacher(tmp_path / "teacher")


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))
    path = tmp_path / "rows.jsonl"
    lines = [{"prompt": f"say {n}", "completion": f"the {n} of it"} for n in range(16)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def settings(rows: Path, teacher: Path, **more: Any) -> TrainConfig:
    given: dict[str, Any] = {"model_name_or_path": "zen-pico", "dataset": str(rows)}
    given |= {"stage": "distill", "teacher_model": str(teacher), "learning_rate": 1e-3}
    fixed = {"max_steps": 8, "eval_steps": 4, "val_size": 4, "date": "2026-01-01"}
    return TrainConfig.model_validate({**given, **fixed, **more})


@pytest.mark.slow
def test_a_student_comes_closer_to_its_teacher(rows: Path, teacher: Path) -> None:
    run = run_training(settings(rows, teacher))
    first, *_, last = events(run, "eval")
    assert last["loss"] == last["metrics"]["kl"] < 0.8 * first["loss"]
    assert first["metrics"]["nll"] > 0
    assert run.metrics["best_loss"] == last["loss"]
    card = (run.model / "README.md").read_text()
    assert "teacher_model: teacher, revision not recorded" in card
    assert str(teacher) not in card


@pytest.mark.slow
def test_another_teacher_gives_another_loss(rows: Path, teacher: Path, tmp_path: Path) -> None:
    other = write_teacher(tmp_path / "other", seed=1)
    losses = [
        events(run_training(settings(rows, folder, max_steps=1)), "step")[0]["loss"]
        for folder in (teacher, other)
    ]
    assert abs(losses[0] - losses[1]) > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("divergence", ["forward_kl", "reverse_kl"])
def test_the_gradient_is_that_of_torchs_own_divergence(
    divergence: Literal["forward_kl", "reverse_kl"], tiny: Path, tmp_path: Path
) -> None:
    from transformers import AutoModelForCausalLM

    other = write_tiny(tmp_path, tied=False, seed=5)
    policy = load_backend("cpu").load(tiny, LoadSpec(train="full", dtype="f32"))
    batch, objective = example_batch(), DistillationLoss(divergence, alpha=0.3)
    found = policy.accumulate(objective, batch, key=0, teacher=load_backend("cpu").load(other))
    plain: Any = AutoModelForCausalLM
    student, theirs = (plain.from_pretrained(path).eval() for path in (tiny, other))
    ids = torch.from_numpy(batch.ids_BT)
    student_BTV, teacher_BTV = (
        model(input_ids=ids).logits[:, :-1].log_softmax(-1) for model in (student, theirs)
    )
    ends = (student_BTV, teacher_BTV.detach())
    near, far = ends if divergence == "forward_kl" else ends[::-1]
    kl_BT = torch.nn.functional.kl_div(near, far, reduction="none", log_target=True).sum(-1)
    nll_BT = -student_BTV.gather(-1, ids[:, 1:, None])[..., 0]
    mask_BT = torch.from_numpy(batch.loss_mask_BT)[:, 1:]
    loss = ((kl_BT + 0.3 * nll_BT) * mask_BT).sum() / batch.constants["window_tokens"]
    loss.backward()
    expected = {
        name: p.grad.numpy() for name, p in student.named_parameters() if p.grad is not None
    }
    assert found["loss"] == pytest.approx(loss.item(), rel=1e-6)
    assert relative_error(dict(policy.gradients()), expected) < 1e-5


def test_the_loss_is_the_one_computed_by_hand() -> None:
    stats = {Stat.FORWARD_KL: np.array([[0.0, 0.5, 9.0]]), Stat.LOGPROBS: np.array([[0, -1.0, -9]])}
    batch = {"mask": np.array([[0.0, 1.0, 0.0]]), "window_tokens": 2.0}
    loss, metrics = DistillationLoss(alpha=0.3)(np, stats, batch)  # type: ignore[arg-type]
    assert loss == pytest.approx(0.5 / 2 + 0.3 * 1 / 2)
    assert metrics == {"kl": 0.25, "nll": 0.5}


@pytest.mark.parametrize("more", [{"distill_loss": "reverse_kl"}, {"distill_alpha": 0.5}])
def test_each_setting_changes_the_objective(more: dict[str, Any]) -> None:
    def objective(**given: Any) -> DistillationLoss:
        given = {**GIVEN, "stage": "distill", "teacher_model": "t", **given}
        plan = Plan(load_config([], [], given).config, 1, 1, 0, ())
        found: DistillationLoss = load_method("distill")(None, plan, (), (), Path()).objective
        return found

    assert objective(**more) != objective()


def test_a_run_that_is_resumed_with_another_teacher_is_refused(
    teacher: Path, tmp_path: Path
) -> None:
    env = tmp_path / "r0001" / "env.json"
    env.parent.mkdir()
    env.write_text("{}")
    check_same_base(env, teacher, "teacher_model")
    check_same_base(env, teacher, "teacher_model")
    other = write_teacher(tmp_path / "other", seed=1)
    with raises("train.changed_base", r"expected the teacher_model that run r0001 .*: weights"):
        check_same_base(env, other, "teacher_model")


@pytest.mark.slow
def test_a_run_that_is_resumed_gets_the_weights_of_one_that_was_not(
    rows: Path, teacher: Path
) -> None:
    config = settings(rows, teacher, max_steps=4, save_steps=2)
    whole = run_training(config)
    run = create_run(dump_config(config), {"settings": config.model_dump(mode="json")})
    with raises("train.stopped"):
        run_session(config, run, leave_behind(run, 2))
    run_session(config, run, lambda: None)
    file = "result/adapter_model.safetensors"
    assert (run.folder / file).read_bytes() == (whole.folder / file).read_bytes()


def refusal(rows: Path, teacher: Path, **more: Any) -> str:
    with pytest.raises(InputError) as caught:
        run_training(settings(rows, teacher, **more))
    return caught.value.message


def test_a_teacher_that_is_the_base_is_refused_unless_answers_are_learned(rows: Path) -> None:
    assert "expected another model than the base" in refusal(rows, pico_folder())
    config = settings(rows, pico_folder(), distill_alpha=0.5)
    load_method("distill").check_models(config, pico_folder())


def test_a_teacher_with_another_tokenizer_is_refused(rows: Path, teacher: Path) -> None:
    file = teacher / "tokenizer.json"
    content = json.loads(file.read_text())
    content["added_tokens"][3]["content"] = "<|other|>"
    file.write_text(json.dumps(content))
    message = refusal(rows, teacher)
    assert "teacher_model: expected the tokenizer of the base" in message
    assert "token 259 is '<|other|>' in teacher and '<|system|>' in the base" in message


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("max_position_embeddings", 64, "cutoff_len: expected at most 64 tokens"),
        ("vocab_size", 300, "teacher_model: expected probabilities of 264 tokens"),
    ],
)
def test_a_teacher_of_another_size_is_refused(
    key: str, value: int, message: str, rows: Path, teacher: Path
) -> None:
    file = teacher / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {key: value}))
    assert message in refusal(rows, teacher)


@pytest.mark.slow
def test_logits_of_other_tokens_are_no_teachers(tiny: Path, tmp_path: Path) -> None:
    other = write_tiny(tmp_path, tied=True, vocab_size=600)
    policy, teacher = (load_backend("cpu").load(folder) for folder in (tiny, other))
    with raises("backends.other_vocabulary", "expected logits of 521 tokens, got 600"):
        policy.score(example_batch(), frozenset({Stat.FORWARD_KL}), teacher=teacher)


@pytest.mark.slow
def test_a_teacher_must_be_given(refused: Refused) -> None:
    Path("rows.jsonl").write_text('{"prompt": "a", "completion": "b"}\n')
    words = ("train", "rows.jsonl", "--model", "zen-pico", "stage=distill")
    assert refused(*words, code=2) == "teacher_model: not given"


@pytest.mark.slow
def test_a_teacher_that_is_not_here_is_refused_before_a_run(refused: Refused) -> None:
    Path("rows.jsonl").write_text('{"prompt": "a", "completion": "b"}\n')
    words = ("train", "rows.jsonl", "--model", "zen-pico", "stage=distill")
    message = refused(*words, "teacher_model=zen-nano", code=4)
    assert "Qwen/Qwen3-0.6B" in message


def test_a_result_does_not_replace_the_teacher(rows: Path, teacher: Path) -> None:
    more = {"output_dir": str(teacher), "overwrite_output_dir": True}
    assert "another folder than the teacher_model's" in refusal(rows, teacher, **more)


def test_data_is_inspected_for_a_student_without_a_teacher(
    rows: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["data", "inspect", str(rows), "--stage", "distill", "--offline"]) == 0
    assert "sft or distill" in capsys.readouterr().out


def test_a_teacher_takes_memory() -> None:
    more = estimate_memory(replace(LORA, other_parameters=1000))
    assert more.weights == estimate_memory(LORA).weights + 2 * 1000

"""Distillation of scales: what it gains, that it resumes to the same bytes, what is refused."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np
import pytest

from tests.codes import raises
from tests.gym.conftest import Refused
from tests.gym.delta.lora import write_random_adapter
from tests.gym.train.methods.pairs import events
from tests.gym.train.methods.teachers import write_teacher
from tests.night import one_in
from zoo.backends import load_backend
from zoo.backends.base import LoadSpec
from zoo.gym import create_delta, load_delta, run_training
from zoo.gym.cli import main
from zoo.gym.config import TrainConfig, dump_config
from zoo.gym.config.delta import DeltaConfig
from zoo.gym.data.batches import collate
from zoo.gym.data.units import Example, alone
from zoo.gym.delta.distilled import Distilled
from zoo.gym.delta.file.reader import tensor_parts
from zoo.gym.delta.summary import as_text
from zoo.gym.errors import InterruptedRunError
from zoo.gym.jobs import state as states
from zoo.gym.jobs.run import create_run, open_run, run_folders
from zoo.gym.jobs.worker import main as work
from zoo.gym.objectives.distillation import DistillationLoss
from zoo.gym.published import distilled
from zoo.gym.train.methods.distill_delta import DistillDelta
from zoo.gym.train.run_folder.other_files import OTHER_FILES_KEY, digest_of
from zoo.gym.tuned.source import source_at
from zoo.models import pico_folder


@pytest.fixture
def tuned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))
    return write_teacher(tmp_path / "tuned")


@pytest.fixture
def delta(tuned: Path, tmp_path: Path) -> Path:
    return create_delta(tuned, base=pico_folder(), out=tmp_path / "plain.safetensors").file


def rows(count: int = 40) -> list[dict[str, str]]:
    return [{"prompt": f"say {n}", "completion": f"the {n} of it"} for n in range(count)]


def settings(tuned: Path, delta: Path, **more: Any) -> TrainConfig:
    fixed: dict[str, Any] = {"model_name_or_path": "zen-pico", "dataset": rows(), "val_size": 4}
    fixed |= {"stage": "distill_delta", "teacher_model": str(tuned), "delta_file": str(delta)}
    return TrainConfig(**{**fixed, "date": "2026-01-01", "max_steps": 12, **more})


@pytest.mark.slow
@pytest.mark.parametrize(
    "coding", one_in(4, [{}, {"codec": "ternary"}, {"bits": 2}, {"planes": 2}])
)
def test_the_delta_comes_closer_to_the_fine_tune(
    coding: dict[str, Any], tuned: Path, tmp_path: Path
) -> None:
    plain = tmp_path / "plain.safetensors"
    create_delta(tuned, base=pico_folder(), out=plain, config=DeltaConfig(**coding))
    run = run_training(settings(tuned, plain))
    assert run.metrics["best_loss"] < 0.85 * run.metrics["base_loss"]
    assert events(run, "plan")[0]["memory"]["optimizer"] == 0
    before, after = load_delta(plain), load_delta(run.model / "delta.safetensors")
    assert after.header.tensors == before.header.tensors
    for tensor in before.header.tensors:
        old, new = tensor_parts(before, tensor), tensor_parts(after, tensor)
        for part, values in old.items():
            trained = part.endswith("raw") or "scale" in part
            assert np.array_equal(values, new[part]) is not trained, f"{tensor.name}.{part}"


def test_a_step_follows_the_gradient_of_the_unpacked_model(tuned: Path, delta: Path) -> None:
    """The derivative by a scale, by the loss of a model whose weights were computed twice."""
    base, engine = pico_folder(), load_backend("cpu")
    teacher = engine.load(tuned)
    inner = engine.load(base, LoadSpec(train="full"))
    policy = DistillDelta.policy_of(inner, settings(tuned, delta), base)
    ids = np.arange(20, 44)
    batch = collate(
        alone([Example(ids, ids > 24, "row", truncated=False)]), {"window_tokens": 19.0}
    )
    objective = DistillationLoss()

    def loss() -> float:
        return policy.accumulate(objective, batch, key=0, teacher=teacher)["loss"]

    loss()
    gradient = dict(policy.gradients())
    values = dict(policy.trained())
    rates = {name: 1e-3 * np.abs(array).mean() for name, array in values.items()}
    step = {name: rates[name] * np.sign(array) for name, array in gradient.items()}
    ends = []
    for side in (1, -1):
        policy.load_trained({name: values[name] + side * step[name] for name in values})
        ends.append(loss())
    expected = sum(float((gradient[name] * step[name]).sum()) for name in values)
    assert (ends[0] - ends[1]) / 2 == pytest.approx(expected, rel=0.02)
    assert all(np.isfinite(array).all() for array in gradient.values())


@pytest.mark.slow
def test_a_base_in_its_files_gives_the_same_delta(tuned: Path, delta: Path) -> None:
    runs = [run_training(settings(tuned, delta, stream_layers=s)) for s in (False, True)]
    weights = [events(run, "plan")[0]["memory"]["weights"] for run in runs]
    assert weights[1] != weights[0]
    one, other = (load_delta(run.model / "delta.safetensors") for run in runs)
    for tensor in one.header.tensors:
        for part, values in tensor_parts(one, tensor).items():
            np.testing.assert_allclose(
                tensor_parts(other, tensor)[part].astype("f4"), values.astype("f4"), rtol=0.02
            )
    losses = [[run.metrics[key] for key in ("base_loss", "best_loss")] for run in runs]
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)


@pytest.mark.parametrize("streamed", [False, True])
def test_a_reopened_policy_has_the_numbers_of_its_file(
    tuned: Path, delta: Path, tmp_path: Path, streamed: bool
) -> None:
    config = settings(tuned, delta, stream_layers=streamed)
    base = pico_folder()
    loaded = load_backend("cpu").load(base, DistillDelta.load_spec(config))
    policy = DistillDelta.policy_of(loaded, config, base)
    ids = [5, 6, 7, 8]
    at_start = policy.logits(ids)
    halved = {name: values * np.float32(0.5) for name, values in policy.trained()}
    policy.load_trained(halved)
    (tmp_path / "result").mkdir()
    policy.save_result(tmp_path / "result", base="zen-pico")
    trained = policy.logits(ids)
    assert np.abs(trained - at_start).max() > 1e-3
    policy.load_trained({name: values * np.float32(2) for name, values in halved.items()})
    policy.reopen(tmp_path / "result")
    np.testing.assert_allclose(policy.logits(ids), trained, atol=1e-4)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL is POSIX's")
@pytest.mark.parametrize(
    ("step", "form"), one_in(4, [(2, "dense"), (7, "dense"), (7, "streamed"), (7, "lowrank")])
)
def test_a_killed_distillation_resumes_to_the_same_bytes(
    step: int, form: str, tuned: Path, delta: Path, tmp_path: Path
) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows()))
    more: dict[str, Any] = {"max_steps": 8, "save_steps": 2, "eval_steps": 3}
    if form == "streamed":
        more["stream_layers"] = True
    if form == "lowrank":
        tuned, adapter = pico_folder(), write_random_adapter(tmp_path / "adapter")
        delta = create_delta(
            adapter, base=tuned, out=tmp_path / "low", config=DeltaConfig(bits=1)
        ).file
        more |= {"finetuning_type": "lora", "adapter_name_or_path": str(adapter)}
    config = settings(tuned, delta, dataset=str(path), **more)
    whole = run_training(config)
    run = create_run(dump_config(config), {"settings": config.model_dump(mode="json")})
    command = [sys.executable, "-m", "tests.gym.train.methods.dying", str(run.folder), str(step)]
    assert subprocess.run(command, check=False).returncode == -9
    assert work([str(run.folder)]) == 0
    name = "delta.safetensors"
    assert (run.result / name).read_bytes() == (whole.model / name).read_bytes()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL is POSIX's")
def test_create_continues_a_run_that_was_killed(
    tuned: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    create = ["delta", "create", str(tuned), "--base", "zen-pico", "--distill", "8", "--json"]
    whole, out = tmp_path / "whole.safetensors", tmp_path / "out.safetensors"
    assert main([*create, "--out", str(whole)]) == 0
    code = "from tests.gym.train.methods.dying import dies_at; from zoo.gym.cli import main; "
    code += f"dies_at(5); main({[*create, '--out', str(out)]})"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -9
    assert len(run_folders()) == 2
    assert not out.exists()
    assert main([*create, "--out", str(out)]) == 0
    assert len(run_folders()) == 2
    assert load_delta(out).digest == load_delta(whole).digest
    capsys.readouterr()


def test_only_an_interrupted_run_of_the_same_steps_is_continued(
    tuned: Path, delta: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = settings(tuned, delta, max_steps=8, dataset="rows.jsonl")
    env: dict[str, Any] = {"settings": config.model_dump(mode="json")}
    env |= {OTHER_FILES_KEY: {"delta_file": digest_of("delta_file", str(delta))}}
    create_run(dump_config(config), env)
    for state in ("interrupted", "failed", "done", "running"):
        monkeypatch.setattr(states, "reconcile", lambda _, s=state: SimpleNamespace(state=s))
        assert (distilled._interrupted(delta, 8) is not None) is (state == "interrupted")
        assert distilled._interrupted(delta, 10) is None
        assert distilled._interrupted(delta, None) is None
    monkeypatch.setattr(states, "reconcile", lambda _: SimpleNamespace(state="interrupted"))
    delta.write_bytes(delta.read_bytes() + b" ")
    assert distilled._interrupted(delta, 8) is None


@pytest.mark.slow
@pytest.mark.parametrize(
    "held_out", one_in(3, [{"val_size": 6}, {"val_size": 0}, {"eval_dataset": True}])
)
def test_the_rows_are_those_that_the_run_learned(
    held_out: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))
    files = {name: tmp_path / f"{name}.jsonl" for name in ("learned", "other")}
    for file, some in zip(files.values(), (rows(), rows(52)[40:]), strict=True):
        file.write_text("".join(json.dumps(row) + "\n" for row in some))
    if "eval_dataset" in held_out:
        held_out = {"eval_dataset": str(files["other"])}
    config = TrainConfig(
        model_name_or_path="zen-pico",
        dataset=str(files["learned"]),
        finetuning_type="full",
        max_steps=2,
        retention=False,
        **held_out,
    )
    result = run_training(config)
    known = distilled._rows_of_run(open_run(result.run))
    assert known is not None
    assert known["dataset"] == (str(files["learned"]),)
    assert known.get("val_size") == (6 if held_out.get("val_size") else None)
    assert "eval_dataset" not in known
    plain = create_delta(result.model, base=pico_folder(), out=tmp_path / "d").file
    gained = distilled.distill_delta(
        plain, base=pico_folder(), tuned=result.model, run=open_run(result.run), steps=2
    )
    assert gained.record["private"] is True
    files["learned"].write_text(json.dumps(rows()[0]) + "\n")
    assert distilled._rows_of_run(open_run(result.run)) is None


@pytest.mark.slow
def test_a_stopped_training_says_how_it_is_continued(
    tuned: Path, delta: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: Any) -> None:
        raise InterruptedRunError("stopped at step 3 of 8", code="train.stopped")

    monkeypatch.setattr(distilled, "_train", stopped)
    with raises("train.stopped") as error:
        distilled.distill_delta(delta, base=pico_folder(), tuned=tuned, steps=8)
    assert error.value.code == "train.stopped"
    assert error.value.hint == "the same command continues it"


@pytest.mark.slow
def test_the_trained_delta_is_copied_to_the_output_folder(
    tuned: Path, delta: Path, tmp_path: Path
) -> None:
    run = run_training(settings(tuned, delta, max_steps=2, output_dir=str(tmp_path / "out")))
    assert run.model == tmp_path / "out"
    copy = (tmp_path / "out" / "delta.safetensors").read_bytes()
    assert copy == (Path(run.folder) / "result" / "delta.safetensors").read_bytes()
    assert source_at(run.model).artifact == "delta"


@pytest.mark.slow
@pytest.mark.parametrize("bits", [1, 2])
def test_a_low_rank_delta_comes_closer_to_its_adapter(
    bits: Literal[1, 2], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZOO_GYM_HOME", str(tmp_path / "home"))
    adapter, plain = write_random_adapter(tmp_path / "adapter"), tmp_path / "plain.safetensors"
    create_delta(adapter, base=pico_folder(), out=plain, config=DeltaConfig(bits=bits))
    more: dict[str, Any] = {"finetuning_type": "lora", "adapter_name_or_path": str(adapter)}
    run = run_training(settings(pico_folder(), plain, max_steps=30, **more))
    assert run.metrics["best_loss"] < 0.8 * run.metrics["base_loss"]
    after = load_delta(run.model / "delta.safetensors").header
    assert after.tensors == load_delta(plain).header.tensors


@pytest.mark.slow
def test_create_distils_and_says_what_it_gained(
    tuned: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a fine-tune whose rows are not known: it writes the text itself."""
    out = tmp_path / "distilled.safetensors"
    create = ["delta", "create", str(tuned), "--base", "zen-pico", "--out", str(out), "--json"]
    assert main([*create, "--distill", "10"]) == 0
    gained = json.loads(capsys.readouterr().out.splitlines()[-1])["distilled"]
    assert gained["kl_after"] < 0.9 * gained["kl_before"]
    assert gained["text"] == "texts that the fine-tune wrote"
    header = load_delta(out).header
    line = f"trained   for {gained['steps']} steps on texts that the fine-tune wrote\n"
    assert line in as_text(load_delta(out))
    assert header.recipe["distilled"] == {
        "steps": gained["steps"],
        "text": gained["text"],
        "private": False,
    }
    assert main(["delta", "check", str(out), "--base", "zen-pico"]) == 0


@pytest.mark.slow
@pytest.mark.mlx
def test_both_engines_train_the_same_scales(tuned: Path, delta: Path) -> None:
    pytest.importorskip("mlx_lm", reason="MLX is not installed")
    ends = [
        run_training(settings(tuned, delta, backend=name, max_steps=4)).metrics["best_loss"]
        for name in ("cpu", "mlx")
    ]
    assert ends[0] == pytest.approx(ends[1], abs=1e-3)


@pytest.mark.parametrize(
    ("before", "after", "is_better"),
    [(1.0, 0.5, True), (0.5, 0.5, False), (None, None, False)],
)
def test_a_trained_delta_is_used_where_it_is_known_to_be_closer(
    before: float | None, after: float | None, is_better: bool
) -> None:
    trained = Distilled(Path("d.safetensors"), {}, before, after)
    assert trained.is_better is is_better
    assert trained.as_json()["used"] is is_better


@pytest.mark.parametrize(("count", "evaluated"), [(1, 0), (2, 1), (9, 1), (40, 4), (2000, 64)])
def test_rows_that_choose_the_best_step_are_not_learned(
    count: int, evaluated: int, tmp_path: Path
) -> None:
    ids = np.arange(4)
    units = alone([Example(ids, ids > 0, str(n), truncated=False) for n in range(count)])
    nothing: Any = None
    method = DistillDelta(nothing, nothing, units, units[:3], tmp_path)
    assert [*method.units, *method.held_out] == list(units)
    assert len(method.held_out) == evaluated


def test_a_delta_of_exact_values_has_no_scales(tuned: Path, tmp_path: Path) -> None:
    plain = tmp_path / "sparse.safetensors"
    create_delta(tuned, base=pico_folder(), out=plain, config=DeltaConfig(codec="sparse"))
    with raises("train.nothing_to_train") as error:
        run_training(settings(tuned, plain))
    assert error.value.code == "train.nothing_to_train"


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["0"], "a number of steps"),
        (["-3"], "a number of steps"),
        (["on"], "'on'"),
        (["auto", "--codec", "sparse"], "a coding that loses something, got sparse"),
    ],
)
def test_other_values_of_distill_are_refused(
    words: list[str], named: str, tuned: Path, refused: Refused
) -> None:
    create = ["delta", "create", str(tuned), "--base", "zen-pico", "--distill", *words]
    assert named in refused(*create, code=2)


@pytest.mark.parametrize(
    "more",
    [
        {"num_processes": 2},
        {"optim": "lion"},
        {"weight_decay": 0.1},
        {"eval_dataset": "other.jsonl"},
        {"adapter_name_or_path": "adapter"},
    ],
)
def test_settings_that_a_delta_does_not_follow_are_refused(more: dict[str, Any]) -> None:
    with raises("config.invalid", next(iter(more))):
        settings(Path("t"), Path("d"), **more)

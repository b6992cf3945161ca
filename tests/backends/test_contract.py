"""The contract that every engine keeps, compared with full logits and autograd on the CPU.

An engine joins by appearing in `ENGINES`; nothing else here changes.
"""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

import zoo.backends.torch.backend as torch_backend
from tests.backends import reference
from tests.backends.objectives_for_tests import (
    CRITIC,
    DISTILL,
    DPO,
    GRPO,
    SFT,
    SORTED,
    TestObjective,
)
from tests.backends.policies import LORA, as_reference, moved, policies, step
from tests.codes import raises
from zoo.backends import load_backend
from zoo.backends.base import Batch, LoadSpec, LoraSpec, Sampling, Stat
from zoo.gym.train.accumulate import accumulate_window

TOLERANCE = 1e-5
"""Relative, float32."""


@pytest.mark.slow
@pytest.mark.parametrize("train", [LORA, "full"], ids=["lora", "full"])
@pytest.mark.parametrize("objective", [SFT, DPO, GRPO, CRITIC], ids=lambda o: o.name)
@pytest.mark.parametrize("model", ["tied", "untied"])
def test_loss_and_gradient_equal_full_logits(
    request: pytest.FixtureRequest,
    engine: str,
    model: str,
    objective: TestObjective,
    train: LoraSpec | Literal["full"],
) -> None:
    folder = request.getfixturevalue(model)
    mine, plain = policies(engine, folder, train, value_head=Stat.VALUES in objective.needs)
    batch = reference.example_batch()
    loss, gradients = reference.loss_and_gradients(as_reference(plain), objective, batch)
    assert mine.accumulate(objective, batch, key=0)["loss"] == pytest.approx(loss, rel=TOLERANCE)
    assert reference.relative_error(dict(mine.gradients()), gradients) < TOLERANCE


def test_gradients_are_sent_and_not_kept(engine: str, tied: Path) -> None:
    batch = reference.example_batch()
    policy = load_backend(engine).load(tied, LoadSpec(train="full", dtype="f32"))
    policy.accumulate(SFT, batch, key=0)
    expected = {name: 2 * values for name, values in policy.gradients()}
    policy = load_backend(engine).load(tied, LoadSpec(train="full", dtype="f32"))
    received: dict[str, Any] = {}

    def receive(name: str, values: Any) -> None:
        received[name] = received.get(name, 0) + values

    policy.send_gradients(receive)
    for _ in range(2):
        policy.accumulate(SFT, batch, key=0)
    assert reference.relative_error(received, expected) < TOLERANCE
    assert not any(values.any() for _, values in policy.gradients())
    with pytest.raises(ValueError, match="one call"):
        policy.send_gradients(receive)


@pytest.mark.parametrize("recomputes", [False, True])
def test_weights_that_are_computed_on_use_have_the_gradient_of_kept_ones(
    stored_bf16: Path, recomputes: bool
) -> None:
    batch, received = reference.example_batch(), dict[str, Any]()
    whole = load_backend("cpu").load(stored_bf16, LoadSpec(train="full", dtype="f32"))
    changed = {name: values * 1.25 for name, values in whole.trained() if "q_proj" in name}
    for name, values in changed.items():
        whole.assign(name, values)
    loss = whole.accumulate(SFT, batch, key=0)["loss"]
    spec = LoadSpec(stream_layers=True, dtype="bf16", gradient_checkpointing=recomputes)
    policy = load_backend("cpu").load(stored_bf16, spec)
    names = policy.compute_weights(
        changed.get, lambda name, values: received.update({name: +values})
    )
    assert policy.accumulate(SFT, batch, key=0)["loss"] == pytest.approx(loss, rel=1e-6)
    assert reference.relative_error(received, dict(whole.gradients())) < TOLERANCE
    assert names >= changed.keys()
    assert names.isdisjoint(name for name, _ in policy.trained())
    needs = frozenset({Stat.LOGPROBS})
    one, other = (each.score(batch, needs)[Stat.LOGPROBS] for each in (policy, whole))
    np.testing.assert_allclose(one, other, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["mamba", "qwen2"])
def test_layers_with_biases_and_weights_that_a_model_reads_itself_are_right(
    kind: str, tmp_path: Path
) -> None:
    import transformers

    shape: dict[str, Any] = {"vocab_size": 521, "hidden_size": 32, "num_hidden_layers": 2}
    if kind == "qwen2":
        shape |= {"num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 64}
    config = transformers.AutoConfig.for_model(kind, **shape)
    loader: Any = transformers.AutoModelForCausalLM
    model: Any = loader.from_config(config)
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            parameter.data.normal_()
    model.save_pretrained(tmp_path)
    batch, received = reference.example_batch(), dict[str, Any]()
    whole = load_backend("cpu").load(tmp_path, LoadSpec(train="full", dtype="f32"))
    changed = {name: values * 1.25 for name, values in whole.trained() if "proj" in name}
    policy = load_backend("cpu").load(tmp_path, LoadSpec(stream_layers=True, dtype="f32"))
    names = policy.compute_weights(changed.get, lambda name, g: received.update({name: g.copy()}))
    for name, values in changed.items():
        whole.assign(name, values)
        if name not in names:
            policy.assign(name, values)
    loss = whole.accumulate(SFT, batch, key=0)["loss"]
    assert policy.accumulate(SFT, batch, key=0)["loss"] == pytest.approx(loss, rel=1e-5)
    assert reference.relative_error(received, dict(whole.gradients())) < TOLERANCE
    assert any("dt_proj" in name for name in changed.keys() - names) is (kind == "mamba")


def test_weights_are_computed_on_use_of_a_base_in_its_files_alone(engine: str, tied: Path) -> None:
    policy = load_backend(engine).load(tied, LoadSpec(train="full", dtype="f32"))
    with pytest.raises(ValueError, match="stream_layers"):
        policy.compute_weights(lambda name: None, lambda name, values: None)


def test_one_parameter_is_replaced(engine: str, tied: Path) -> None:
    policy = load_backend(engine).load(tied, LoadSpec(train="full", dtype="f32"))
    name, values = next(iter(policy.trained()))
    policy.assign(name, values + 1)
    now = dict(policy.trained())
    assert np.array_equal(now.pop(name), values + 1)
    with raises("backends.other_checkpoint"):
        policy.assign("no such parameter", values)
    with raises("backends.other_checkpoint"):
        policy.assign(name, values[1:])


@pytest.mark.slow
def test_recomputing_activations_changes_no_gradient(engine: str, tied: Path) -> None:
    batch, gradients = reference.example_batch(), []
    for again in (False, True):
        spec = LoadSpec(train="full", dtype="f32", seed=1, gradient_checkpointing=again)
        policy = load_backend(engine).load(tied, spec)
        policy.accumulate(SFT, batch, key=0)
        gradients.append(dict(policy.gradients()))
    assert reference.relative_error(*gradients) < TOLERANCE


@pytest.mark.slow
@pytest.mark.parametrize("targets", [("q_proj", "lm_head"), ("lm_head",)], ids=str)
def test_a_head_with_an_adapter_learns_as_full_logits_say(
    engine: str, untied: Path, targets: tuple[str, ...]
) -> None:
    spec = LoraSpec(rank=4, alpha=8.0, targets=targets)
    mine, plain = policies(engine, untied, spec)
    batch = reference.example_batch()
    _, gradients = reference.loss_and_gradients(as_reference(plain), GRPO, batch)
    mine.accumulate(GRPO, batch, key=0)
    assert any("lm_head" in name for name in gradients)
    assert reference.relative_error(dict(mine.gradients()), gradients) < TOLERANCE


@pytest.mark.parametrize("other", ["v_prj", "layers.9.self_attn.q_proj", "all", ""])
def test_a_name_that_no_layer_has_is_refused(engine: str, untied: Path, other: str) -> None:
    spec = LoraSpec(rank=4, alpha=8.0, targets=("q_proj", other))
    with raises("backends.no_such_module", f"names that layers end with, got '{other}'"):
        load_backend(engine).load(untied, LoadSpec(train=spec))


@pytest.mark.slow
def test_distillation_follows_the_teacher(engine: str, untied: Path, teacher_folder: Path) -> None:
    mine, plain = policies(engine, untied, LORA)
    other, other_plain = (load_backend(name).load(teacher_folder) for name in (engine, "cpu"))
    batch = reference.example_batch()
    loss, gradients = reference.loss_and_gradients(
        as_reference(plain), DISTILL, batch, as_reference(other_plain)
    )
    got = mine.accumulate(DISTILL, batch, key=0, teacher=other)
    assert got["loss"] == pytest.approx(loss, rel=TOLERANCE)
    assert reference.relative_error(dict(mine.gradients()), gradients) < TOLERANCE


@pytest.mark.parametrize("train", ["full", LORA], ids=["full", "lora"])
def test_a_linear_objective_in_one_pass_has_the_gradient_of_two(
    tied: Path, teacher_folder: Path, monkeypatch: pytest.MonkeyPatch, train: Any
) -> None:
    teacher, batch = load_backend("cpu").load(teacher_folder), reference.example_batch()
    spec = LoadSpec(train=train, dtype="f32")
    one, two, undivided = (moved(as_reference(load_backend("cpu").load(tied, spec))) for _ in "123")
    undivided.accumulate(DISTILL, batch, key=0, teacher=teacher)
    monkeypatch.setattr("zoo.backends.torch.vocabulary.statistics.CHUNK_TOKENS", 7)
    losses = [
        policy.accumulate(replace(DISTILL, linear=linear), batch, key=0, teacher=teacher)
        for policy, linear in ((one, True), (two, False))
    ]
    assert losses[0] == losses[1]
    for (name, gradient), (_, other) in zip(one.gradients(), two.gradients(), strict=True):
        np.testing.assert_array_equal(gradient, other, err_msg=name)
    assert reference.relative_error(dict(one.gradients()), dict(undivided.gradients())) < TOLERANCE


def test_a_diverged_linear_objective_has_a_gradient_that_is_not_finite(
    tied: Path, teacher_folder: Path
) -> None:
    policy = moved(as_reference(load_backend("cpu").load(tied, LoadSpec(train=LORA))))
    batch = replace(reference.example_batch(), constants={"window_tokens": math.nan})
    loss = policy.accumulate(
        DISTILL, batch, key=0, teacher=load_backend("cpu").load(teacher_folder)
    )["loss"]
    assert math.isnan(loss)
    assert policy.optimizer_step(1e-3, 1.0).skipped


def test_an_objective_that_is_not_linear_as_it_says_is_refused(tied: Path) -> None:
    policy = moved(as_reference(load_backend("cpu").load(tied, LoadSpec(train=LORA))))
    with pytest.raises(ValueError, match="linear: expected a derivative that no statistic changes"):
        policy.accumulate(replace(GRPO, linear=True), reference.example_batch(), key=0)


@pytest.mark.slow
def test_scores_belong_to_their_own_token(engine: str, tied: Path) -> None:
    mine, plain = policies(engine, tied, LORA)
    batch = reference.example_batch()
    needs = frozenset({Stat.LOGPROBS, Stat.ENTROPY, Stat.LOG_SUM_SQ_PROBS})
    expected = reference.statistics(as_reference(plain), needs, batch)
    got = mine.score(batch, needs)
    for stat in needs:
        np.testing.assert_allclose(got[stat], expected[stat].detach(), rtol=1e-4, atol=1e-5)
        assert not got[stat][~batch.loss_mask_BT].any()


@pytest.mark.slow
@pytest.mark.parametrize("objective", [SFT, SORTED], ids=lambda o: o.name)
def test_cutting_a_window_leaves_the_gradient_as_it_was(
    engine: str, tied: Path, objective: TestObjective
) -> None:
    mine, plain = policies(engine, tied, LORA)
    batch = reference.example_batch(rows=8)
    _, gradients = reference.loss_and_gradients(as_reference(plain), objective, batch)
    accumulate_window(mine, objective, pairs_of(batch), keys=[0, 1, 2, 3])
    assert reference.relative_error(dict(mine.gradients()), gradients) < TOLERANCE


@pytest.mark.slow
@pytest.mark.parametrize("objective", [DPO, SORTED], ids=lambda o: o.name)
def test_metrics_of_a_window_do_not_depend_on_how_it_is_cut(
    engine: str, tied: Path, objective: TestObjective
) -> None:
    mine, _ = policies(engine, tied, LORA)
    batch = reference.example_batch(rows=8)
    whole = mine.accumulate(objective, batch, key=0)
    cut = accumulate_window(mine, objective, pairs_of(batch), keys=[0, 1, 2, 3])
    assert whole.keys() == {"loss", "accuracy", "margin"}
    assert cut == pytest.approx(whole, rel=1e-5)


@pytest.mark.slow
def test_a_metric_with_the_name_of_the_loss_is_refused(engine: str, tied: Path) -> None:
    named = replace(SFT, metrics=lambda xp, stats, _: {"loss": xp.sum(stats[Stat.LOGPROBS])})
    mine, _ = policies(engine, tied, LORA)
    with pytest.raises(ValueError, match="expected any name but that of the loss"):
        mine.accumulate(named, reference.example_batch(), key=0)


@pytest.mark.slow
@pytest.mark.parametrize("targets", [("all-linear",), ("q_proj", "lm_head"), ("lm_head",)], ids=str)
def test_a_coupled_objective_is_replayed_with_the_dropout_it_was_scored_with(
    engine: str, untied: Path, targets: tuple[str, ...]
) -> None:
    mine, _ = policies(engine, untied, LoraSpec(4, 8.0, dropout=0.3, targets=targets))
    batch = reference.example_batch(rows=8)
    mine.accumulate(SORTED, batch, key=5)
    expected = dict(mine.gradients())
    mine.optimizer_step(0.0, 1.0)
    accumulate_window(mine, SORTED, [batch], keys=[5])
    assert reference.relative_error(dict(mine.gradients()), expected) < TOLERANCE


@pytest.mark.slow
def test_scoring_with_a_key_leaves_no_dropout_behind(engine: str, tied: Path) -> None:
    mine, _ = policies(engine, tied, LoraSpec(rank=4, alpha=8.0, dropout=0.5))
    batch, needs = reference.example_batch(), frozenset({Stat.LOGPROBS})
    before = mine.score(batch, needs)[Stat.LOGPROBS]
    assert np.abs(mine.score(batch, needs, key=1)[Stat.LOGPROBS] - before).max() > 1e-3
    np.testing.assert_array_equal(mine.score(batch, needs)[Stat.LOGPROBS], before)


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_the_kernel_of_attention_is_the_one_named(tied: Path, attention: Any) -> None:
    policy = as_reference(load_backend("cpu").load(tied, LoadSpec(attention=attention)))
    model: Any = policy.module.model
    assert model.config._attn_implementation == attention


def pairs_of(batch: Batch) -> list[Batch]:
    return [
        Batch(
            batch.ids_BT[i : i + 2],
            batch.lengths_B[i : i + 2],
            batch.loss_mask_BT[i : i + 2],
            {name: value[i : i + 2] for name, value in batch.extras.items()},
            batch.constants,
        )
        for i in range(0, len(batch.lengths_B), 2)
    ]


@pytest.mark.slow
def test_a_step_moves_the_weights_against_the_gradient(engine: str, tied: Path) -> None:
    mine, _ = policies(engine, tied, LORA)
    batch = reference.example_batch()
    before = mine.accumulate(SFT, batch, key=0)["loss"]
    info = mine.optimizer_step(1e-2, 1.0)
    after = mine.accumulate(SFT, batch, key=0)["loss"]
    assert info.changed
    assert not info.skipped
    assert info.grad_norm > 0
    assert after < before


@pytest.mark.slow
def test_a_gradient_that_is_no_number_changes_nothing(engine: str, tied: Path) -> None:
    mine, _ = policies(engine, tied, LORA)
    batch = reference.example_batch()
    broken = Batch(batch.ids_BT, batch.lengths_B, batch.loss_mask_BT, {}, {"window_tokens": 0.0})
    before = dict(mine.trained())
    mine.accumulate(SFT, broken, key=0)
    info = mine.optimizer_step(1e-2, 1.0)
    assert info.skipped
    assert not info.changed
    for name, value in mine.trained():
        np.testing.assert_array_equal(value, before[name])


@pytest.mark.slow
@pytest.mark.parametrize("train", [LORA, "full"], ids=["lora", "full"])
def test_a_restored_policy_goes_on_bit_for_bit(
    engine: str, tied: Path, tmp_path: Path, train: LoraSpec | Literal["full"]
) -> None:
    batch = reference.example_batch()
    kept = load_backend(engine).load(tied, LoadSpec(train=train, seed=3))
    step(kept, batch, 1)
    kept.save_checkpoint(tmp_path)
    step(kept, batch, 2)
    resumed = load_backend(engine).load(tied, LoadSpec(train=train, seed=99))
    resumed.load_checkpoint(tmp_path)
    step(resumed, batch, 2)
    for (name, mine), (other, theirs) in zip(kept.trained(), resumed.trained(), strict=True):
        assert name == other
        # sums of a GPU's threads have no fixed order; a CPU's have
        allowed = {"rtol": 0, "atol": 0} if engine == "cpu" else {"rtol": 1e-3, "atol": 1e-4}
        np.testing.assert_allclose(mine, theirs, **allowed)


@pytest.mark.slow
def test_optimizer_state_of_other_weights_is_refused(
    engine: str, tied: Path, tmp_path: Path
) -> None:
    kept = load_backend(engine).load(tied, LoadSpec(train=LORA))
    step(kept, reference.example_batch(), 1)
    kept.save_checkpoint(tmp_path)
    other = load_backend(engine).load(tied, LoadSpec(train=LoraSpec(4, 8.0, targets=("q_proj",))))
    with raises("backends.other_checkpoint", "in only one of the checkpoint and this policy"):
        other.load_checkpoint(tmp_path)


def test_full_training_mixes_types_where_a_gpu_can_unless_told_f32(
    tied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch_backend, "mixes", lambda device: device == "cpu")
    batch, losses, mixed = reference.example_batch(), {}, {}
    for dtype in ("auto", "f32"):
        policy = as_reference(load_backend("cpu").load(tied, LoadSpec(train="full", dtype=dtype)))
        mixed[dtype] = policy.module.autocast
        losses[dtype] = policy.accumulate(SFT, batch, key=0)["loss"]
    assert mixed == {"auto": True, "f32": False}
    assert losses["auto"] != losses["f32"]
    assert losses["auto"] == pytest.approx(losses["f32"], rel=0.02)


def test_a_policy_that_mixes_types_samples_in_them_too(
    tied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch_backend, "mixes", lambda device: device == "cpu")
    policy = load_backend("cpu").load(tied, LoadSpec(train="full"))
    (answer,) = policy.generate([[5, 6, 7]], Sampling(max_new_tokens=8), keys=[0])
    ids, mask = np.array([[5, 6, 7, *answer.ids]]), np.array([[False] * 3 + [True] * 8])
    scores = policy.score(Batch(ids, np.array([11]), mask), frozenset({Stat.LOGPROBS}))
    plain = load_backend("cpu").load(tied, LoadSpec(train="full", dtype="f32"))
    exact = plain.score(Batch(ids, np.array([11]), mask), frozenset({Stat.LOGPROBS}))
    mixing = np.abs(scores[Stat.LOGPROBS] - exact[Stat.LOGPROBS]).max()
    sampling = np.abs(exact[Stat.LOGPROBS][0, 3:] - answer.logprobs).max()
    assert mixing > 1e-4
    assert sampling > 0.2 * mixing  # it would be about 1e-6 in float32


def test_an_adapter_beside_training_is_refused(engine: str, tied: Path) -> None:
    with raises("backends.setting_not_supported", "expected none for training"):
        load_backend(engine).load(tied, LoadSpec(train=LORA, adapter=Path("some")))


@pytest.mark.slow
def test_dropout_repeats_with_its_key(engine: str, tied: Path) -> None:
    spec = LoraSpec(rank=4, alpha=8.0, dropout=0.5)
    mine, _ = policies(engine, tied, spec)
    batch = reference.example_batch()
    first, again, other = (mine.accumulate(SFT, batch, key=k)["loss"] for k in (1, 1, 2))
    assert first == again
    assert first != other


@pytest.mark.slow
def test_a_row_is_sampled_alike_alone_and_among_others(engine: str, tied: Path) -> None:
    policy = load_backend(engine).load(tied)
    sampling = Sampling(max_new_tokens=6, temperature=0.7, top_p=0.9)
    together = policy.generate([[5, 6, 7, 8], [9]], sampling, keys=[1, 2])
    alone = policy.generate([[9]], sampling, keys=[2])
    assert together[1].ids == alone[0].ids
    np.testing.assert_allclose(together[1].logprobs, alone[0].logprobs, atol=1e-4)


@pytest.mark.parametrize(
    "wrong",
    [
        *({"temperature": heat} for heat in (-1.0, 1e-320, 9e-7, float("inf"), float("nan"))),
        *({"top_p": share} for share in (0.0, 1.5, float("nan"))),
        *({"top_k": count} for count in (-1, 1.5)),
        *({"max_new_tokens": count} for count in (0, 1.5, True)),
    ],
)
def test_sampling_that_could_draw_nothing_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(wrong))}: expected"):
        Sampling(**wrong)


def test_the_least_temperature_draws_the_likeliest_token(engine: str, tied: Path) -> None:
    policy = load_backend(engine).load(tied)
    cold, greedy = (Sampling(max_new_tokens=4, temperature=heat) for heat in (1e-6, 0.0))
    answers = [policy.generate([[5, 6]], how, keys=[0])[0].ids for how in (cold, greedy)]
    assert answers[0] == answers[1]


def test_greedy_tokens_are_the_likeliest_and_a_stop_id_ends_them(engine: str, tied: Path) -> None:
    policy = load_backend(engine).load(tied)
    free = policy.generate([[5, 6, 7]], Sampling(max_new_tokens=5), keys=[0])[0]
    ids = np.array([[5, 6, 7, *free.ids]])
    mask = np.array([[False] * 3 + [True] * 5])
    scores = policy.score(Batch(ids, np.array([8]), mask), frozenset({Stat.LOGPROBS}))
    np.testing.assert_allclose(scores[Stat.LOGPROBS][0, 3:], free.logprobs, atol=1e-4)
    stopped = policy.generate(
        [[5, 6, 7]], Sampling(max_new_tokens=5, stop_ids=(free.ids[1],)), keys=[0]
    )[0]
    assert (stopped.ids, stopped.finish) == (free.ids[: free.ids.index(free.ids[1]) + 1], "stop")
    assert free.finish == "length"


def test_the_least_top_p_draws_the_likeliest_token(engine: str, tied: Path) -> None:
    policy = load_backend(engine).load(tied)
    narrow = Sampling(max_new_tokens=4, temperature=1.0, top_p=5e-324)  # 0 in float32
    greedy = Sampling(max_new_tokens=4, temperature=0.0)
    answers = [policy.generate([[5, 6]], each, keys=[0])[0].ids for each in (narrow, greedy)]
    assert answers[0] == answers[1]

"""What a delta is worth, on text that the fine-tune itself would write."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.codes import raises
from tests.gym.delta import models_on_disk as disk
from zoo.backends import load_backend
from zoo.backends.base import LoadSpec
from zoo.backends.torch.backend import TorchBackend
from zoo.gym.config.delta import DeltaConfig
from zoo.gym.data.units import Example
from zoo.gym.delta import (
    Quality,
    QualityInput,
    check_delta,
    create_delta,
    delta_model,
    load_delta,
    measure_quality,
    random_signs,
    recovered,
)
from zoo.gym.delta.check import Check, judge_quality
from zoo.gym.delta.file.header import ROWS_DIGEST_KEY, Control
from zoo.gym.delta.file.refusals import Refusals
from zoo.gym.delta.file.writer import replace_header
from zoo.gym.delta.refusals import RefusalCounter
from zoo.gym.errors import GymWarning, InputError, InterruptedRunError
from zoo.gym.measure import held_out
from zoo.gym.refusals import Unmeasured

if TYPE_CHECKING:
    from zoo.backends.base import Backend

WORSE = pytest.mark.filterwarnings("ignore:this delta is worse than its base")
SHAPES = disk.qwen3_shapes()


def written_by(folder: Path, rows: int = 6, length: int = 24) -> list[Example]:
    """Draws texts from a model, so that no other predicts them better on average."""
    from zoo.backends.base import Sampling

    policy = load_backend("cpu").load(folder)
    prompts = [[row] for row in range(rows)]
    sampling = Sampling(max_new_tokens=length, temperature=1.0)
    rollouts = policy.generate(prompts, sampling, keys=range(rows))
    return [
        _example(prompt + rollout.ids) for prompt, rollout in zip(prompts, rollouts, strict=True)
    ]


def _example(ids: Sequence[int]) -> Example:
    mask = np.arange(len(ids)) > 0
    return Example(np.array(ids, np.int64), mask, "drawn:1", truncated=False)


@pytest.fixture(scope="module")
def folders(home: Path) -> dict[str, Path]:
    base = disk.random_arrays(SHAPES, 0, 0.4)
    change = disk.random_arrays(SHAPES, 1, 0.1)
    return {
        "base": disk.write_model(home / "quality" / "base", base),
        "tuned": disk.write_model(home / "quality" / "tuned", disk.plus(base, change)),
        "lora": disk.write_adapter(
            home / "quality" / "lora", disk.lora_arrays(SHAPES, 4, 3), 4, lora_alpha=60
        ),
    }


@pytest.fixture(scope="module")
def measured(folders: dict[str, Path]) -> QualityInput:
    return QualityInput(written_by(folders["tuned"]), backend=load_backend("cpu"))


def make(source: Path, folders: dict[str, Path], out: Path, measure: QualityInput | None) -> Any:
    return create_delta(source, base=folders["base"], base_id="b", out=out, quality=measure)


@pytest.mark.slow
def test_a_dense_delta_keeps_most_of_the_gain_and_random_signs_none(
    folders: dict[str, Path], measured: QualityInput, tmp_path: Path
) -> None:
    report = make(folders["tuned"], folders, tmp_path / "d.safetensors", measured)
    quality = report.quality
    assert (quality.rows, quality.tokens) == (6, 6 * 24)
    assert quality.tuned < quality.delta < quality.base
    assert 0.5 < quality.recovered < 1
    assert 0 < quality.top1 < 1
    control = random_signs(report.file, tmp_path / "c.safetensors", 7)
    chance = measure_quality(folders["base"], folders["tuned"], control, measured)
    assert chance.recovered is not None
    assert chance.recovered < 0.1
    assert quality.kl < chance.kl


@pytest.mark.slow
@WORSE
@pytest.mark.parametrize("source", ["tuned", "lora"])
def test_controls_are_losses_of_what_should_be_no_good(
    folders: dict[str, Path], measured: QualityInput, tmp_path: Path, source: str
) -> None:
    other = make(folders["tuned"], folders, tmp_path / "o.safetensors", None).file
    compared = replace(measured, other=other)
    quality = make(folders[source], folders, tmp_path / "d.safetensors", compared).quality
    losses = {control.kind: control.loss for control in quality.controls}
    assert sorted(losses) == ["another-delta", "exact-x0.7", "random-signs"]
    made = random_signs(tmp_path / "d.safetensors", tmp_path / "c.safetensors", 0)
    for kind, delta in (("random-signs", made), ("another-delta", load_delta(other))):
        alone = measure_quality(folders["base"], None, delta, measured, with_controls=False)
        assert losses[kind] == pytest.approx(alone.delta, rel=1e-5)
        assert alone.controls is None
    codec: Any = "sparse" if source == "tuned" else "f32"
    exact = create_delta(
        folders[source],
        base=folders["base"],
        out=tmp_path / "e.safetensors",
        config=DeltaConfig(codec=codec),
    )
    part = measure_quality(
        folders["base"], None, load_delta(exact.file), measured, scaled=0.7, with_controls=False
    )
    assert losses["exact-x0.7"] == pytest.approx(part.delta, rel=1e-5)
    assert losses["exact-x0.7"] != pytest.approx(quality.tuned, rel=1e-3)
    quality_check = check_delta(
        exact.file.with_name("d.safetensors"), base=folders["base"], quality=compared
    )[-1]
    assert quality_check.ok
    assert "random-signs" in quality_check.detail
    assert "what needs the fine-tune was not measured again" in quality_check.detail
    again = replace(measured, other=tmp_path / "d.safetensors")
    assert check_delta(tmp_path / "d.safetensors", base=folders["base"], quality=again)[-1].ok


def test_another_users_delta_of_another_base_is_refused_before_anything_is_written(
    folders: dict[str, Path], measured: QualityInput, tmp_path: Path
) -> None:
    other = tmp_path / "o.safetensors"
    create_delta(folders["base"], base=folders["tuned"], out=other)
    with raises("delta.wrong_base", "base"):
        make(
            folders["tuned"],
            folders,
            tmp_path / "d.safetensors",
            replace(measured, other=other),
        )
    assert not (tmp_path / "d.safetensors").exists()


def test_the_file_that_is_replaced_is_no_control(
    folders: dict[str, Path], measured: QualityInput, tmp_path: Path
) -> None:
    out = make(folders["tuned"], folders, tmp_path / "d.safetensors", None).file
    before = out.read_bytes()
    with raises("delta.bad_control"):
        create_delta(
            folders["tuned"],
            base=folders["base"],
            out=out,
            quality=replace(measured, other=out),
            force=True,
        )
    assert out.read_bytes() == before


@pytest.mark.parametrize("fails", ["training", "measurement"])
def test_an_older_delta_stays_where_the_new_one_is_not_finished(
    folders: dict[str, Path], measured: QualityInput, tmp_path: Path, fails: str
) -> None:
    def stopped(_: Path) -> Any:
        raise InterruptedRunError("stopped", code="train.stopped")

    out = make(folders["tuned"], folders, tmp_path / "d.safetensors", None).file
    before = out.read_bytes()
    broken = replace(measured, backend=_Breaks("cpu"))
    with pytest.raises((InputError, InterruptedRunError)):
        create_delta(
            folders["lora"],
            base=folders["base"],
            out=out,
            quality=broken,
            force=True,
            distill=stopped if fails == "training" else None,
        )
    assert out.read_bytes() == before
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.slow
@WORSE
def test_a_control_is_shown_on_other_rows_than_the_file_s(
    folders: dict[str, Path], measured: QualityInput, tmp_path: Path
) -> None:
    file = make(folders["tuned"], folders, tmp_path / "d.safetensors", measured).file
    other = QualityInput(measured.examples[:2], backend=measured.backend, other=file)
    detail = check_delta(file, base=folders["base"], quality=other)[-1].detail
    assert "; another-delta " in detail
    assert "on other examples" in detail


@pytest.mark.slow
@WORSE
@pytest.mark.parametrize("figure", ["top1", "random-signs"])
def test_another_figure_than_the_stored_one_is_a_failed_check(
    folders: dict[str, Path], measured: QualityInput, tmp_path: Path, figure: str
) -> None:
    file = make(folders["tuned"], folders, tmp_path / "d.safetensors", measured).file
    delta = load_delta(file)
    quality = delta.header.quality
    assert quality is not None
    assert quality.controls is not None
    changes: dict[str, Any] = {"top1": 1.0}
    if figure != "top1":
        losses = {each.kind: each.loss + 0.02 * (each.kind == figure) for each in quality.controls}
        changes = {"controls": tuple(Control(kind=k, loss=loss) for k, loss in losses.items())}
    changed = quality.model_copy(update=changes)
    replace_header(delta, delta.header.model_copy(update={"quality": changed}))
    tuned = folders["tuned"]
    checks = check_delta(file, base=folders["base"], tuned=tuned, quality=measured)
    assert checks[-1].ok is False


@pytest.mark.slow
def test_the_losses_are_those_of_held_out(
    folders: dict[str, Path], measured: QualityInput, tmp_path: Path
) -> None:
    quality = make(folders["tuned"], folders, tmp_path / "d.safetensors", measured).quality
    for name in ("base", "tuned"):
        score = held_out(load_backend("cpu").load(folders[name]), measured.examples)
        assert getattr(quality, name) == pytest.approx(score.nats / score.tokens, rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("refuses", [True, False])
def test_refusals_are_measured_with_the_quality(
    folders: dict[str, Path],
    measured: QualityInput,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    refuses: bool,
) -> None:
    counts = {"harmful": 60, "harmless": 1}
    names = ("asked", "base", "tuned", "delta")
    content = {"prompts": "0" * 64, **dict.fromkeys(names, counts)}
    record = Refusals.model_validate(content) if refuses else Unmeasured.REFUSES_NOTHING
    monkeypatch.setattr(RefusalCounter, "result", lambda _: record)
    report = make(folders["tuned"], folders, tmp_path / "d.safetensors", measured)
    header = load_delta(report.file).header
    assert header.refusals == report.refusals == (record if refuses else None)
    assert header.quality == report.quality


@pytest.mark.slow
@pytest.mark.parametrize("threshold", [None, 0.95])
def test_only_where_nothing_depends_on_them_refusals_are_probed(
    folders: dict[str, Path],
    measured: QualityInput,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    threshold: float | None,
) -> None:
    probing: list[bool] = []

    class Counter:
        def __init__(self, *_: object, probes: bool) -> None:
            probing.append(probes)

        def visit(self, *_: object) -> None:
            """Asks nothing."""

        def result(self) -> Refusals:
            names = ("asked", "base", "tuned", "delta")
            counts = {name: {"harmful": 60, "harmless": 1} for name in names}
            return Refusals.model_validate({"prompts": "0" * 64, **counts})

    monkeypatch.setattr("zoo.gym.delta.create.RefusalCounter", Counter)
    create_delta(
        folders["tuned"],
        base=folders["base"],
        out=tmp_path / "d.safetensors",
        quality=measured,
        safety_threshold=threshold,
    )
    assert probing == [threshold is None]


@pytest.mark.slow
def test_each_model_is_visited_while_it_is_loaded(
    folders: dict[str, Path], measured: QualityInput, tmp_path: Path
) -> None:
    delta = load_delta(make(folders["tuned"], folders, tmp_path / "d.safetensors", None).file)
    losses: dict[str, float] = {}

    def visit(role: str, policy: Any) -> None:
        losses[role] = held_out(policy, measured.examples).loss

    quality = measure_quality(folders["base"], folders["tuned"], delta, measured, visit=visit)
    assert list(losses) == ["base", "delta", "tuned"]
    for role, loss in losses.items():
        assert getattr(quality, role) == pytest.approx(loss, rel=1e-5)


@pytest.mark.slow
@WORSE
def test_the_quality_of_a_lowrank_delta_is_in_its_file(
    folders: dict[str, Path], measured: QualityInput, tmp_path: Path
) -> None:
    report = make(folders["lora"], folders, tmp_path / "d.safetensors", measured)
    stored = load_delta(report.file).header.quality
    assert stored == report.quality
    assert stored is not None
    assert stored.kl is not None
    assert stored.kl > 0


@pytest.mark.slow
@WORSE
def test_measuring_changes_the_header_alone(
    folders: dict[str, Path], measured: QualityInput, tmp_path: Path
) -> None:
    plain = make(folders["lora"], folders, tmp_path / "plain.safetensors", None)
    report = make(folders["lora"], folders, tmp_path / "d.safetensors", measured)
    payload = slice(-plain.payload_bytes, None)
    assert plain.quality is None
    assert plain.file.read_bytes()[payload] == report.file.read_bytes()[payload]


@pytest.mark.slow
def test_no_gain_means_nothing_recovered(folders: dict[str, Path], tmp_path: Path) -> None:
    theirs = QualityInput(written_by(folders["base"]), backend=load_backend("cpu"))
    with pytest.warns(
        GymWarning, match="delta is worse than its base .* the fine-tune is worse, too"
    ):
        quality = make(folders["tuned"], folders, tmp_path / "d.safetensors", theirs).quality
    with pytest.warns(GymWarning, match="delta is worse than its base"):
        check_delta(tmp_path / "d.safetensors", base=folders["base"], quality=theirs)
    assert quality.tuned > quality.base
    assert quality.recovered is None
    assert quality.kl is not None


def test_recovered_is_a_share_of_the_gain() -> None:
    assert recovered(2.0, 1.0, 1.25) == 0.75  # (2 - 1.25) / (2 - 1)
    assert recovered(2.0, 1.0, 2.5) == -0.5
    assert recovered(1.0, 1.0, 0.5) is None
    assert recovered(2.0, None, 1.0) is None


@pytest.mark.slow
def test_half_a_delta_lies_between(
    folders: dict[str, Path], measured: QualityInput, tmp_path: Path
) -> None:
    delta = load_delta(make(folders["tuned"], folders, tmp_path / "d.safetensors", None).file)
    losses = [
        measure_quality(folders["base"], None, delta, measured, scaled=scaled)
        for scaled in (0.0, 0.5, 1.0)
    ]
    assert losses[0].delta == pytest.approx(losses[0].base, rel=1e-6)
    assert losses[0].delta > losses[1].delta > losses[2].delta
    assert losses[0].tuned is losses[0].recovered is losses[0].kl is None


class _Breaks(TorchBackend):
    """An engine that loads nothing."""

    def load(self, *_: object, **__: object) -> Any:
        raise InputError("no engine")


def test_a_failed_measurement_leaves_the_delta(
    folders: dict[str, Path], measured: QualityInput, tmp_path: Path
) -> None:
    engine: Backend = _Breaks("cpu")
    broken = QualityInput(measured.examples, backend=engine)
    with pytest.raises(InputError, match="no engine"):
        make(folders["tuned"], folders, tmp_path / "d.safetensors", broken)
    assert load_delta(tmp_path / "d.safetensors").header.quality is None


def test_rows_without_a_learned_token_are_refused(folders: dict[str, Path], tmp_path: Path) -> None:
    empty = Example(np.arange(3), np.zeros(3, np.bool_), "drawn:1", truncated=False)
    with raises("delta.no_held_out_rows"):
        make(folders["tuned"], folders, tmp_path / "d.safetensors", QualityInput([empty]))


@pytest.mark.slow
def test_check_measures_again_and_agrees(
    folders: dict[str, Path], measured: QualityInput, tmp_path: Path
) -> None:
    file = make(folders["tuned"], folders, tmp_path / "d.safetensors", measured).file
    checks = check_delta(file, base=folders["base"], quality=measured)
    assert [check.name for check in checks] == [
        *("format", "digest", "header", "finite", "identity", "quality")
    ]
    assert all(check.ok for check in checks)
    assert "the file says" in checks[-1].detail


@pytest.mark.slow
@WORSE
def test_a_block_of_invented_losses_fails_on_its_rows(
    folders: dict[str, Path], measured: QualityInput, tmp_path: Path
) -> None:
    delta = load_delta(make(folders["lora"], folders, tmp_path / "d.safetensors", measured).file)
    quality = delta.header.quality
    assert quality is not None
    lies = {"base": 9.0, "tuned": 1.0, "delta": 2.0, "recovered": 0.875}  # (9 - 2) / (9 - 1)
    invented = quality.model_copy(update=lies)
    replace_header(delta, delta.header.model_copy(update={"quality": invented}))
    check = check_delta(delta.path, base=folders["base"], quality=measured)[-1]
    assert (check.name, check.ok) == ("quality", False)


STORED = Quality(rows=6, tokens=144, base=3.0, tuned=2.0, delta=2.2, recovered=0.8, kl=0.1)
ROWS, OTHER_ROWS = "a" * 64, "b" * 64


def judged(dense: Path, recorded: str | None, change: dict[str, Any]) -> Check:
    """Compares a new measurement on ROWS with STORED on the recorded rows."""
    recipe = {} if recorded is None else {ROWS_DIGEST_KEY: recorded}
    known = {"quality": STORED, "recipe": recipe}
    header = load_delta(dense).header.model_copy(update=known)
    return judge_quality(header, STORED.model_copy(update=change), ROWS)


@pytest.mark.parametrize(
    ("change", "ok"),
    [
        ({"base": 3.005, "delta": 2.205, "kl": 0.105}, True),
        ({"tuned": None, "kl": None}, True),
        ({"base": 3.1}, False),
        ({"base": 2.9}, False),
        ({"delta": 2.3}, False),
        ({"tuned": 1.9}, False),
        ({"kl": 0.2}, False),
        ({"tokens": 145}, False),
    ],
)
def test_every_loss_agrees_on_the_same_rows(dense: Path, change: dict[str, Any], ok: bool) -> None:
    check = judged(dense, ROWS, change)
    assert check.ok is ok
    assert "the file says base 3.0000, delta 2.2000" in check.detail


@pytest.mark.parametrize("recorded", [OTHER_ROWS, None])
def test_losses_may_differ_on_other_rows_only(dense: Path, recorded: str | None) -> None:
    """Without a digest, another number of tokens shows other rows."""
    check = judged(dense, recorded, {"delta": 2.3, "tokens": 145})
    assert check.ok is True
    assert "other examples" in check.detail


@pytest.mark.parametrize(
    ("change", "ok"),
    [({"delta": 2.205}, True), ({"delta": 2.3}, False), ({"base": 3.1, "delta": 2.3}, None)],
)
def test_an_older_file_with_another_base_loss_is_not_judged(
    dense: Path, change: dict[str, Any], ok: bool | None
) -> None:
    assert judged(dense, None, change).ok is ok


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["dense", "lowrank"])
def test_a_delta_whose_answers_are_no_numbers_is_named(
    kind: str, folders: dict[str, Path], tmp_path: Path
) -> None:
    """1e30 * 1e30 is beyond float32, though every weight is finite."""
    if kind == "dense":
        weights = disk.random_arrays(SHAPES, 0, 0.4)
        for side in ("gate", "up"):
            weights[f"model.layers.0.mlp.{side}_proj.weight"][:] = 1e30
        source = disk.write_model(tmp_path / "tuned", weights)
    else:
        factors = disk.lora_arrays(SHAPES, 4, 3)
        huge = {n: np.full_like(values, 1e30) for n, values in factors.items()}
        source = disk.write_adapter(tmp_path / "lora", huge, 4)
    form = DeltaConfig(codec="sign" if kind == "dense" else "f32")
    out = tmp_path / "d.safetensors"
    file = create_delta(source, base=folders["base"], base_id="b", out=out, config=form).file
    with (
        pytest.raises(InputError, match="answers of this model are not numbers") as caught,
        delta_model(load_delta(file), folders["base"]) as model,
    ):
        load_backend("cpu").load(model.folder, LoadSpec(adapter=model.adapter, dtype="f32"))
    assert caught.value.message.startswith(f"{file}: ")

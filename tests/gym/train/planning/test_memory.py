"""The estimate of memory: shares by hand, and the refusal."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tests.backends.thread_ranks import ThreadRanks, in_threads
from tests.codes import raises
from tests.gym.train.planning.needs import LORA, SMALL
from zoo.backends.memory import (
    RESERVE_BYTES,
    SAMPLING_BYTES,
    Adapted,
    base_bytes,
    estimate_memory,
    gpu_sampling_bytes,
    trained_weights,
)
from zoo.backends.optimizer_memory import Matrix, rotations, trained_parameters
from zoo.backends.optimizer_spec import OptimizerSpec, ProjectionSpec
from zoo.gym.errors import DoesNotFitError
from zoo.gym.train.planning.memory import check_fit, check_fit_everywhere
from zoo.models.registry import registry


def test_an_adapter_has_rank_times_inputs_and_outputs_of_each_layer() -> None:
    # q 4+6, k and v 4+3 each, o 6+4, gate, up and down 4+5 each: 61; rank 2, 2 blocks
    assert trained_parameters(SMALL, 2).size == 2 * 2 * 61


def test_rotations_have_an_angle_for_each_pair_of_inputs_in_a_block() -> None:
    shape = replace(SMALL, heads=4, head_dim=2, ffn=8)
    # five layers have 4 inputs, o and down 8; a block of 4 has 6 angles
    assert rotations(shape, 0, 4).size == 2 * 6 * (5 + 2 * 2)
    # with 2 blocks of 2 inputs 1 angle, of 4 inputs 6 angles
    assert rotations(shape, 2, 0).size == 2 * 2 * (5 * 1 + 2 * 6)
    need = replace(LORA, geometry=shape, oft=(0, 4))
    # and the two 64-bit numbers of each pair, once for a layer
    places = 2 * 7 * 6 * 16
    assert estimate_memory(need).adapter == 4 * rotations(shape, 0, 4).size + places
    assert rotations(shape, 100, 0).size == 0  # refused once the model is there


def test_rotations_keep_four_matrices_as_wide_as_their_blocks() -> None:
    shape = replace(SMALL, heads=4, head_dim=2, ffn=8)
    kept = {}
    for size in (2, 4):
        need = replace(LORA, geometry=shape, oft=(0, size), checkpointing=False)
        kept[size] = estimate_memory(need).activations
        # 5 layers of 4 inputs, o and down of 8, in 2 blocks; at the widest one twice as many
        plain = estimate_memory(replace(need, oft=None)).activations
        assert kept[size] == plain + 4 * 4 * size * (2 * (5 * 4 + 2 * 8) + 8)
    assert kept[2] < kept[4]


def test_dropout_keeps_a_mask_and_a_copy_of_each_layers_inputs() -> None:
    plain, dropped = estimate_memory(LORA), estimate_memory(replace(LORA, dropout=True))
    # inputs of a block: q, k, v, gate and up 4, o 6, down 5
    assert dropped.activations == plain.activations + 100 * 6 * (5 * 4 + 6 + 5)


def test_a_module_beside_an_adapter_has_a_copy_a_gradient_and_averages() -> None:
    plain = estimate_memory(LORA)
    layer = estimate_memory(replace(LORA, whole=(Matrix(5, 4, 1), Matrix(5, 4, 1))))
    assert layer.adapter == plain.adapter + 4 * 40
    assert layer.gradients == plain.gradients + 4 * 40
    assert layer.optimizer == plain.optimizer + 8 * 40
    assert layer.statistics == plain.statistics
    table = estimate_memory(replace(LORA, whole=(Matrix(10, 4, 1, linear=False),)))
    assert table.adapter == plain.adapter + 4 * 10 * 4
    assert table.statistics == plain.statistics + 8 * 10 * 4  # as with a head in place


def test_projections_by_name_leave_the_others_their_averages() -> None:
    spec = OptimizerSpec(name="galore", projection=ProjectionSpec(rank=1))
    full = replace(LORA, full=True, weight_bytes=4, optimizer=spec)
    size = estimate_memory(full).gradients // 4
    one = estimate_memory(replace(full, named=(Matrix(5, 4, 2),)))
    assert one.optimizer == 8 * (size - 40) + 2 * (8 * 5 + 4 * 4)
    assert estimate_memory(full).optimizer < one.optimizer < 8 * size


def test_zen_nanos_adapter_of_rank_16_is_counted_right() -> None:
    nano = next(entry.geometry for entry in registry() if entry.alias == "zen-nano")
    assert trained_parameters(nano, 16).size == 10_092_544


def test_shares_of_an_adapter_run_are_those_computed_by_hand() -> None:
    fit = estimate_memory(LORA)
    # embedding 40; a block: linear 2*4*3*3 + 3*4*5 = 132, norms 2*4 + 2*3 = 14; last norm 4
    assert fit.weights == 2 * (40 + 2 * (132 + 14) + 4)
    assert (fit.adapter, fit.gradients, fit.optimizer) == (976, 976, 1952)
    # a row of 4 bf16 values for each of 2 blocks, and 8 float32 copies of 4 + 5 + 12 widths
    assert fit.activations == 2 * 100 * 4 * 2 + 100 * 8 * 21 * 4
    assert (fit.generation, fit.reserve) == (0, RESERVE_BYTES)


def test_dora_needs_its_magnitudes_more_outputs_and_the_norm_of_the_widest_layer() -> None:
    plain, dora = estimate_memory(LORA), estimate_memory(replace(LORA, dora=True))
    # outputs of a block: q 6, k 3, v 3, o 4, gate 5, up 5, down 4; the widest layer has 6 by 4
    assert dora.adapter == plain.adapter + 4 * 2 * 30
    more = 100 * 3 * 21 * 4 + 4 * (6 * 6 + 3 * 6 * 4)
    assert dora.activations == plain.activations + more


def test_frozen_blocks_below_the_trained_ones_keep_nothing_for_a_gradient() -> None:
    full = replace(LORA, full=True, weight_bytes=4, checkpointing=False)
    last = estimate_memory(replace(full, blocks=1))
    # the norm above the blocks is counted by halves: 2 * 146 + 4, of 2 blocks
    assert (last.gradients, last.optimizer) == (4 * 148, 8 * 148)
    assert last.activations * 2 == estimate_memory(full).activations
    assert last.statistics == estimate_memory(full).statistics - 8 * 10 * 4
    first = estimate_memory(replace(full, blocks=-1, ends=True))
    assert first.gradients == 4 * (148 + 40)
    assert first.activations == estimate_memory(full).activations
    assert first.weights == last.weights == estimate_memory(full).weights


def test_a_divergence_takes_five_arrays_of_a_chunk() -> None:
    large = replace(LORA, geometry=replace(SMALL, vocab=100_000), tokens=300)
    found = [
        estimate_memory(replace(large, reads_vocabulary=reads)).statistics
        for reads in (True, False)
    ]
    assert found[0] - found[1] == 5 * 4 * 256 * 100_000 - 4 * 512 * 4096


def test_the_total_is_the_sum_of_shares_that_are_there_at_once() -> None:
    fit = estimate_memory(LORA)
    together = fit.weights + fit.adapter + fit.gradients + fit.optimizer + fit.reserve
    assert fit.total == together + fit.activations + fit.statistics


def test_full_weights_learn_without_an_adapter() -> None:
    fit = estimate_memory(replace(LORA, full=True, weight_bytes=4))
    assert fit.adapter == 0
    assert fit.optimizer == 2 * fit.weights == 2 * fit.gradients


def test_checkpointing_saves_the_insides_of_all_blocks_but_one() -> None:
    saved = estimate_memory(replace(LORA, checkpointing=False)).total - estimate_memory(LORA).total
    assert saved == 100 * 8 * 21 * 4


def test_a_large_evaluation_counts_instead_of_the_step() -> None:
    few, many = (estimate_memory(replace(LORA, evaluation_tokens=n)).total for n in (1, 10_000_000))
    assert few == estimate_memory(LORA).total
    assert many > few


def test_answers_that_are_sampled_together_count_by_hand() -> None:
    # keys and values: 2 * 2 blocks * 3 bf16 values = 24 bytes; 12 float32 copies of 4 widths: 192
    fit = estimate_memory(replace(LORA, sampled_rows=3, sampled_tokens=7))
    assert fit.generation == 3 * (7 * 192 + 24 * 10)


def test_whole_matrices_of_attention_are_there_while_prompts_are_read() -> None:
    plain = replace(LORA, sampled_rows=3, sampled_tokens=7)
    # 2 heads, 5 x 5 pairs in float32, 2.5 arrays of each prompt
    fit = estimate_memory(replace(plain, prompt_pairs=25))
    assert fit.generation - estimate_memory(plain).generation == 3 * 4 * 2 * 25 * 2.5


def test_named_layers_alone_are_rotated() -> None:
    every = replace(LORA, oft=(0, 2))
    all_of_them = (4, 4, 4, 6, 4, 4, 5) * 2
    assert estimate_memory(replace(every, rotated=all_of_them)) == estimate_memory(every)
    # a layer of 4 inputs has 2 blocks with an angle each
    one = estimate_memory(replace(every, rotated=(4,)))
    assert one.gradients == 4 * 2
    assert one.adapter == 4 * 2 + 8 * 2


def test_answers_beyond_a_batch_are_sampled_later() -> None:
    plain = estimate_memory(LORA)
    fit = estimate_memory(replace(LORA, sampled_rows=10**9, sampled_tokens=7))
    assert fit.generation == SAMPLING_BYTES
    assert fit.total == plain.total - plain.activations - plain.statistics + SAMPLING_BYTES


@pytest.mark.parametrize(("card_gib", "gib"), [(2, 1), (8, 8 / 3), (140, 8)])
def test_a_gpu_samples_as_many_answers_at_once_as_its_memory_allows(
    card_gib: int, gib: float
) -> None:
    limit = gpu_sampling_bytes(card_gib << 30)
    assert limit == int(gib * 2**30)
    need = replace(LORA, sampled_rows=10**9, sampled_tokens=7, sampling_bytes=limit)
    assert estimate_memory(need).generation == limit


def test_a_run_that_does_not_fit_is_refused_with_three_ways_out() -> None:
    fit = estimate_memory(LORA)
    check_fit(fit, "cpu", fit.total)
    with raises("train.out_of_memory") as caught:
        check_fit(fit, "cpu", fit.total - 1)
    hint = caught.value.hint or ""
    for lever in ("gradient_accumulation_steps", "cutoff_len", "gradient_checkpointing"):
        assert lever in hint


def test_processes_need_the_memory_of_each() -> None:
    fit = estimate_memory(LORA)
    assert check_fit(fit, "cpu", 2 * fit.total, 2) is None
    with raises("train.out_of_memory", "for 2 processes") as caught:
        check_fit(fit, "cpu", 2 * fit.total - 1, 2)
    assert "fewer num_processes" in (caught.value.hint or "")


def test_a_measured_peak_alone_refuses_nothing() -> None:
    fit = estimate_memory(LORA)
    measured = replace(fit, total=9 * fit.total, source="measured", calculated=fit.total)
    assert "took 7.28 GB, 0.81 GB are free on cpu" in str(check_fit(measured, "cpu", fit.total))
    with raises("train.out_of_memory"):
        check_fit(measured, "cpu", fit.total - 1)
    assert check_fit(replace(measured, total=5), "cpu", 5) is None


def test_codes_in_the_files_take_what_they_take_there() -> None:
    """Of mlx-lm also embedding and head are in codes; a mixture has more weights than its shape."""
    plain = base_bytes(LORA)
    made = replace(LORA, linear_bits=4.5)
    every = SMALL.parameters()
    coded = base_bytes(replace(made, coded=every))
    widened = 4 * 6 * 2
    assert coded == round(every * 4.5 / 8) + widened
    assert coded < base_bytes(made) < plain + widened
    assert base_bytes(replace(made, coded=10 * every)) == round(10 * every * 4.5 / 8) + widened


def test_the_fullest_gpu_limits_all_processes() -> None:
    fit = estimate_memory(LORA)
    needed = fit.total - fit.reserve

    def fits(ranks: ThreadRanks, spare: int) -> bool:
        engine: Any = SimpleNamespace(free_bytes=lambda: needed + (spare if ranks.rank else 9))
        try:
            check_fit_everywhere(fit, "cuda", ranks, engine)
        except DoesNotFitError:
            return False
        return True

    assert in_threads(2, lambda ranks: fits(ranks, 0)) == [True, True]
    assert in_threads(2, lambda ranks: fits(ranks, -1)) == [False, False]


def test_named_layers_have_their_own_factors_and_magnitudes() -> None:
    # a layer of 5 outputs and 4 inputs with rank 2, one of 3 and 4 with rank 1
    need = replace(LORA, adapted=(Adapted(5, 4, 2), Adapted(3, 4, 1)))
    assert trained_weights(need).size == 2 * (5 + 4) + (3 + 4)
    assert trained_weights(replace(need, dora=True)).size == 25 + 5 + 3
    dropped = replace(need, dropout=True)
    more = estimate_memory(dropped).activations - estimate_memory(need).activations
    assert 0 < more < 100 * 6 * 8
    given = replace(LORA, full=True, blocks=1, in_place=(Matrix(5, 4, 1),))
    assert estimate_memory(given).gradients == 4 * 20


def test_whole_matrices_of_attention_grow_with_the_square_of_a_row() -> None:
    # 2 heads, 100 x 50 pairs in float32: one array kept by the block, 2.5 while it computes
    plain, squares = estimate_memory(LORA), estimate_memory(replace(LORA, pairs=5000))
    assert squares.activations - plain.activations == round(4 * 2 * 5000 * 3.5)
    held_out = estimate_memory(replace(LORA, evaluation_pairs=5000))
    assert held_out.evaluation - plain.evaluation == 4 * 2 * 5000 * 2.5


def test_processes_divide_gradients_and_state_but_not_the_base() -> None:
    need = replace(LORA, full=True)
    one, four = estimate_memory(need), estimate_memory(replace(need, sharing=4))
    assert (four.gradients, four.optimizer) == (one.gradients // 4, one.optimizer // 4)
    assert four.weights == one.weights
    assert four.total < one.total

"""What `bench.real` compares: rows that are padded, and ratios of the steps."""

import numpy as np

from bench.real import faster, same_losses
from bench.real_steps import padded


def test_rows_are_padded_behind_and_learned_after_the_prompt() -> None:
    ids_BT, lengths_B, mask_BT = padded([([5, 6, 7], 1), ([8, 9], 1)])
    np.testing.assert_array_equal(ids_BT, [[5, 6, 7], [8, 9, 0]])
    np.testing.assert_array_equal(lengths_B, [3, 2])
    np.testing.assert_array_equal(mask_BT, [[False, True, True], [False, True, False]])


def test_a_ratio_is_the_median_over_the_steps_but_the_first() -> None:
    mine = {"step_s": [9.0, 1.0, 2.0, 1.0], "tokens_per_cpu_s": 30, "losses": [2.0, 1.5]}
    theirs = {"step_s": [1.0, 2.0, 3.0, 4.0], "losses": [2.0, 1.25]}
    speed = faster("LoRA", mine, theirs, "plain", ">= 2.1")
    assert (speed.value, speed.ratio) == (30, 2)  # of 2, 1.5 and 4
    assert not speed.keeps_its_bar()
    assert same_losses("LoRA", mine, theirs, "plain").ratio == 0.25

"""Checks of a loaded model on a few tokens, before training or inference."""

import mlx.core as mx

from zoo.backends.mlx.files.load import Loaded
from zoo.backends.mlx.layers.state import PassState
from zoo.backends.mlx.vocabulary.head import find_head
from zoo.core.errors import InputError

PROBE_TOKENS = 8
TOLERANCE = {mx.float32: 1e-3, mx.bfloat16: 5e-2}
"""Largest difference between our logits and the model's, relative to the largest one."""


def check_model(loaded: Loaded) -> None:
    """Compares our logits, backbone and head apart, with the model's own.

    Raises:
        InputError: the logits differ or are not finite.
    """
    model, head = loaded.model, find_head(loaded.model, loaded.config, PassState())
    ids_BT = (mx.arange(1, PROBE_TOKENS + 1) * 7919 % head.tokens)[None]
    theirs_TV = model(ids_BT)[0].astype(mx.float32)
    hidden_TD = model.model(ids_BT)[0]
    ours_TV = head.transformed(head.product(hidden_TD))
    largest = float(mx.abs(theirs_TV).max().item())
    difference = float(mx.abs(ours_TV - theirs_TV).max().item())
    name = type(model).__module__.rpartition(".")[2]
    if not largest < float("inf"):
        raise InputError(
            f"{loaded.folder}: the answers of this model are not numbers: expected finite logits, "
            f"got {largest}",
            hint="its weights are damaged, or too large for the type it computes in",
            code="backends.answers_not_finite",
        )
    if not difference <= TOLERANCE.get(hidden_TD.dtype, 5e-2) * largest:
        raise InputError(
            f"{loaded.folder}: the output layer of {name} is unknown on MLX: its logits "
            f"differ from ours by {difference:.3g}",
            code="backends.unknown_output_layer",
        )

"""The published quantizers of single tensors: codes and scales of `weight - base_weight`.

    signs, scales = BitDeltaQuantizer().quantize_delta(weight, base_weight, "layer.0.weight")
    change = BitDeltaQuantizer().dequantize_delta(signs, scales)

The codecs are those of delta files, which `create_delta` and `compress_deltas` write for whole
models; here codes are unpacked to one byte each, in the shape of the weight. A tensor of more than
two dimensions is a matrix of its last one; a vector is one row.
"""

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast, get_args

from zoo.gym.arguments import instance_of, text_of, whole_of
from zoo.gym.config.bitdelta import BitDeltaConfig
from zoo.gym.config.deltaquant import BITS, DeltaQuantConfig, QuantMethod
from zoo.gym.config.report import shown
from zoo.gym.delta.codecs.dense import code_matrix
from zoo.gym.delta.codecs.options import Dense, choose_coding, names_layer
from zoo.gym.delta.codecs.values import Values
from zoo.gym.delta.file.terms import GROUP, Scale, SignTerm, plane_names, rows_and_columns
from zoo.gym.errors import GymWarning, InputError
from zoo.gym.published.live_tensors import Array, array_of, tensor_like, values_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from zoo.core import GroupCodec


class BitDeltaQuantizer:
    """Codes the change of a tensor as signs and scales, BitDelta (arXiv:2402.10193).

    Args:
        config: the coding, of `bits` 1; `scale`, `zero` and `planes` apply.

    Raises:
        InputError: `config` has another type, or is not for full weights.

    Warns:
        GymWarning: `safety_threshold` is given.
    """

    def __init__(self, config: BitDeltaConfig | None = None) -> None:
        chosen = BitDeltaConfig() if config is None else config
        self.config = instance_of("config", chosen, BitDeltaConfig, hint="BitDeltaConfig(bits=1)")
        if chosen.bits != 1:
            raise InputError(
                f"bits: expected 1 for signs, got {chosen.bits}",
                hint="DeltaQuantizer(DeltaQuantConfig(method='int4'))",
                code="published.bad_argument",
            )
        self._coding = _dense(
            choose_coding(chosen.as_delta(from_adapter=False), from_adapter=False)
        )
        if chosen.safety_threshold is not None:
            warnings.warn(
                "safety_threshold: without effect on single tensors: compress_deltas measures what"
                " a whole model refuses",
                GymWarning,
                stacklevel=2,
            )

    def quantize_delta(
        self, weight: Array, base_weight: Array, name: str = "weight"
    ) -> tuple[Array, Array]:
        """Returns the signs and the scales of `weight - base_weight`.

        Args:
            weight: the fine-tuned tensor, of float32, float16 or bfloat16.
            base_weight: that of the base, in the same shape.
            name: its name, for messages.

        Returns:
            Signs, int8 in the shape of the weight: 1, -1, and 0 where the zeros of a tensor are
            kept; scales, float32: one for each row, or as `scale` says ([rows, groups] with
            "group"). With several `planes` both have them as the first dimension.

        Raises:
            InputError: no tensors, other types or shapes, or a value that is not finite.
        """
        base, tuned, shape = _sides(weight, base_weight, name)
        levels, scales = _coded(base, tuned, self._coding, name)
        if self._coding.planes == 1:
            levels, scales = levels[0], scales[0]
            return tensor_like(weight, levels.reshape(shape)), tensor_like(weight, scales)
        return tensor_like(weight, levels.reshape(-1, *shape)), tensor_like(weight, scales)

    def dequantize_delta(
        self,
        signs: Array,
        scales: Array,
        original_shape: Sequence[int] | str | None = None,
        name: Sequence[int] | str | None = None,
    ) -> Array:
        """Returns the change that signs and scales stand for, float32.

        Args:
            signs: what `quantize_delta` returned.
            scales: what it returned with them.
            original_shape: the shape of the result; by default that of the signs.
            name: the tensor's name, for messages. Both may be given in either order.

        Raises:
            InputError: signs and scales do not fit each other or the shape.
        """
        import numpy as np

        label, size = name, original_shape
        if isinstance(original_shape, str):
            label, size = original_shape, name
        where = text_of("name", "signs" if label is None else label)
        levels, sizes = array_of("signs", signs, where), array_of("scales", scales, where)
        planes = self._coding.planes
        shape = levels.shape if planes == 1 else levels.shape[1:]
        if planes > 1 and (len(levels), len(sizes)) != (planes, planes):
            raise _misfit(where, f"{planes} planes", levels.shape)
        matrices = levels.reshape(planes, *rows_and_columns(shape))
        by_plane = zip(matrices, sizes if planes > 1 else [sizes], strict=True)
        change = np.zeros(matrices.shape[1:], np.float32)
        for plane, scale in by_plane:
            change += _times(plane, scale, self._coding.scale, where)
        return tensor_like(signs, _shaped(change, shape if size is None else size, where))


class DeltaQuantizer:
    """Codes the change of a tensor as a `DeltaQuantConfig` says.

    Args:
        config: the method, and the bits of layers that have others.

    Raises:
        InputError: `config` has another type, or is not for full weights.

    Warns:
        GymWarning: `calibration_samples` is given, which are rows of text.
    """

    def __init__(self, config: DeltaQuantConfig | None = None) -> None:
        chosen = DeltaQuantConfig() if config is None else config
        hint = "DeltaQuantConfig(method='int4')"
        self.config = instance_of("config", chosen, DeltaQuantConfig, hint=hint)
        self._coding = _dense(
            choose_coding(chosen.as_delta(from_adapter=False), from_adapter=False)
        )
        layers = chosen.layers(from_adapter=False)
        self._layers = {
            name: _dense(choose_coding(layer, from_adapter=False)) for name, layer in layers.items()
        }
        if "calibration_samples" in chosen.model_fields_set:
            warnings.warn(
                "calibration_samples: without effect on single tensors: compress_deltas measures a"
                " delta on that many rows",
                GymWarning,
                stacklevel=2,
            )

    def quantize_delta(
        self, weight: Array, base_weight: Array, name: str = "weight"
    ) -> tuple[Array, dict[str, Any]]:
        """Returns the codes of `weight - base_weight`, and what decodes them.

        Args:
            weight: the fine-tuned tensor, of float32, float16 or bfloat16.
            base_weight: that of the base, in the same shape.
            name: its name, which may have bits of its own.

        Returns:
            Codes, int8 in the shape of the weight; and `method`, `bits` (None for ternary digits),
            `scale` (what shares one) and `scales`, float32. A code times its scale is the change.

        Raises:
            InputError: no tensors, other types or shapes, or a value that is not finite.
        """
        base, tuned, shape = _sides(weight, base_weight, name)
        fitting = (self._layers[layer] for layer in self._layers if names_layer(layer, name))
        coding = next(fitting, self._coding)
        levels, scales = _coded(base, tuned, coding, name)
        method = _method(coding)
        params = {
            "method": method.value,
            "bits": BITS.get(method),
            "scale": coding.scale if method is QuantMethod.BINARY else "group",
            "scales": tensor_like(weight, scales[0]),
        }
        return tensor_like(weight, levels[0].reshape(shape)), params

    def dequantize_delta(
        self,
        quantized: Array,
        params: Mapping[str, Any],
        original_shape: Sequence[int] | None = None,
    ) -> Array:
        """Returns the change that codes stand for, float32.

        Args:
            quantized: the codes that `quantize_delta` returned.
            params: what it returned with them.
            original_shape: the shape of the result; by default that of the codes.

        Raises:
            InputError: codes and scales do not fit each other or the shape.
        """
        if not isinstance(cast("object", params), Mapping) or not params.keys() >= {
            "scale",
            "scales",
        }:
            raise InputError(
                "params: expected what quantize_delta returned with the codes",
                code="published.bad_argument",
            )
        scale = params["scale"]
        if scale not in get_args(Scale):
            raise InputError(
                f"params: scale: expected {', '.join(get_args(Scale))}, got {shown(scale)}",
                code="published.bad_argument",
            )
        levels = array_of("quantized", quantized, "codes")
        scales = array_of("scales", params["scales"], "codes")
        matrix = levels.reshape(rows_and_columns(levels.shape))
        change = _times(matrix, scales, scale, "codes")
        shape = levels.shape if original_shape is None else original_shape
        return tensor_like(quantized, _shaped(change, shape, "codes"))


def _dense(coding: object) -> Dense:
    assert isinstance(coding, Dense)
    return coding


def _method(coding: Dense) -> QuantMethod:
    if coding.codec == "int":
        return QuantMethod(f"int{coding.bits}")
    return QuantMethod.BINARY if coding.codec == "sign" else QuantMethod.TERNARY


def _coded(
    base: Values, tuned: Values, coding: Dense, name: str
) -> "tuple[NDArray[np.int8], NDArray[np.float32]]":
    """Returns the codes [planes, rows, columns] of a matrix's change, and the scales by plane.

    Raises:
        InputError: a value is not finite; the message has the tensor.
    """
    import numpy as np

    from zoo.core import unpack_groups, unpack_signs
    from zoo.core.signs import scales_shape

    rows, columns = base.values.shape
    try:
        coded = code_matrix(base, tuned, coding)
    except InputError as error:
        raise InputError(
            f"tensor {name!r}: {error.message}", code=error.code or "published.bad_tensor"
        ) from error
    scale: Scale = coding.scale if coding.codec == "sign" else "group"
    if coded is None:
        planes = coding.planes
        nothing = np.zeros((planes, *scales_shape(scale, rows, columns, GROUP)), np.float32)
        return np.zeros((planes, rows, columns), np.int8), nothing
    term, parts = coded
    if coding.codec != "sign":
        kind = coding.codec
        codec = cast("GroupCodec", kind if kind == "ternary" else f"int{coding.bits}")
        scales = parts[f"{kind}.scale"]
        levels = unpack_groups(codec, parts[f"{kind}.codes"], np.ones_like(scales), cols=columns)
        # the four levels of 2 bits are halves
        unit = np.float32(2 if codec == "int2" else 1)
        return (levels * unit).astype(np.int8)[None], (scales.astype(np.float32) / unit)[None]
    assert isinstance(term, SignTerm)
    names = plane_names(term)
    mask = parts.get("mask")
    signs = [unpack_signs(parts[f"sign{plane}"], columns, mask=mask) for plane in names]
    return np.stack(signs).astype(np.int8), np.stack([parts[f"scale{plane}"] for plane in names])


def _times(
    levels: "NDArray[Any]", scales: "NDArray[Any]", scale: Scale, where: str
) -> "NDArray[np.float32]":
    """Returns codes [rows, columns] times their scales; each product is exact or one rounding.

    Raises:
        InputError: the scales have another shape.
    """
    import numpy as np

    from zoo.core.signs import scales_shape

    rows, columns = levels.shape
    expected = scales_shape(scale, rows, columns, GROUP)
    if scales.shape != expected:
        raise _misfit(where, f"scales in shape {list(expected)}", scales.shape)
    sizes = scales.astype(np.float32)
    if scale == "group":
        sizes = np.repeat(sizes, GROUP, axis=1)[:, :columns]
    elif scale == "row":
        sizes = sizes[:, None]
    product: NDArray[np.float32] = levels.astype(np.float32) * sizes
    return product


def _shaped(change: "NDArray[np.float32]", shape: object, where: str) -> "NDArray[np.float32]":
    """Returns a change in the shape that was given.

    Raises:
        InputError: it is no shape, or one of another size.
    """
    if isinstance(shape, str) or not isinstance(shape, Sequence):
        raise InputError(
            f"{where}: original_shape: expected a list of sizes, got {shown(shape)}",
            code="published.bad_tensor",
        )
    sizes = tuple(whole_of("original_shape", size) for size in shape)
    if math.prod(sizes) != change.size or min(sizes, default=0) < 0:
        raise _misfit(where, f"codes for shape {list(sizes)}", change.shape)
    return change.reshape(sizes)


def _misfit(where: str, expected: str, shape: Sequence[int]) -> InputError:
    return InputError(
        f"{where}: expected {expected}, got shape {list(shape)}", code="published.bad_tensor"
    )


def _sides(weight: Array, base_weight: Array, name: str) -> tuple[Values, Values, tuple[int, ...]]:
    """Returns base and fine-tune as matrices, and their shape.

    Raises:
        InputError: they are no tensors, or have other types or shapes.
    """
    where = text_of("name", name)
    tuned, base = values_of("weight", weight, where), values_of("base_weight", base_weight, where)
    shape = tuple(tuned.values.shape)
    if tuple(base.values.shape) != shape:
        raise _misfit(where, f"base_weight in shape {list(shape)}", base.values.shape)
    if not tuned.values.size:
        raise _misfit(where, "values", shape)
    matrix = rows_and_columns(shape)
    return base.reshape(matrix), tuned.reshape(matrix), shape

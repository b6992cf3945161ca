"""Packed bits, deltas and strict file readers, in Rust.

The names below are loaded on first use, so that `import zoo.core` imports neither NumPy nor
anything that needs it. Errors are in `zoo.core.errors`.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from zoo.core._core import __version__

if TYPE_CHECKING:
    from zoo.core.aggregate import (
        discrete_gaussian,
        hamming,
        majority,
        median,
        near_median,
        sign_mean,
        trimmed_mean,
        weighted_mean,
    )
    from zoo.core.arrays import DType
    from zoo.core.codes import (
        GroupCodec,
        add_product,
        apply_groups,
        pack_codes2,
        pack_groups,
        unpack_codes2,
        unpack_groups,
    )
    from zoo.core.delta import DeltaFile, read_delta
    from zoo.core.files import OpenFile
    from zoo.core.gguf import GgufHeader, GgufTensor, GgufValue, read_gguf_header
    from zoo.core.gram import (
        bulyan_order,
        exact_products,
        float_gram,
        krum_order,
        lowrank_gram,
        mix_gram,
        nearest,
        sign_gram,
        whole_gram,
    )
    from zoo.core.identity import IdentityHasher, base_identity, digest, file_digest
    from zoo.core.isa import Isa, available_isas, use_threads
    from zoo.core.product import dense_product, sign_product
    from zoo.core.safetensors import Header, TensorInfo, read_header
    from zoo.core.selftest import Verdict, self_test
    from zoo.core.signs import apply_signs, pack_signs, unpack_signs

__all__ = [
    "DType",
    "DeltaFile",
    "GgufHeader",
    "GgufTensor",
    "GgufValue",
    "GroupCodec",
    "Header",
    "IdentityHasher",
    "Isa",
    "OpenFile",
    "TensorInfo",
    "Verdict",
    "__version__",
    "add_product",
    "apply_groups",
    "apply_signs",
    "available_isas",
    "base_identity",
    "bulyan_order",
    "dense_product",
    "digest",
    "discrete_gaussian",
    "exact_products",
    "file_digest",
    "float_gram",
    "hamming",
    "krum_order",
    "lowrank_gram",
    "majority",
    "median",
    "mix_gram",
    "near_median",
    "nearest",
    "pack_codes2",
    "pack_groups",
    "pack_signs",
    "read_delta",
    "read_gguf_header",
    "read_header",
    "self_test",
    "sign_gram",
    "sign_mean",
    "sign_product",
    "trimmed_mean",
    "unpack_codes2",
    "unpack_groups",
    "unpack_signs",
    "use_threads",
    "weighted_mean",
    "whole_gram",
]

_HOMES = {
    "DType": "arrays",
    "DeltaFile": "delta",
    "GgufHeader": "gguf",
    "GgufTensor": "gguf",
    "GgufValue": "gguf",
    "GroupCodec": "codes",
    "Header": "safetensors",
    "IdentityHasher": "identity",
    "Isa": "isa",
    "OpenFile": "files",
    "TensorInfo": "safetensors",
    "Verdict": "selftest",
    "add_product": "codes",
    "apply_groups": "codes",
    "apply_signs": "signs",
    "available_isas": "isa",
    "base_identity": "identity",
    "bulyan_order": "gram",
    "dense_product": "product",
    "digest": "identity",
    "discrete_gaussian": "aggregate",
    "exact_products": "gram",
    "file_digest": "identity",
    "float_gram": "gram",
    "hamming": "aggregate",
    "krum_order": "gram",
    "lowrank_gram": "gram",
    "majority": "aggregate",
    "median": "aggregate",
    "mix_gram": "gram",
    "near_median": "aggregate",
    "nearest": "gram",
    "pack_codes2": "codes",
    "pack_groups": "codes",
    "pack_signs": "signs",
    "read_delta": "delta",
    "read_gguf_header": "gguf",
    "read_header": "safetensors",
    "self_test": "selftest",
    "sign_gram": "gram",
    "sign_mean": "aggregate",
    "sign_product": "product",
    "trimmed_mean": "aggregate",
    "unpack_codes2": "codes",
    "unpack_groups": "codes",
    "unpack_signs": "signs",
    "use_threads": "isa",
    "weighted_mean": "aggregate",
    "whole_gram": "gram",
}


if not TYPE_CHECKING:  # otherwise a type checker would accept any name

    def __getattr__(name: str) -> object:
        """Returns a public name from its module."""
        if name not in _HOMES:
            raise AttributeError(f"module 'zoo.core' has no attribute {name!r}")
        return getattr(import_module(f"zoo.core.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    """Lists the public names."""
    return sorted(__all__)

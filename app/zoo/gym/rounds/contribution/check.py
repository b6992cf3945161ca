"""Opens a contribution and refuses whatever the round's manifest does not allow.

The reader of deltas has verified digest, header, parts and that all values are finite. This adds:
the base, exactly the tensors of the round, one term of its form each, sizes within the caps, and
padding bits that are zero, so that a contribution has one way to be written.

Scalar products are whole numbers of 2^-80 below 2^40. Those of factors are rounded to units of
float64: where factors cancel out, only rounding is left, and it cannot measure a copy.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import JsonValue

from zoo.gym.delta.codecs.dense import dense_term
from zoo.gym.delta.codecs.options import Dense
from zoo.gym.delta.file.header import ROUND_TOOL, Base, DeltaHeader
from zoo.gym.delta.file.privacy import Privacy
from zoo.gym.delta.file.reader import (
    PART_TYPES,
    Delta,
    open_delta,
    parse,
    read_container,
    tensor_parts,
    verify_digest,
    verify_whole,
)
from zoo.gym.delta.file.terms import LowRankTerm, RawTerm, TensorTerms, Term
from zoo.gym.errors import InputError, within
from zoo.gym.rounds.arrays import F32, Bits, Gram
from zoo.gym.rounds.encodings import Contributions, Factors, Floats, LowRank, Signs, SignTensor
from zoo.gym.rounds.protocol.manifest import Coding, Form
from zoo.gym.rounds.protocol.objects import is_known_everywhere, quoted

if TYPE_CHECKING:
    from numpy.typing import NDArray


def round_header(
    form: Literal["lowrank", "dense"],
    tensors: Sequence[TensorTerms],
    coding: Coding,
    recipe: Mapping[str, JsonValue] | None = None,
    privacy: Privacy | None = None,
) -> DeltaHeader:
    """Returns the header of a delta of a round, about nobody and nothing but what is given."""
    return DeltaHeader(
        form=form,
        base=Base(identity=coding.base.identity, id=coding.base.model, revision=None),
        tensors=tuple(tensors),
        recipe=dict(recipe or {}),
        seed=None,
        data=None,
        privacy=privacy,
        tool=ROUND_TOOL,
        quality=None,
    )


def views_of(deltas: Sequence[Delta], manifest: Coding) -> Contributions:
    """Returns contributions as the rules see them: views of the mapped files.

    Raises:
        InputError: there are none, or lessons.
    """
    import numpy as np

    if not deltas:
        raise InputError(
            "contributions: expected at least 1, got 0", code="rounds.no_contributions"
        )
    files = [_mapped(delta) for delta in deltas]
    names = [tensor.name for tensor in manifest.tensors]

    def flat(name: str) -> "list[NDArray[Any]]":
        return [file[name].reshape(-1) for file in files]

    match manifest.form:
        case "signs":
            signs: dict[str, SignTensor] = {}
            for tensor in manifest.tensors:
                (rows, columns), name = tensor.shape, tensor.name
                scales = np.concatenate(flat(f"{name}.scale"))
                signs[name] = SignTensor(flat(f"{name}.sign"), scales, (rows, columns))
            return Signs(signs)
        case "lowrank":
            sides = {name: (f"{name}.A.values", f"{name}.B.values") for name in names}
            return LowRank(
                {
                    name: Factors([file[a] for file in files], [file[b] for file in files])
                    for name, (a, b) in sides.items()
                }
            )
        case "float":
            return Floats({name: flat(f"{name}.raw") for name in names})
        case "lessons":
            raise InputError("form: expected one of weights, got lessons", code="rounds.other_form")


def _mapped(delta: Delta) -> "dict[str, NDArray[Any]]":
    """Returns the parts of a file as views of its pages."""
    import numpy as np

    content = np.memmap(delta.path, np.uint8, "r")
    return {
        name: content[part.start : part.stop].view(PART_TYPES[part.dtype]).reshape(part.shape)
        for name, part in delta.parts.items()
    }


_CANCEL_BITS = 20
"""The squared norm of factors that are multiplied out is at least 2^-20 of that of their pairs."""


def check_size(delta: Delta, manifest: Coding) -> None:
    """Refuses a change that is too long, or factors that cancel out."""
    view = views_of([delta], manifest)
    try:
        norm = _norm(view.gram())
    except InputError as error:
        raise InputError(
            "expected a squared norm below 2^40, got more",
            hint=error.message,
            code="rounds.norm_too_large",
        ) from None
    if isinstance(view, LowRank):
        pairs = sum(_pairs(factors) for factors in view.tensors.values())
        if norm << _CANCEL_BITS < pairs:
            raise InputError(
                "expected factors of a change, got some that cancel out", code="rounds.cancel_out"
            )


def _pairs(factors: Factors) -> int:
    """Returns the sum of the squared norms of the products of each row of A with its row of B."""
    from zoo.core.gram import lowrank_gram

    (a,), (b,) = factors.a, factors.b
    return sum(_norm(lowrank_gram([a[row : row + 1]], [b[row : row + 1]])) for row in range(len(a)))


def _norm(gram: Gram) -> int:
    from zoo.core.gram import exact_products

    return exact_products(gram)[0][0]


SIGNS = Dense("sign", scale="matrix", zero="minus")
"""The coding of form signs: one scale for a tensor, and zeros count as minus."""

FACTORS: Literal["f32"] = "f32"
"""The codec of both factors of form lowrank."""


def open_contribution(path: Path, manifest: Coding) -> Delta:
    """Returns a contribution that the manifest allows.

    Raises:
        NotAvailableError: there is no such file.
        InputError: it is not allowed; the tensor is named.
    """
    delta = _parsed(path)
    with within("contribution"):
        _check_header(delta, manifest)
        for tensor in delta.header.tensors:
            _check_values(delta, tensor, manifest)
        _check_whole(delta)
        check_size(delta, manifest)
    return delta


def _parsed(path: Path) -> Delta:
    """Parses the bytes and the header of a delta.

    What the readers of files say quotes the file, in words that depend on the versions of Python
    and of libraries; a reason has to be the same on every machine.
    """
    file = open_delta(path)
    try:
        container = read_container(path, file)
        verify_digest(path, file, container)
        check_characters(container.metadata["header"])
        return parse(path, file, container)
    except InputError as error:
        message = "contribution: expected a whole delta file of version 1"
        raise InputError(message, hint=error.message, code="rounds.no_delta") from None


def _check_whole(delta: Delta) -> None:
    try:
        verify_whole(delta.file)
    except InputError as error:  # it names the file
        raise InputError(
            "expected values and codes of a delta", hint=error.message, code="rounds.no_delta"
        ) from None


def check_characters(header: str) -> None:
    """Refuses characters that some versions of Python do not know.

    Raises:
        InputError: the header has some, escaped or not, or is no JSON.
    """
    try:
        text = json.dumps(json.loads(header), ensure_ascii=False)
    except (ValueError, RecursionError):
        raise InputError(
            "header: expected JSON, got something else", code="rounds.header_damaged"
        ) from None
    if not is_known_everywhere(text):
        raise InputError(
            "header: expected characters of Unicode 3.2, got others", code="rounds.not_unicode"
        )


def _check_header(delta: Delta, manifest: Coding) -> None:
    header = delta.header
    if delta.file_bytes > manifest.caps.file_bytes:
        raise InputError(
            f"expected at most {manifest.caps.file_bytes} bytes, got {delta.file_bytes}",
            code="rounds.file_too_large",
        )
    if header.base.identity != manifest.base.identity:
        other = quoted(header.base.id)
        raise InputError(
            f"expected a change of the round's base, got one of {other}", code="rounds.other_base"
        )
    extras = (header.recipe, header.seed, header.data, header.quality, header.base.revision)
    if extras != ({}, None, None, None, None) or header.tool != ROUND_TOOL or header.version != "1":
        raise InputError(
            "expected a header without recipe, seed, data, quality, parents and program",
            code="rounds.header_extra",
        )
    expected = [(tensor.name, tensor.shape) for tensor in manifest.tensors]
    got = [(tensor.name, tensor.shape) for tensor in header.tensors]
    for ours, theirs in zip(expected, got, strict=False):
        if ours != theirs:
            raise InputError(
                f"expected tensor {quoted(ours[0])} {list(ours[1])}, got {quoted(theirs[0])} "
                f"{list(theirs[1])}",
                code="rounds.other_tensors",
            )
    if len(expected) != len(got):
        raise InputError(
            f"expected {len(expected)} tensors, got {len(got)}", code="rounds.other_tensors"
        )
    for tensor in header.tensors:
        if len(tensor.terms) != 1 or not has_form(tensor.terms[0], manifest.form):
            raise InputError(
                f"tensor {quoted(tensor.name)}: expected one term of form {manifest.form}",
                code="rounds.other_form",
            )


def has_form(term: Term, form: Form) -> bool:
    """Returns whether a term is the one of a form."""
    match form:
        case "signs":
            return term == dense_term(SIGNS)
        case "lowrank":
            return isinstance(term, LowRankTerm) and term.A == term.B == FACTORS
        case "float":
            return isinstance(term, RawTerm)
        case "lessons":
            return False


def _check_values(delta: Delta, tensor: TensorTerms, manifest: Coding) -> None:
    (term,) = tensor.terms
    parts = tensor_parts(delta, tensor)
    if isinstance(term, LowRankTerm) and term.rank > manifest.caps.rank:
        raise InputError(
            f"tensor {quoted(tensor.name)}: expected a rank of at most {manifest.caps.rank}, got "
            f"{term.rank}",
            code="rounds.rank_too_large",
        )
    if "sign" in parts:
        _check_signs(tensor, parts["sign"], parts["scale"])
    for name, values in parts.items():
        if name != "sign":
            _check_largest(f"tensor {quoted(tensor.name)}: {name}", values, manifest.caps.value)


def _check_signs(tensor: TensorTerms, bits: Bits, scale: F32) -> None:
    import numpy as np

    columns = tensor.shape[1]
    padding = 0xFF << columns % 8 & 0xFF if columns % 8 else 0
    if padding and (bits[:, -1] & padding).any():
        raise InputError(
            f"tensor {quoted(tensor.name)}: expected zeros as padding bits", code="rounds.padding"
        )
    if np.signbit(scale).any():
        raise InputError(
            f"tensor {quoted(tensor.name)}: expected a scale of at least 0",
            code="rounds.negative_scale",
        )


def _check_largest(where: str, values: F32, most: float) -> None:
    import numpy as np

    if not np.isfinite(values).all():
        raise InputError(f"{where}: expected finite values, got others", code="rounds.not_finite")
    largest = float(np.abs(values).max(initial=0.0))
    if largest > most:
        raise InputError(
            f"{where}: expected values up to {most:g}, got {largest:g}",
            code="rounds.value_too_large",
        )

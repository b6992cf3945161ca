"""The tensor shapes of a base: a zen model, or any model on this machine.

The registry has the shapes of zen models, so no weights are needed. For any other model the headers
of its weight files are read; matrices in numbered blocks count as linear layers.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from zoo.gym.delta.codecs.dense import dense_term
from zoo.gym.delta.codecs.options import Dense
from zoo.gym.delta.file.terms import RawTerm, TensorTerms
from zoo.gym.delta.planning.sizes import dense_terms, linear_shapes
from zoo.gym.delta.reading.weights import FLOATS, open_weights
from zoo.gym.errors import InputError, NotAvailableError
from zoo.models import family_entry, resolve
from zoo.models.folder import count_parameters, read_config
from zoo.models.tied_head import HEAD

_IN_A_BLOCK = re.compile(r"\.\d+\.")


@dataclass(frozen=True)
class PlanBase:
    """A base to plan deltas for.

    Attributes:
        name: the displayed name.
        id: the name in the header of a delta.
        parameters: the number of weights, tied ones once.
        linear: the linear layers of all blocks, [out, in] by name.
        whole: the terms of a delta of all tensors.
        notice: a remark about the name, or None.
    """

    name: str
    id: str
    parameters: int
    linear: Mapping[str, tuple[int, int]]
    whole: list[TensorTerms]
    notice: str | None = None


def plan_base(text: str) -> PlanBase:
    """Returns the base for a name: a zen model, or a folder or model on this machine.

    Raises:
        NotAvailableError: it is not a zen model and not on this machine; nothing is downloaded.
        InputError: its weights are not all matrices and vectors of floating-point numbers, or none
            is in a numbered block.
    """
    try:
        entry = family_entry(text)
    except NotAvailableError:
        return _of_folder(text)
    shape = entry.geometry
    dense = dense_terms(shape, Dense("sign"))
    name, model_id = f"{entry.alias} ({entry.hub_id or 'built in'})", entry.hub_id or entry.alias
    return PlanBase(name, model_id, entry.parameters, linear_shapes(shape), dense)


def _of_folder(text: str) -> PlanBase:
    try:
        model = resolve(text, offline=True)
    except NotAvailableError as error:
        if Path(text).is_file():
            raise InputError(
                f"--base '{text}': expected a folder with a model as safetensors, got a file",
                code="delta.bad_base",
            ) from None
        raise NotAvailableError(
            f"--base '{text}': expected a listed model or one on this machine, got neither",
            hint=error.hint if "did you mean" in str(error.hint) else "zoo-gym models lists them",
            code="delta.no_base",
        ) from error
    weights = open_weights(model.folder)
    tied = bool(read_config(model.folder).get("tie_word_embeddings"))
    linear: dict[str, tuple[int, int]] = {}
    dense: list[TensorTerms] = []
    for name in weights.tensors:
        shape = weights.shape(name)
        if tied and name == HEAD:
            continue
        if len(shape) not in {1, 2} or weights.dtype(name) not in FLOATS:
            raise InputError(
                f"--base {text}: expected matrices and vectors of floating-point numbers, got "
                f"tensor {name!r} with shape {list(shape)} and type {weights.dtype(name)}",
                code="delta.bad_base",
            )
        term = dense_term(Dense("sign")) if len(shape) == 2 else RawTerm()
        dense.append(TensorTerms(name=name, shape=shape, terms=(term,)))
        if len(shape) == 2 and _IN_A_BLOCK.search(name):
            linear[name] = (shape[0], shape[1])
    if not linear:
        raise InputError(
            f"--base {text}: expected a model with numbered blocks, got none", code="delta.bad_base"
        )
    parameters = count_parameters(model.folder)
    return PlanBase(model.id, model.id, parameters, linear, dense, model.notice)

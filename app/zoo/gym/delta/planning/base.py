"""The shapes that deltas of a base are planned from: the family's, or those of any model here.

Of the family the registry knows them, so that no weights are needed. Of any other model the headers
of its weight files are read: matrices inside a numbered block are its linear layers.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

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
    """A base that deltas are planned for.

    Attributes:
        name: as it is shown.
        id: as the header of a delta names it.
        parameters: how many weights it has, tied ones once.
        linear: the linear layers of all blocks, [out, in] by name.
        whole: the terms of a delta over all tensors.
        notice: what should be known of the name, None for nothing.
    """

    name: str
    id: str
    parameters: int
    linear: Mapping[str, tuple[int, int]]
    whole: list[TensorTerms]
    notice: str | None = None


def plan_base(text: str) -> PlanBase:
    """Returns the base that `text` names: of the family, or a folder or model on this machine.

    Raises:
        NotAvailableError: it is neither of the family nor here; nothing is downloaded.
        InputError: its weights are not matrices and vectors of floating-point numbers, or none of
            them is in a numbered block.
    """
    try:
        entry = family_entry(text)
    except NotAvailableError:
        return _of_folder(text)
    shape = entry.geometry
    whole = dense_terms(shape, Dense("sign"))
    name, model_id = f"{entry.alias} ({entry.hub_id or 'built in'})", entry.hub_id or entry.alias
    return PlanBase(name, model_id, entry.parameters, linear_shapes(shape), whole)


def _of_folder(text: str) -> PlanBase:
    try:
        found = resolve(text, offline=True)
    except NotAvailableError as error:
        raise NotAvailableError(
            f"--base '{text}': expected a model of the zen family or one on this machine, got "
            f"neither",
            hint=error.hint if "did you mean" in str(error.hint) else "zoo-gym models lists them",
        ) from error
    weights = open_weights(found.folder)
    tied = bool(read_config(found.folder).get("tie_word_embeddings"))
    linear: dict[str, tuple[int, int]] = {}
    whole: list[TensorTerms] = []
    for name in weights.tensors:
        shape = weights.shape(name)
        if tied and name == HEAD:
            continue
        if len(shape) not in {1, 2} or weights.dtype(name) not in FLOATS:
            raise InputError(
                f"--base {text}: expected matrices and vectors of floating-point numbers, got "
                f"tensor {name!r} with shape {list(shape)} and type {weights.dtype(name)}"
            )
        term = dense_term(Dense("sign")) if len(shape) == 2 else RawTerm()
        whole.append(TensorTerms(name=name, shape=shape, terms=(term,)))
        if len(shape) == 2 and _IN_A_BLOCK.search(name):
            linear[name] = (shape[0], shape[1])
    if not linear:
        raise InputError(f"--base {text}: expected a model with numbered blocks, got none")
    parameters = count_parameters(found.folder)
    return PlanBase(found.id, found.id, parameters, linear, whole, found.notice)

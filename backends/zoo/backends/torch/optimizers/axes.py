"""What a model's modules say of their parameters' axes: where outputs, experts and heads are."""

from dataclasses import dataclass

from torch import nn

from zoo.backends.torch.adapters.names import canonical
from zoo.backends.torch.optimizers.blocks import head_dim


@dataclass(frozen=True)
class Axes:
    """The axes of parameters that are not `[outputs, inputs, ...]`, by canonical name.

    Attributes:
        head_dim: the width of the model's attention heads, if it has such heads.
        stacked: weights of experts, `[experts, outputs, inputs]`.
        outputs_last: weights whose last two axes are `[inputs, outputs]`: GPT-2's layers, and the
            experts of some models.
    """

    head_dim: int | None = None
    stacked: frozenset[str] = frozenset()
    outputs_last: frozenset[str] = frozenset()


IN_BY_OUT = frozenset({"Llama4TextExperts"})
"""Classes of experts with inputs before outputs that do not say so."""

NO_AXES = Axes()
"""Parameters whose first axis is that of the outputs."""


def axes_of(model: nn.Module) -> Axes:
    """Returns the axes of a model's parameters."""
    from transformers.pytorch_utils import Conv1D

    stacked: set[str] = set()
    outputs_last: set[str] = set()
    for path, module in model.named_modules():
        kind = type(module).__name__
        # transformers gives this attribute to every class of experts that its kernels compute
        in_by_out = kind in IN_BY_OUT or getattr(module, "is_transposed", False) is True
        for name, parameter in module.named_parameters(path, recurse=False):
            experts = parameter.dim() == 3 and "Expert" in kind
            if experts:
                stacked.add(canonical(name))
            if (experts and in_by_out) or (isinstance(module, Conv1D) and parameter.dim() == 2):
                outputs_last.add(canonical(name))
    return Axes(head_dim(model), frozenset(stacked), frozenset(outputs_last))

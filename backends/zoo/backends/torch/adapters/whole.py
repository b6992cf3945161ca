"""Modules that are trained whole beside an adapter, as copies of those of the base.

peft wraps them: the copy is used while the adapter is on, the base's own module while it is off.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from zoo.backends.torch.adapters.names import ADAPTER
from zoo.backends.torch.numbers.widened import WidenedLinear
from zoo.backends.torch.quantized.int8 import Int8Linear
from zoo.backends.torch.vocabulary.adapted import is_wrapper
from zoo.core.errors import InputError

if TYPE_CHECKING:
    from peft import PeftModel

KEY = "additional_target"


def find_whole(model: nn.Module, names: Sequence[str]) -> list[str]:
    """Returns the full names of the modules whose names end with one of `names`.

    peft itself also takes modules whose last part only ends so: every norm for `norm`.

    Raises:
        InputError: a name matches no module, or one without weights that can be trained.
    """
    found: list[str] = []
    for name in names:
        matching = [
            (full, m) for full, m in model.named_modules() if f".{full}".endswith(f".{name}")
        ]
        if not name or not matching:
            known = sorted({full.rpartition(".")[2] for full, _ in _outside(model)})
            raise InputError(
                f"{KEY}: expected names that modules end with, got {name!r}",
                hint=f"outside of its layers this model has {', '.join(known)}",
                code="backends.no_such_module",
            )
        for full, module in matching:
            _check(full, module)
        found += [full for full, _ in matching]
    return sorted(set(found))


def _check(name: str, module: nn.Module) -> None:
    if not any(True for _ in module.parameters()):
        raise InputError(
            f"{KEY}: expected modules with weights, got {name!r}",
            code="torch.module_without_weights",
        )
    frozen = any(not p.is_floating_point() for p in module.parameters())
    if frozen or any(isinstance(part, Int8Linear) for part in module.modules()):
        raise InputError(
            f"{KEY}: expected modules that are not quantised, got {name!r}",
            code="backends.already_quantised",
        )


def _outside(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Yields the modules that have weights of their own and are in no list of layers."""
    for name, module in model.named_modules():
        numbered = any(part.isdigit() for part in name.split("."))
        if not numbered and any(True for _ in module.parameters(recurse=False)):
            yield name, module


def is_tied(model: Any, names: Sequence[str]) -> bool:  # noqa: ANN401
    """Returns whether one of the modules is the embedding, and it is the head as well."""
    table, head = model.get_input_embeddings(), model.get_output_embeddings()
    ends = {id(model.get_submodule(name)) for name in names} & {id(table), id(head)}
    return head is not None and bool(ends) and head.weight is table.weight


def widen_copies(model: "PeftModel") -> None:
    """Keeps the copies in float32, whatever the type of the base: 16 bits would lose small steps.

    A copy gets its inputs in float32, and returns the type that the base's module does.
    """
    base = model.get_base_model()
    computes_wide = any(isinstance(part, WidenedLinear) for part in base.modules())
    for wrapper in wrappers(base):
        copy: nn.Module = wrapper.modules_to_save[ADAPTER]
        dtypes: set[torch.dtype] = {p.dtype for p in wrapper.original_module.parameters()}
        dtype = min(dtypes, key=lambda dtype: dtype.itemsize)
        copy.float()
        if dtype is not torch.float32 and not computes_wide:
            copy.register_forward_pre_hook(_widened, with_kwargs=True)
            copy.register_forward_hook(_narrowing(dtype))


def _widened(_: object, args: Any, kwargs: Any) -> Any:  # noqa: ANN401
    return tuple(map(_wide, args)), {name: _wide(value) for name, value in kwargs.items()}


def _wide(value: object) -> object:
    return value.float() if isinstance(value, Tensor) and value.is_floating_point() else value


def _narrowing(dtype: torch.dtype) -> Any:  # noqa: ANN401
    def narrow(_: object, __: object, out: Any) -> Any:  # noqa: ANN401
        if isinstance(out, tuple):
            return tuple(narrow(_, __, part) for part in out)  # pyright: ignore[reportUnknownVariableType]
        return out.to(dtype) if isinstance(out, Tensor) else out

    return narrow


def wrappers(model: nn.Module) -> list[Any]:
    """Returns peft's wrappers around modules that are trained whole."""
    return [module for module in model.modules() if is_wrapper(module)]


def without_adapter(model: "PeftModel") -> nn.Module:
    """Returns the base without an adapter; peft alone would leave the trained copies in it."""
    base: Any = model.get_base_model()
    for name, module in list(base.named_modules()):
        if is_wrapper(module):
            base.set_submodule(name, module.original_module)
    unloaded: nn.Module = model.unload()
    return unloaded

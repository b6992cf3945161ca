"""Trains some blocks of a model in place and freezes the rest (freeze tuning).

A block is an entry of the list that the backbone has one of per hidden layer. The names of modules
are parts of parameter names: `mlp`, `q_proj`, `embed_tokens`.
"""

from collections.abc import Iterable, Iterator

from torch import nn

from zoo.backends.base import FreezeSpec
from zoo.backends.torch.probe import find_backbone
from zoo.core.errors import InputError


def freeze_all_but(model: nn.Module, spec: FreezeSpec) -> None:
    """Freezes every parameter but those that `spec` names.

    Raises:
        InputError: the model has no list of blocks, or fewer than are to be trained, or a name
            matches none of its modules.
    """
    blocks = _blocks(model)
    start, end = _range(spec.layers, len(blocks))
    inside = {index: _parameters(block) for index, block in enumerate(blocks)}
    in_blocks = {id(p) for named in inside.values() for p in named.values()}
    chosen = [inside[index] for index in range(start, end)]
    outside = {name: p for name, p in _parameters(model).items() if id(p) not in in_blocks}
    model.requires_grad_(requires_grad=False)
    if chosen:
        for name in spec.modules:
            _train(chosen, name, "freeze_trainable_modules")
    for name in spec.extra:
        _train([outside], name, "freeze_extra_modules")


def _train(groups: list[dict[str, nn.Parameter]], name: str, key: str) -> None:
    chosen_parameters = [p for named in groups for path, p in named.items() if _is_in(name, path)]
    if not chosen_parameters:
        endings = ", ".join(sorted(_parts(path for named in groups for path in named)))
        raise InputError(
            f"{key}: expected modules that these layers have, got {name!r}",
            hint=f"this model has {endings}",
            code="backends.no_such_module",
        )
    for parameter in chosen_parameters:
        parameter.requires_grad = True


def _is_in(name: str, path: str) -> bool:
    return name == "all" or f".{name}." in f".{path}"


def _parts(paths: Iterable[str]) -> Iterator[str]:
    """Yields the names of modules on the way to parameters."""
    yield from {part for path in paths for part in path.split(".")[:-1] if not part.isdigit()}


def _parameters(module: nn.Module) -> dict[str, nn.Parameter]:
    """Returns the parameters by every name that they have: a tied head has two."""
    return dict(module.named_parameters(remove_duplicate=False))


def _range(layers: int, count: int) -> tuple[int, int]:
    """Returns the first block to train and the one after the last.

    >>> _range(2, 5), _range(-2, 5)
    ((3, 5), (0, 2))
    """
    if abs(layers) > count:
        raise InputError(
            f"freeze_trainable_layers: expected at most the model's {count} layers, got {layers}",
            code="torch.too_many_layers",
        )
    return (count - layers, count) if layers >= 0 else (0, -layers)


def _blocks(model: nn.Module) -> list[nn.Module]:
    """Returns the blocks of the backbone, the first one first."""
    config = getattr(model.config, "text_config", None) or model.config
    count = getattr(config, "num_hidden_layers", None)
    for module in find_backbone(model).modules():
        if isinstance(module, nn.ModuleList) and len(module) == count:
            return list(module)
    raise InputError(
        f"finetuning_type: {type(model).__name__} has no list of {count} layers to freeze",
        hint="finetuning_type=full trains all weights",
        code="torch.no_list_of_layers",
    )

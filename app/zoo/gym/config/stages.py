"""The table of training methods: the values of `stage`, each with its method and settings.

A method is listed by its import path and imported on demand, so that settings do not import
training.
"""

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from inspect import signature
from types import FunctionType
from typing import TYPE_CHECKING, Any, get_args

from zoo.gym.errors import NotAvailableError

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from zoo.gym.config.train import TrainConfig

DEFAULT = "sft"

METHODS = {
    "sft": "zoo.gym.train.methods.sft:Supervised",
    "distill": "zoo.gym.train.methods.distill:Distillation",
    "distill_delta": "zoo.gym.train.methods.distill_delta:DistillDelta",
    "dpo": "zoo.gym.train.methods.dpo:DirectPreference",
    "tdpo": "zoo.gym.train.methods.tdpo:TokenPreference",
    "kto": "zoo.gym.train.methods.kto:RatedAnswers",
    "rm": "zoo.gym.train.methods.rm:RewardModelling",
    "unlearn": "zoo.gym.train.methods.unlearn:Unlearning",
    "orpo": "zoo.gym.train.methods.orpo:OddsRatioPreference",
    "cpo": "zoo.gym.train.methods.cpo:ContrastivePreference",
    "simpo": "zoo.gym.train.methods.cpo:SimplePreference",
    "grpo": "zoo.gym.train.methods.grpo:Grpo",
    "gspo": "zoo.gym.train.methods.gspo:Gspo",
    "rloo": "zoo.gym.train.methods.rloo:Rloo",
    "ppo": "zoo.gym.train.methods.ppo:Ppo",
    "lessons": "zoo.gym.experience.distilling.method:Lessons",
}
"""Stage -> "module:class" of its `zoo.gym.train.method.Method`."""


def place_of(stage: object) -> str | None:
    """Returns where the method of a stage is; None for an unknown stage."""
    return METHODS.get(stage) if isinstance(stage, str) else None


def load_method(stage: str) -> Any:  # noqa: ANN401 - its type belongs to the training
    """Returns the method class of a stage in the table, after checking that it is one.

    Raises:
        NotAvailableError: it cannot be imported, or is not a complete method; the message says why.
    """
    return _loaded(stage, place_of(stage) or METHODS[stage])


@cache
def _loaded(stage: str, path: str) -> Any:  # noqa: ANN401 - its type belongs to the training
    module, _, name = path.partition(":")
    try:
        method = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise NotAvailableError(
            f"stage {stage}: {path} cannot be loaded: {error}", code="config.stage_not_loaded"
        ) from error
    if faults := list(_faults(stage, method)):
        raise NotAvailableError(
            f"stage {stage}: {path}: {'; '.join(faults)}", code="config.stage_not_loaded"
        )
    return method


def _faults(stage: str, candidate: Any) -> Iterator[str]:  # noqa: ANN401 - whatever the table names
    """Yields what keeps an object from being the method of a stage."""
    base: Any = import_module("zoo.gym.train.method").Method
    if not isinstance(candidate, type) or not issubclass(candidate, base):
        yield f"expected a subclass of Method, got {candidate!r}"
        return
    method: Any = candidate
    if missing := sorted(method.__abstractmethods__):
        yield f"expected every method of the interface, got none for {', '.join(missing)}"
    if method.config.model_fields["stage"].default != stage:
        yield f"config: expected the settings of this stage, got {method.config.__name__}"
    kinds = get_args(import_module("zoo.gym.data.records").Kind)
    if not method.reads or not set(method.reads) <= set(kinds):
        yield f"reads: expected kinds of rows among {', '.join(kinds)}, got {method.reads!r}"
    if not _is_name(method.decides):
        yield f"decides: expected the name of a metric, got {method.decides!r}"
    if method.better not in ("lower", "higher"):
        yield f"better: expected lower or higher, got {method.better!r}"
    if not isinstance(method.watch, tuple) or not all(map(_is_name, method.watch)):
        yield f"watch: expected a tuple of names of metrics, got {method.watch!r}"
    for name, member in vars(base).items():
        if isinstance(member, FunctionType | classmethod) and name[0] != "_":
            yield from _wrong_signature(name, getattr(base, name), getattr(method, name))
    yield from _wrong_signature("__init__", base.__init__, method.__init__)


def _wrong_signature(name: str, ours: Any, theirs: Any) -> Iterator[str]:  # noqa: ANN401
    """Yields a fault if a function cannot be called like the one that it overrides."""
    expected = signature(ours)
    try:
        signature(theirs).bind(*expected.parameters)
    except TypeError as error:
        yield f"{name}: expected the parameters {expected}, got others: {error}"


def _is_name(value: object) -> bool:
    return isinstance(value, str) and bool(value) and value.isprintable()


def stages_reading(stage: str) -> list[str]:
    """Returns the stages whose methods learn from the same kinds of rows as that of `stage`.

    Only those that make a model of them are among the others.
    """
    reads = _rows_of(stage)
    makes = {other for other in METHODS if load_method(other).result == "model"} | {stage}
    return [other for other in METHODS if other in makes and _rows_of(other) == reads]


def _rows_of(stage: str) -> set[str]:
    """Returns the kinds of rows that a method learns from; a margin is a part of a row."""
    return set(load_method(stage).reads) - {"margin"}


def config_class(stage: object) -> "type[TrainConfig]":
    """Returns the settings class of a stage; that of the default for an unknown stage."""
    stage_name = stage if isinstance(stage, str) and place_of(stage) else DEFAULT
    model: type[TrainConfig] = load_method(stage_name).config
    return model


def all_fields() -> "dict[str, FieldInfo]":
    """Returns the settings of all methods: the common ones first, then those of single methods."""
    return dict(_fields_of(tuple(METHODS.items())))


@cache
def _fields_of(methods: tuple[tuple[str, str], ...]) -> "dict[str, FieldInfo]":
    """Returns the settings of a table of methods; the help of `train` asks hundreds of times."""
    fields: dict[str, FieldInfo] = {}
    for stage, _ in methods:
        for key, field in config_class(stage).model_fields.items():
            fields.setdefault(key, field)
    return fields


def stages_with(key: str) -> list[str]:
    """Returns the stages whose methods have the setting `key`."""
    return [stage for stage in METHODS if key in config_class(stage).model_fields]

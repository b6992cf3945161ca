"""Every setting is read by the code that trains: one that nothing reads would have no effect."""

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

import zoo.gym
from zoo.gym.config.stages import METHODS, config_class

ROOT = Path(next(iter(zoo.gym.__path__)))
CHECKS = ROOT / "config"
"""What reads settings there checks or describes them."""

HOLDERS = frozenset({"config", "settings", "_settings", "settled"})
"""The names by which code holds the settings; `.seed` of anything else is not the setting."""

IN_CONFIG = {
    "badam_mode": "has the single value layer",
    "double_quantization": "doubles, without which it is done",
    "create_new_adapter": "what is done without adapter_name_or_path; refused beside it",
    "epsilon_high": "upper_epsilon, with epsilon",
    "interleave_probs": "shares, as numbers",
    "use_dora": "dora, with finetuning_type",
}
"""Settings that are read in the room of settings alone, and how they take effect."""


def holder(node: ast.expr) -> str:
    """The name of what an attribute is read of: `config` in `plan.config.seed`."""
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "cast":
        return holder(node.args[-1])
    return node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")


def names_read(sources: Iterable[str]) -> set[str]:
    """Every attribute that code reads of settings; a class of settings reads its own."""
    return {name for source in sources for name in _read(ast.parse(source), HOLDERS)}


def _read(tree: ast.AST, holders: frozenset[str]) -> Iterator[str]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Attribute) and holder(node.value) in holders:
            yield node.attr
        own = isinstance(node, ast.ClassDef) and node.name.endswith(("Config", "Keys"))
        yield from _read(node, holders | {"self"} if own else holders)


def sources() -> list[str]:
    files = [file for file in ROOT.rglob("*.py") if CHECKS not in file.parents]
    return [file.read_text(encoding="utf-8") for file in files]


def fields() -> set[str]:
    return {key for stage in METHODS for key in config_class(stage).model_fields}


@pytest.mark.slow
def test_every_setting_is_read_outside_of_the_settings() -> None:
    assert sorted(fields() - names_read(sources()) - IN_CONFIG.keys()) == []


@pytest.mark.slow
def test_what_takes_effect_in_the_settings_is_read_nowhere_else() -> None:
    read = names_read(sources())
    assert IN_CONFIG.keys() <= fields() - read
    assert {"upper_epsilon", "shares", "dora", "doubles"} <= read


@pytest.mark.parametrize(
    ("source", "read"),
    [
        ("plan.config.seed", True),
        ("cast('PpoConfig', self.plan.config).seed", True),
        ("class OwnConfig:\n    def f(self): return self.seed", True),
        ("class Other:\n    def f(self): return self.seed", False),
        ("spec.seed", False),
        ("seed = 1", False),
    ],
)
def test_a_name_like_that_of_a_setting_is_no_read(source: str, *, read: bool) -> None:
    assert names_read([source]) == ({"seed"} if read else set())

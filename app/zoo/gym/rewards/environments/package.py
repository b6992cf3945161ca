"""Finds reasoning-gym, which the extra `environments` installs."""

import warnings
from difflib import get_close_matches
from importlib.util import find_spec
from typing import Any

from zoo.backends.machine.installing import install_command
from zoo.gym.errors import InputError, NotAvailableError

PACKAGE = "reasoning_gym"
FIELD = "environment"
"""The field of a row with what its environment needs to score an answer."""


def require_package() -> None:
    """Checks that reasoning-gym is installed.

    Raises:
        NotAvailableError: it is not.
    """
    if find_spec(PACKAGE) is None:
        raise NotAvailableError(
            "environments need the package reasoning-gym, which is not installed",
            hint=f"{install_command('environments')}; one of its dependencies needs a compiler",
            code="rewards.missing_package",
        )


def package() -> Any:  # noqa: ANN401 - without types
    """Returns the module of reasoning-gym.

    Raises:
        NotAvailableError: it is not installed.
    """
    require_package()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)  # of its dependency cellpylib
        import reasoning_gym  # pyright: ignore[reportMissingImports]
    module: Any = reasoning_gym
    return module


def dataset(name: str, **options: object) -> Any:  # noqa: ANN401 - without types
    """Returns the tasks of an environment: items with `question`, `answer` and `metadata`.

    Args:
        name: of the environment, such as `chain_sum`.
        options: `seed`, `size`, and those of the environment.

    Raises:
        InputError: there is no such environment, or it refuses an option.
        NotAvailableError: reasoning-gym is not installed.
    """
    module = package()
    names = sorted(module.factory.DATASETS)
    if name not in names:
        near = get_close_matches(name, names, 1)
        raise InputError(
            f"'{name}': no such environment of reasoning-gym",
            hint=f"did you mean {near[0]}?" if near else f"one of: {', '.join(names)}",
            code="rewards.no_such_environment",
        )
    try:
        return module.create_dataset(name, **options)
    except (AssertionError, TypeError, ValueError, KeyError) as error:
        raise InputError(
            f"environment {name}: an option is wrong: {error}", code="rewards.environment_option"
        ) from None

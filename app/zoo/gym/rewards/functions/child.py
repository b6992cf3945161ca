"""The process of a reward function from a file: `python -m zoo.gym.rewards.functions.child`.

Its arguments are the file or the name of a module, the function in it, and the time limit.
"""

import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from zoo.gym.rewards.functions.batch import batch_function
from zoo.gym.rewards.functions.calling import call, caller, further_parameters
from zoo.gym.rewards.functions.sources import Sources
from zoo.gym.rewards.processes.serve import serve


def prepare(
    path: str, name: str, hello: dict[str, object]
) -> Callable[[dict[str, Any]], Mapping[str, object]]:
    """Returns the function that answers requests.

    Args:
        path: the file or the module.
        name: the function in it.
        hello: gets `needs`, the columns that a function of a batch needs; its requests have the
            fields of all `samples`, its replies their `replies`. Of another one it gets `further`,
            see `further_parameters`.

    Raises:
        ValueError: the file cannot be imported, has no such function, or it takes other parameters.
    """
    try:
        module = _import(path)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - code of the user
        raise ValueError(f"importing it raised {type(error).__name__}: {error}") from None
    function = getattr(module, name, None)
    if not callable(function):
        names = [key for key, value in vars(module).items() if callable(value) and key[0] != "_"]
        raise ValueError(f"expected a function {name!r}, got only {', '.join(names) or 'none'}")
    if (batch := batch_function(function)) is not None:
        hello["needs"] = batch.needs
        return lambda request: {"replies": batch.call(request["samples"])}
    prepared = caller(function)
    hello["further"] = further_parameters(function)
    return lambda fields: call(prepared, fields)


def _import(path: str) -> ModuleType:
    """Imports a file, with its folder in the module path as for a script, or a module by name."""
    if not path.endswith(".py"):
        sys.path.insert(0, str(Path.cwd()))
        return importlib.import_module(path)
    file = Path(path)
    sys.path.insert(0, str(file.parent))
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    return module


def main() -> None:
    """Serves the function that the arguments name."""
    path, name, timeout_s = sys.argv[1:]
    hello: dict[str, object] = {}
    serve(lambda: prepare(path, name, hello), float(timeout_s), Sources(path).new, hello)


if __name__ == "__main__":
    main()

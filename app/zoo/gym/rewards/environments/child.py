"""The process of `environment.py`; its argument is the time limit of one answer in seconds."""

import sys
from collections.abc import Callable
from math import isfinite
from typing import Any

from zoo.gym.rewards.environments.package import dataset
from zoo.gym.rewards.environments.rows import score
from zoo.gym.rewards.functions.calling import MOST_REWARD
from zoo.gym.rewards.processes.serve import serve


def prepare() -> Callable[[dict[str, Any]], dict[str, object]]:
    """Returns the function that scores an answer; it keeps the environments it has met."""
    met: dict[str, Any] = {}

    def answer(request: dict[str, Any]) -> dict[str, object]:
        task = request["task"]
        name = task["name"]
        try:
            if name not in met:
                met[name] = dataset(name, seed=0, size=1)
            value = score(met[name], task, request["answer"])
        except Exception as error:  # noqa: BLE001 - the rules of an environment may raise anything
            return {"failed": f"environment {name}: {type(error).__name__}: {error}"[:300]}
        if not isfinite(value) or abs(value) > MOST_REWARD:
            return {"failed": f"environment {name}: gave {value}: expected a finite reward"}
        return {"value": value}

    return answer


if __name__ == "__main__":
    serve(prepare, float(sys.argv[1]))

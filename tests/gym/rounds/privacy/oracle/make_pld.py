"""Makes `pld.json`: the Gaussian mechanism by dp-accounting's privacy loss distributions.

It wants attrs below 24, which our other libraries do not, so it runs in an environment of its own:

    python -m venv /tmp/oracle && /tmp/oracle/bin/pip install dp-accounting==0.6.0
    /tmp/oracle/bin/python tests/gym/rounds/privacy/oracle/make_pld.py
"""

import json
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0, 10.0)
DELTAS = (1e-5, 1e-6, 1e-9)
ROUNDS = (1, 2, 4, 10, 50)
STEP = 1e-4
"""The grid of privacy losses; connected dots are exact on it and close between."""


def distribution(sigma: float) -> Any:
    """Returns the privacy loss of one sum with a sensitivity of 1."""
    pld: Any = import_module("dp_accounting.pld.privacy_loss_distribution")
    return pld.from_gaussian_mechanism(
        sigma, value_discretization_interval=STEP, use_connect_dots=True
    )


def sigma_for(epsilon: float, delta: float) -> float:
    """Returns the smallest sigma that keeps a promise, by bisection."""
    low, high = 0.1, 200.0
    while high / low > 1 + 1e-6:
        middle = (low * high) ** 0.5
        kept = bool(distribution(middle).get_delta_for_epsilon(epsilon) <= delta)
        low, high = (low, middle) if kept else (middle, high)
    return high


def main() -> None:
    """Writes the table beside this script."""
    sigmas = [
        {"epsilon": epsilon, "delta": delta, "sigma": sigma_for(epsilon, delta)}
        for epsilon in EPSILONS
        for delta in DELTAS
    ]
    one = sigma_for(1.0, 1e-6)
    rounds = [
        {
            "rounds": count,
            "delta": 1e-6,
            "sigma": one,
            "epsilon": distribution(one).self_compose(count).get_epsilon_for_delta(1e-6),
        }
        for count in ROUNDS
    ]
    found = {
        "source": f"dp-accounting {version('dp-accounting')}, pld.from_gaussian_mechanism, "
        f"connected dots, grid {STEP:g}",
        "sigmas": sigmas,
        "rounds": rounds,
    }
    path = Path(__file__).with_name("pld.json")
    path.write_text(json.dumps(found, indent=1) + "\n")
    print(path)


if __name__ == "__main__":
    main()

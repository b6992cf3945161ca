"""Rules on packed signs against byzfl and Flower on float32 rows, and on float32 against NumPy.

One process, one thread, CPU seconds. The peers get the same contributions unpacked, 32 times as
many bytes: that is the point of the packed form, and the comparison is of a round's work, not of
kernels. A float32 matrix of 1,000 x 1,000,000 takes 4 GB, and byzfl needs more than twice that:
with 1,000 contributors it gets one of 16 pieces of the columns, and its time is multiplied by 16,
which is to its advantage: a piece fits the caches better.

They are not dependencies (their pins contradict ours): pip install --no-deps --target PEERS
byzfl==0.0.11 flwr==1.42.0; PYTHONPATH=...:PEERS python -m bench rounds. Their modules of rules are
loaded without the packages around them, which need torchvision and more.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib import import_module
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bench.isas import isas
from bench.measure import Case, Skipped, alternated, median_ratio
from zoo.core import (
    hamming,
    krum_order,
    mix_gram,
    nearest,
    sign_gram,
    sign_mean,
    trimmed_mean,
    whole_gram,
)
from zoo.core.isa import Isa
from zoo.gym.rounds.encodings import SignTensor

COLUMNS = 1_000_000
PIECES = {1000: 16, 100: 1}
"""Pieces of the columns of which the peers get one, by the number of contributors."""

BARS = {
    "avx512": {"Krum": ">= 40", "default": ">= 15", "Krum 100": ">= 80"},
    "avx2": {"Krum": ">= 15"},
}

Floats = NDArray[np.float32]


def byzfl_rules() -> Any:  # noqa: ANN401 - a module without types
    """Returns byzfl's module of aggregators, loaded without what its package imports."""
    return _inside("byzfl", "byzfl.aggregators.aggregators")


def flower_rules() -> Any:  # noqa: ANN401
    """Returns Flower's module of aggregation functions; the names it imports are not used here."""
    spec = find_spec("flwr")
    assert spec is not None
    assert spec.origin is not None
    common, proxy = ModuleType("flwr.common"), ModuleType("flwr.server.client_proxy")
    for name in ("FitRes", "NDArray", "NDArrays", "parameters_to_ndarrays"):
        setattr(common, name, Any)
    vars(proxy)["ClientProxy"] = Any
    stubs = {"flwr.common": common, "flwr.server.client_proxy": proxy}
    for name in ("flwr", "flwr.server"):
        stubs[name] = ModuleType(name)
        stubs[name].__path__ = []
    sys.modules.update(stubs)
    path = Path(spec.origin).parent / "server" / "strategy" / "aggregate.py"
    file = spec_from_file_location("flower_aggregate", path)
    assert file is not None
    assert file.loader is not None
    module = module_from_spec(file)
    file.loader.exec_module(module)
    return module


def _inside(package: str, module: str) -> Any:  # noqa: ANN401
    """Imports a module of a package whose own `__init__` is not run."""
    spec = find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    root = Path(spec.origin).parent
    for name in (package, module.rpartition(".")[0]):
        bare = ModuleType(name)
        bare.__path__ = [str(root.joinpath(*name.split(".")[1:]))]
        sys.modules[name] = bare
    return import_module(module)


def signs(n: int) -> SignTensor:
    """Returns random contributions of one tensor."""
    rng = np.random.default_rng(n)
    bits = rng.integers(0, 256, (n, COLUMNS // 8), np.uint8)
    scales = rng.uniform(0.5, 1.5, n).astype(np.float32)
    return SignTensor(list(bits), scales, (1, COLUMNS))


def plain_piece(tensor: SignTensor) -> Floats:
    """Returns a piece of the columns, or all of them, as float32."""
    part = COLUMNS // PIECES[len(tensor.bits)] // 8
    bits = np.stack([row[:part] for row in tensor.bits])
    values = np.unpackbits(bits, axis=1, bitorder="little").astype(np.float32) * 2 - 1
    return values * tensor.scales[:, None]


def ours(tensor: SignTensor, f: int, isa: Isa, *, mixed: bool) -> Floats:
    """A round's work: weights from the contributions, and their mean."""
    n, seats = len(tensor.bits), len(tensor.bits) - f if mixed else 1
    distances = hamming(tensor.bits, COLUMNS, isa=isa, threads=1)
    gram = whole_gram(sign_gram(distances, COLUMNS, tensor.scales))
    chosen = np.eye(n, dtype=np.uint8)
    if mixed:
        chosen = nearest(gram, n - f, threads=1)
        gram = mix_gram(gram, chosen, isa=isa, threads=1)
    order = krum_order(gram, f, threads=1)
    weights = chosen[order[:seats]].sum(axis=0).astype(np.float32)
    return sign_mean(tensor.bits, COLUMNS, tensor.scales, weights=weights, isa=isa, threads=1)


def run() -> Iterator[Case | Skipped]:
    """Yields the cases."""
    torch.set_num_threads(1)
    for name, work in (("byzfl", _against_byzfl), ("flwr", _against_flower)):
        if find_spec(name) is None:
            yield Skipped(f"against {name}", f"{name} is not installed, see bench/round_peers.py")
        else:
            yield from work()
    yield from _dense()


def _against_byzfl() -> Iterator[Case]:
    rules = byzfl_rules()
    for n, f in ((1000, 300), (100, 30)):
        tensor = signs(n)
        rows = torch.from_numpy(plain_piece(tensor))
        works: dict[str, Callable[[], object]] = {
            "byzfl Krum": partial(rules.Krum(f), rows),
            "byzfl Multi-Krum": partial(rules.MultiKrum(f), rows),
        }
        for isa in isas()[:2]:
            works[f"Krum {isa}"] = partial(ours, tensor, f, isa, mixed=False)
            works[f"default {isa}"] = partial(ours, tensor, f, isa, mixed=True)
        rounds = alternated(works, 3)
        for name in works:
            rule, _, isa_name = name.partition(" ")
            if rule == "byzfl":
                continue
            theirs = "byzfl Krum" if rule == "Krum" else "byzfl Multi-Krum"
            ratio = PIECES[n] * median_ratio(rounds, theirs, name)
            bar = BARS.get(isa_name, {}).get(rule, "") if n == 1000 else ""
            yield Case(f"{name} n={n} d=1e6", _middle(rounds, name), "CPU-s", theirs, ratio, bar)


def _against_flower() -> Iterator[Case]:
    rules, n = flower_rules(), 100
    tensor = signs(n)
    rows = plain_piece(tensor)
    results = [([row], 1) for row in rows]
    works: Mapping[str, Callable[[], object]] = {
        "trimmed mean": lambda: trimmed_mean(rows, n // 5, threads=1),
        "Krum": partial(ours, tensor, 30, isas()[0], mixed=False),
        "Flower trimmed mean": lambda: rules.aggregate_trimmed_avg(results, 0.2),
        "Flower Krum": lambda: rules.aggregate_krum(results, 30, 0),
    }
    rounds = alternated(works, 3)
    for name, key in (("trimmed mean", "trimmed mean"), ("Krum", "Krum 100")):
        ratio = PIECES[n] * median_ratio(rounds, f"Flower {name}", name)
        value = _middle(rounds, name)
        bar = BARS.get(isas()[0], {}).get(key, "")
        yield Case(f"{name} n=100 d=1e6", value, "CPU-s", f"Flower {name}", ratio, bar)


def _dense() -> Iterator[Case]:
    rows = np.random.default_rng(0).standard_normal((100, 200_001), np.float32)

    def sort_mean() -> Floats:
        columns = np.ascontiguousarray(rows.T)
        columns.sort(axis=1)
        kept: Floats = columns[:, 20:80].mean(axis=1)
        return kept

    works: Mapping[str, Callable[[], object]] = {
        "NumPy": sort_mean,
        "ours": partial(trimmed_mean, rows, 20, threads=1),
    }
    rounds = alternated(works, 5)
    ratio, value = median_ratio(rounds, "NumPy", "ours"), _middle(rounds, "ours")
    yield Case("f32 trimmed mean n=100", value, "CPU-s", "NumPy sort", ratio, ">= 1.6")


def _middle(rounds: list[dict[str, float]], name: str) -> float:
    return sorted(times[name] for times in rounds)[len(rounds) // 2]

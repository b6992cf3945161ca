"""A network of one hidden layer, 64-128-10, in NumPy: many of them are trained side by side.

Shapes: P networks, B images, D = 9,610 weights. The weights of a network are one vector.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Labels = NDArray[np.int64]

INPUTS, HIDDEN, CLASSES = 64, 128, 10
SHAPES = {
    "hidden.weight": (HIDDEN, INPUTS),
    "hidden.bias": (HIDDEN,),
    "output.weight": (CLASSES, HIDDEN),
    "output.bias": (CLASSES,),
}
"""The tensors, in the order in which a vector has them."""

SIZE = (INPUTS + 1) * HIDDEN + (HIDDEN + 1) * CLASSES
BATCH, MOMENTUM = 16, 0.9


def slices() -> dict[str, slice]:
    """Returns where each tensor lies in a vector."""
    ends = np.cumsum([np.prod(shape) for shape in SHAPES.values()]).tolist()
    return {name: slice(a, b) for name, a, b in zip(SHAPES, [0, *ends], ends, strict=False)}


def random_network(rng: np.random.Generator) -> Floats:
    """Returns the weights of an untrained network, [D]."""
    weights = np.zeros(SIZE, np.float32)
    parts = slices()
    for name, spread in (("hidden.weight", 0.15), ("output.weight", 0.1)):
        part = parts[name]
        weights[part] = spread * rng.standard_normal(part.stop - part.start)
    return weights


def scores(weights: Floats, images: Floats) -> Floats:
    """Returns each class's score, [..., B, 10], of networks [..., D] and images [..., B, 64]."""
    return _forward(weights, images)[1]


def losses(weights: Floats, images: Floats, labels: Labels) -> NDArray[np.float64]:
    """Returns the cross-entropy of each image in nats, [B], for one network."""
    logits = scores(weights, images).astype(np.float64)
    logits -= logits.max(axis=-1, keepdims=True)
    chosen = np.take_along_axis(logits, labels[..., None], axis=-1)[..., 0]
    result: NDArray[np.float64] = np.log(np.exp(logits).sum(axis=-1)) - chosen
    return result


def gradient(weights: Floats, images: Floats, labels: Labels) -> Floats:
    """Returns the gradient of the mean loss, [P, D], of networks [P, D] and images [P, B, 64]."""
    hidden, logits = _forward(weights, images)
    chances = np.exp(logits - logits.max(axis=-1, keepdims=True))
    chances /= chances.sum(axis=-1, keepdims=True)
    chances -= np.eye(CLASSES, dtype=np.float32)[labels]
    chances /= labels.shape[-1]
    back = (chances @ _tensor(weights, "output.weight")) * (hidden > 0)
    parts = {
        "hidden.weight": np.swapaxes(back, -1, -2) @ images,
        "hidden.bias": back.sum(axis=-2),
        "output.weight": np.swapaxes(chances, -1, -2) @ hidden,
        "output.bias": chances.sum(axis=-2),
    }
    count = len(weights)
    return np.concatenate([parts[name].reshape(count, -1) for name in SHAPES], axis=1)


def train(
    start: Floats, images: Floats, labels: Labels, epochs: int, rate: float, seeds: list[int]
) -> Floats:
    """Returns networks trained from `start` by SGD with momentum, [P, D].

    Args:
        start: weights, [D].
        images: each network's own, [P, B, 64].
        labels: [P, B].
        epochs: passes over the images, each in a new order.
        rate: the learning rate.
        seeds: of the order, [P].
    """
    rngs = [np.random.default_rng(seed) for seed in seeds]
    weights = np.repeat(start[None], len(seeds), axis=0)
    moved = np.zeros_like(weights)
    which = np.arange(len(seeds))[:, None]
    for _ in range(epochs):
        order = np.stack([rng.permutation(images.shape[1]) for rng in rngs])
        for at in range(0, images.shape[1], BATCH):
            batch = order[:, at : at + BATCH]
            moved *= MOMENTUM
            moved += gradient(weights, images[which, batch], labels[which, batch])
            weights -= np.float32(rate) * moved
    return weights


def _tensor(weights: Floats, name: str) -> Floats:
    return weights[..., slices()[name]].reshape(*weights.shape[:-1], *SHAPES[name])


def _forward(weights: Floats, images: Floats) -> tuple[Floats, Floats]:
    first = images @ np.swapaxes(_tensor(weights, "hidden.weight"), -1, -2)
    hidden = np.maximum(first + _tensor(weights, "hidden.bias")[..., None, :], 0)
    last = hidden @ np.swapaxes(_tensor(weights, "output.weight"), -1, -2)
    return hidden, last + _tensor(weights, "output.bias")[..., None, :]

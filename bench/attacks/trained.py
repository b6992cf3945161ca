"""Attacks that train on wrong data."""

import numpy as np
from numpy.typing import NDArray

from bench.attacks.view import Attack, View
from bench.digits.images import with_trigger
from bench.digits.setting import TARGET, Examples


def label_flip(view: View) -> NDArray[np.floating]:
    """Trains on labels 9 - d in place of the digit d."""
    images = view.setting.examples.images[: view.f]
    labels = view.setting.examples.labels[: view.f]
    return view.setting.fine_tune(Examples(images, 9 - labels), view.setting.seeds[: view.f])


def backdoor(factor: float) -> Attack:
    """Returns the attack that also trains on images with a trigger, whose label is always 0.

    Args:
        factor: what the delta is multiplied by.
    """

    def attack(view: View) -> NDArray[np.floating]:
        images = view.setting.examples.images[: view.f]
        labels = view.setting.examples.labels[: view.f]
        marked = with_trigger(images.reshape(-1, images.shape[-1])).reshape(images.shape)
        both = np.concatenate([images, marked], axis=1)
        targets = np.concatenate([labels, np.full_like(labels, TARGET)], axis=1)
        return factor * view.setting.fine_tune(Examples(both, targets), [1] * view.f)

    return attack

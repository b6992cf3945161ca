"""Versions of the libraries below us that are older than those we ask for."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from zoo.backends.torch.compat import checkpoint_activations, reads_slices
from zoo.backends.torch.numbers import precision


class Older(nn.Module):
    """A model of a transformers that has only the older name."""

    def gradient_checkpointing_enable(self, options: dict[str, Any]) -> None:
        self.options = options


def test_the_older_name_of_checkpointing_is_found() -> None:
    model = Older()
    checkpoint_activations(model)
    assert model.options == {"use_reentrant": False}


@pytest.mark.parametrize(("version", "expected"), [("4.57.1", False), ("5.0.0", True)])
def test_tensors_stay_unread_where_transformers_can(
    monkeypatch: pytest.MonkeyPatch, version: str, expected: bool
) -> None:
    monkeypatch.setattr("transformers.__version__", version)
    assert reads_slices() is expected


def test_a_torch_without_the_setting_computes_as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    older = SimpleNamespace(is_available=lambda: True)
    monkeypatch.setattr(torch.backends, "mkldnn", older)
    with precision.exact_products(torch.bfloat16, torch.bfloat16):
        assert vars(older).keys() == {"is_available"}

"""Deltas: small files that store the difference between a base model and a fine-tune of it.

The bit-level codecs are in zoo.core. This package has the file format (`file`), the coding of
tensors (`codecs`), readers of models and adapters (`reading`), size estimates (`planning`), and the
commands: create, apply, check, measure. `docs/reference/delta-format.md` specifies the file.
"""

from zoo.gym.config.delta import DeltaConfig
from zoo.gym.delta.apply import AppliedReport, apply_delta
from zoo.gym.delta.check import Check, check_delta
from zoo.gym.delta.create import DeltaReport, Origin, create_delta
from zoo.gym.delta.file.header import DeltaHeader, Quality, recovered
from zoo.gym.delta.file.reader import Delta, load_delta
from zoo.gym.delta.loadable import Loadable, delta_model, tuned_model
from zoo.gym.delta.planning.sizes import dense_bytes, lowrank_bytes
from zoo.gym.delta.progress import Passed, Watch
from zoo.gym.delta.quality import QualityInput, measure_quality
from zoo.gym.delta.random_control import random_signs
from zoo.gym.delta.rebuild import difference
from zoo.gym.delta.summary import as_json, as_text

__all__ = [
    "AppliedReport",
    "Check",
    "Delta",
    "DeltaConfig",
    "DeltaHeader",
    "DeltaReport",
    "Loadable",
    "Origin",
    "Passed",
    "Quality",
    "QualityInput",
    "Watch",
    "apply_delta",
    "as_json",
    "as_text",
    "check_delta",
    "create_delta",
    "delta_model",
    "dense_bytes",
    "difference",
    "load_delta",
    "lowrank_bytes",
    "measure_quality",
    "random_signs",
    "recovered",
    "tuned_model",
]

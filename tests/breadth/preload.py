"""What every child needs, imported once."""

import peft  # noqa: F401
import torch
import transformers.generation
import transformers.modeling_utils  # noqa: F401

import tests.breadth.probe  # noqa: F401
import zoo.backends.torch.backend  # noqa: F401

torch.set_num_threads(1)

"""The import of transformers' models, which takes most of the time of a small run."""

import atexit
import gc
import sys
from importlib import import_module

MODELS = "transformers.modeling_utils"


def import_models() -> None:
    """Imports what every model of transformers needs, without collecting garbage.

    There is none to collect, and the search took a third of the time; the same search at the exit
    of the process took two seconds (docs/log.md).
    """
    if MODELS in sys.modules:
        return
    collects = gc.isenabled()
    gc.disable()
    try:
        import_module(MODELS)
    finally:
        if collects:
            gc.enable()
    atexit.register(gc.freeze)

"""GGUF files as base models: read once, and kept as a model folder under a name.

`parts` opens a file or all parts of a split one, `metadata` reads the values of its header,
`layout` finds the transformers model that it holds, `vocabulary` its tokenizer, `weights` writes
the tensors, `imported` keeps the folders.
"""

from zoo.models.gguf.convert import Imported, import_gguf
from zoo.models.gguf.imported import (
    find_imported,
    imported_folder,
    imported_name,
    imported_names,
)
from zoo.models.gguf.package import fetch_package
from zoo.models.gguf.weights import imported_bytes

__all__ = [
    "Imported",
    "fetch_package",
    "find_imported",
    "import_gguf",
    "imported_bytes",
    "imported_folder",
    "imported_name",
    "imported_names",
]

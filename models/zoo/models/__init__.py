"""The zen family: the registry, finding models on this machine or the hub, and zen-pico."""

from zoo.models.checkpoint_files import checkpoint_files
from zoo.models.hub import cache_folder, cached_ids
from zoo.models.names import family_entry
from zoo.models.registry import PICO, Entry, Geometry, Published, published_names, registry
from zoo.models.resolve import Resolved, pico_folder, resolve

__all__ = [
    "PICO",
    "Entry",
    "Geometry",
    "Published",
    "Resolved",
    "cache_folder",
    "cached_ids",
    "checkpoint_files",
    "family_entry",
    "pico_folder",
    "published_names",
    "registry",
    "resolve",
]

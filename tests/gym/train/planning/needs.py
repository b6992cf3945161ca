"""A small model, and what training its adapter needs, for tests of the memory."""

from zoo.backends.memory import MemoryNeed
from zoo.models.registry import Geometry

SMALL = Geometry(hidden=4, layers=2, heads=2, kv_heads=1, head_dim=3, ffn=5, vocab=10, tied=True)
LORA = MemoryNeed(
    SMALL,
    False,
    2,
    tokens=100,
    evaluation_tokens=0,
    checkpointing=True,
    weight_bytes=2,
    hidden_bytes=2,
)

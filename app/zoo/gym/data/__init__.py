"""Turns files of any known format into rows, tokens, and the loss mask.

`reading` parses files, `rendering` handles chat templates and loss masks; the other modules are
encoding, batches, splits and inspection.
"""

from zoo.gym.data.encode import Encoded, encode_records
from zoo.gym.data.inspection import Inspection, inspect_dataset
from zoo.gym.data.reading.dataset import fingerprint, read_dataset
from zoo.gym.data.records import Call, Dataset, Message, Problem, Record, split_thinking
from zoo.gym.data.rows import EncodeOptions, Think, chat_stops, encode_prompt, require_unicode
from zoo.gym.data.split import Split, split_at_end, split_last, split_records
from zoo.gym.data.tokenizer import Tokenizer, load_tokenizer
from zoo.gym.data.units import Example, Unit, alone, rows_of

__all__ = [
    "Call",
    "Dataset",
    "EncodeOptions",
    "Encoded",
    "Example",
    "Inspection",
    "Message",
    "Problem",
    "Record",
    "Split",
    "Think",
    "Tokenizer",
    "Unit",
    "alone",
    "chat_stops",
    "encode_prompt",
    "encode_records",
    "fingerprint",
    "inspect_dataset",
    "load_tokenizer",
    "read_dataset",
    "require_unicode",
    "rows_of",
    "split_at_end",
    "split_last",
    "split_records",
    "split_thinking",
]

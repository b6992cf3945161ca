"""Measures the causal families of the installed transformers: `python -m tests.breadth [NAME ...]`.

Without names all are measured, and docs/reference/models.md is written anew. Ends with 1 where a
cell says `crash` or `wrong`; their tracebacks go to stderr.
"""

import argparse
import sys

from tests.breadth import families, page
from tests.breadth.run import run


def main() -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.breadth", description=__doc__)
    parser.add_argument("family", nargs="*", help="model types; all if there is none")
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args()
    found = run(given.family or families.names(), given.processes)
    for _, traces in found.values():
        sys.stderr.write(traces)
    if not given.family:
        page.write_page({name: cells for name, (cells, _) in found.items()})
    return int(any(bad(text) for cells, _ in found.values() for text in cells.values()))


def bad(text: str) -> bool:
    """Says whether a cell tells of a defect."""
    return text.startswith(("crash", "wrong"))


if __name__ == "__main__":
    sys.exit(main())

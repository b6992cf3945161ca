"""Reports what this machine can do, for its user and for bug reports.

Each file examines one thing; `examine` collects the results. The self-test runs in a
separate process (`self_test.py`), so a crashing library is reported and does not end the doctor.
Every report goes through `privacy.py`: it contains no paths below the home folder and no tokens.
"""

from zoo.gym.doctor.examine import Report, examine
from zoo.gym.doctor.report import as_json, as_lines

__all__ = ["Report", "as_json", "as_lines", "examine"]

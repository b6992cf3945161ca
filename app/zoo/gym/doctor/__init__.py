"""What this machine can do, told to a person or for a report of a mistake.

Each file examines one thing; `examine` puts them together. Arithmetic happens in a process of its
own (`patient.py`), so that a library that crashes is a finding and not the end of the doctor. What
leaves here went through `privacy.py`: no path below the home folder, no token.
"""

from zoo.gym.doctor.examine import Report, examine
from zoo.gym.doctor.report import as_json, as_lines

__all__ = ["Report", "as_json", "as_lines", "examine"]

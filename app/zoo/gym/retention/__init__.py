"""What a fine-tune forgets: 60 short questions and plain text, measured before and after.

The texts in `texts` are ours. `retain` is the other half: rows that the model answered itself
before training, mixed into a run so that it forgets less.
"""

from zoo.gym.retention.compare import ALARM_SHARE, LEAST_RIGHT, Kept, compare
from zoo.gym.retention.measurement import Measured, measure, text_loss

__all__ = ["ALARM_SHARE", "LEAST_RIGHT", "Kept", "Measured", "compare", "measure", "text_loss"]

"""``torch.amp`` with mixprec's numbers: functions by the rules of the 16-bit recipes, and a scale that stays usable."""

from torch.amp.autocast_mode import is_autocast_available

from ._autocast import autocast
from ._custom_function import custom_bwd, custom_fwd
from ._grad_scaler import GradScaler

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]

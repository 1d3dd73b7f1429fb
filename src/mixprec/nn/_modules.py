"""The module types that a rule can give casts to: a registry from a type to its converted subclass."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import torch
from torch import Tensor, nn

from ._compute_mode import is_active
from ._linear import linear
from ._site import Site


class MixedLinear(nn.Linear):
    """``nn.Linear`` whose three GEMMs take the operands that its site's casts give."""

    _mixprec_base = nn.Linear
    _mixprec_site: Site

    def forward(self, input: Tensor) -> Tensor:
        """``input @ weight.T + bias``, [..., K] to [..., N], under the site's layer precision."""
        state = self._mixprec_site.state
        if state.is_16bit and is_active(state) and not torch.is_autocast_enabled(state.device_type):
            return super().forward(input)  # inside a user's autocast(enabled=False)
        return linear(input, self.weight, self.bias, self._mixprec_site)


#: Converted class by module type; a type is looked up exactly, since a subclass may compute something else.
CONVERTED: Mapping[type[nn.Module], type[nn.Module]] = MappingProxyType({nn.Linear: MixedLinear})

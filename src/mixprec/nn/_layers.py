"""How torch's own layers with a weight multiply. Imported once, for its registrations."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from ._convolution_calls import convolve
from ._dtype_refusals import refuse_dtypes
from ._layer_types import register_layer
from ._site_products import SiteProducts


def _features(module: nn.Linear) -> tuple[int, ...]:
    return module.out_features, module.in_features


@register_layer(nn.Linear, features=_features)
def _linear(module: nn.Linear, products: SiteProducts, input: Tensor) -> Tensor:
    return products.linear(input, module.weight, module.bias)


def _channels(module: nn.Conv1d | nn.Conv2d | nn.Conv3d) -> tuple[int, ...]:
    return module.out_channels, module.in_channels // module.groups


def _conv(module: nn.Conv1d | nn.Conv2d | nn.Conv3d, products: SiteProducts, input: Tensor) -> Tensor:
    padding = module.padding
    if module.padding_mode != "zeros":
        input = F.pad(input, module._reversed_padding_repeated_twice, mode=module.padding_mode)  # pyright: ignore[reportPrivateUsage]
        padding = 0
    geometry = (module.stride, padding, module.dilation, module.groups)
    refuse_dtypes(products.site.name, input, module.weight)
    return convolve(products.site, input, module.weight, module.bias, *geometry)


for _kind in (nn.Conv1d, nn.Conv2d, nn.Conv3d):
    register_layer(_kind, features=_channels)(_conv)

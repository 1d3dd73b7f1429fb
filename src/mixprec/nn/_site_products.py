"""The products of one site, for whoever writes a layer's forward."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from ._attention import AttentionArguments, attention
from ._convolution import convolution
from ._convolution_arguments import ConvolutionArguments
from ._dtype_refusals import refuse_dtypes
from ._linear import linear
from ._matmul import matmul
from ._site import Site
from ._sparse_products import sparse_product, takes_sparse


class SiteProducts:
    """Products whose operands are cast as a site says.

    Attributes:
        site: the layer's.
    """

    def __init__(self, site: Site) -> None:
        self.site = site

    def linear(self, x: Tensor, weight_NK: Tensor, bias_N: Tensor | None = None) -> Tensor:
        """``x @ weight.T + bias``, [..., K] to [..., N]."""
        refuse_dtypes(self.site.name, x.dtype, weight_NK.dtype)
        if takes_sparse((x, weight_NK), {}):
            return sparse_product(self.site.state, F.linear, (x, weight_NK, bias_N), {})
        return linear(x, weight_NK, bias_N, self.site)

    def matmul(self, a: Tensor, b: Tensor) -> Tensor:
        """``torch.matmul(a, b)``; ``a`` has the casts of the input, ``b`` those of the weight."""
        refuse_dtypes(self.site.name, a.dtype, b.dtype)
        return matmul(a, b, self.site)

    def convolution(self, x: Tensor, weight: Tensor, bias: Tensor | None, arguments: ConvolutionArguments) -> Tensor:
        """A convolution of [N, C, ...] or unbatched [C, ...] input."""
        refuse_dtypes(self.site.name, x.dtype, weight.dtype)
        return convolution(x, weight, bias, arguments, self.site)

    def attention(self, q: Tensor, k: Tensor, v: Tensor, arguments: AttentionArguments) -> Tensor:
        """Attention in the casts that rules of type ``qk`` and ``pv`` give it, else in the compute dtype."""
        state = self.site.state
        return attention(q, k, v, arguments, state, qk=state.casts_of("qk"), pv=state.casts_of("pv"))

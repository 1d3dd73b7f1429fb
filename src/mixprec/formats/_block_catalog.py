"""The named block formats, one literal each, and their look-up."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ._block import BlockFormat
from ._names import unknown_name

_OCP = "OCP Microscaling Formats (MX) Specification v1.0, section 5"
_NVFP4 = "NVIDIA, Pretraining Large Language Models with NVFP4, arXiv:2509.25149"

_CATALOG: tuple[BlockFormat, ...] = (
    BlockFormat(name="mxfp8", element="e4m3", block=(1, 32), scale="e8m0", source=_OCP),
    BlockFormat(name="mxfp8-e5m2", element="e5m2", block=(1, 32), scale="e8m0", source=_OCP),
    BlockFormat(name="mxfp6", element="e2m3", block=(1, 32), scale="e8m0", source=_OCP),
    BlockFormat(name="mxfp6-e3m2", element="e3m2", block=(1, 32), scale="e8m0", source=_OCP),
    BlockFormat(name="mxfp4", element="e2m1", block=(1, 32), scale="e8m0", source=_OCP),
    BlockFormat(name="mxint8", element="int8", block=(1, 32), scale="e8m0", source=_OCP),
    BlockFormat(name="nvfp4", element="e2m1", block=(1, 16), scale="e4m3", tensor_scale="fp32", source=_NVFP4),
    BlockFormat(name="nvfp4-2d", element="e2m1", block=(16, 16), scale="e4m3", tensor_scale="fp32", source=_NVFP4),
)

BLOCK_FORMATS: Mapping[str, BlockFormat] = MappingProxyType({block.name: block for block in _CATALOG})
"""Every named block format, in catalog order, without the aliases."""

BLOCK_ALIASES: Mapping[str, str] = MappingProxyType({"mxfp8-e4m3": "mxfp8", "mxfp6-e2m3": "mxfp6"})
"""Other names of block formats, and the name in ``BLOCK_FORMATS`` that each stands for."""


def get_block_format(name: str) -> BlockFormat:
    """Look up a block format.

    Args:
        name: a name of ``BLOCK_FORMATS`` or ``BLOCK_ALIASES``.

    Returns:
        The block format.

    Raises:
        ValueError: there is none of that name.

    Example:
        >>> get_block_format("mxfp6-e2m3").element
        'e2m3'
    """
    block = BLOCK_FORMATS.get(BLOCK_ALIASES.get(name, name))
    if block is None:
        raise unknown_name("block format", name, [*BLOCK_FORMATS, *BLOCK_ALIASES])
    return block

"""The three GEMMs as one autograd function, and the conversion of a model to it."""

from . import _layers as _layers  # registers torch's own layers
from ._attention import AttentionArguments
from ._audit import Audit, AuditRow
from ._autograd import is_in_backward
from ._convert import Conversion, conversion_of, convert
from ._convolution_arguments import ConvolutionGeometry, ConvolutionSize
from ._device import native_here
from ._function_region import FunctionMode, is_ruled
from ._layer_types import is_converted_layer, register_layer
from ._module_stack import ROOT, ModuleStack
from ._node_origins import NodeOrigins, tensors_of
from ._operand_watch import OperandWatch, SeenOperand
from ._passes_aside import passes_aside
from ._product_watch import ProductWatch, SeenProduct
from ._resolve import is_without_session, resolve
from ._standalone import StandaloneProducts
from ._uncompiled import has_compiled_parts, uncompiled
from ._uneven_blocks import uneven_blocks

__all__ = [
    "ROOT",
    "AttentionArguments",
    "Audit",
    "AuditRow",
    "Conversion",
    "ConvolutionGeometry",
    "ConvolutionSize",
    "FunctionMode",
    "ModuleStack",
    "NodeOrigins",
    "OperandWatch",
    "ProductWatch",
    "SeenOperand",
    "SeenProduct",
    "StandaloneProducts",
    "conversion_of",
    "convert",
    "has_compiled_parts",
    "is_converted_layer",
    "is_in_backward",
    "is_ruled",
    "is_without_session",
    "native_here",
    "passes_aside",
    "register_layer",
    "resolve",
    "tensors_of",
    "uncompiled",
    "uneven_blocks",
]

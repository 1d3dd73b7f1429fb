"""The three GEMMs as one autograd function, and the conversion of a model to it."""

from . import _layers as _layers  # registers torch's own layers
from ._attention import AttentionArguments
from ._audit import Audit, AuditRow
from ._autograd import is_in_backward
from ._convert import Conversion, conversion_of, convert
from ._convolution_arguments import ConvolutionGeometry, ConvolutionSize
from ._device import native_here
from ._flop_counts import flops_of
from ._function_region import FunctionMode, is_ruled
from ._function_sites import layer_at
from ._layer_types import is_converted_layer, is_layer_type, register_layer
from ._matching import structure_of
from ._module_stack import ROOT, ModuleStack
from ._multihead import projections_of
from ._node_origins import NodeOrigins, next_number, running_number, tensors_of
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
    "flops_of",
    "has_compiled_parts",
    "is_converted_layer",
    "is_in_backward",
    "is_layer_type",
    "is_ruled",
    "is_without_session",
    "layer_at",
    "native_here",
    "next_number",
    "passes_aside",
    "projections_of",
    "register_layer",
    "resolve",
    "running_number",
    "structure_of",
    "tensors_of",
    "uncompiled",
    "uneven_blocks",
]

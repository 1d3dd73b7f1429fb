"""What is looked for in a step: one detector for each kind of trouble, asked in this order."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from .._setting import Setting
from ._accumulators import AccumulatorDetector
from ._bounds import BoundDetector
from ._constants import ConstantDetector
from ._conversions import ConversionDetector
from ._counted import CountedDetector
from ._coverage import CoverageDetector
from ._custom_functions import CustomFunctionDetector
from ._detector import Detector, Step
from ._gradients import GradientDetector
from ._laundering import LaunderingDetector
from ._masks import MaskDetector
from ._probabilities import ProbabilityDetector
from ._ranges import RangeDetector
from ._stored_tables import StoredTableDetector
from ._tables import TableDetector
from ._weights import WeightDetector

#: Detectors by name. The first that finds something in an operation ends the asking: special kinds stand before
#: the general one, what leaves its range.
DETECTORS: Mapping[str, Callable[[Setting], Detector]] = MappingProxyType(
    {
        "probabilities": ProbabilityDetector,
        "masks": MaskDetector,
        "accumulators": AccumulatorDetector,
        "constants": ConstantDetector,
        "bounds": BoundDetector,
        "counted": CountedDetector,
        "tables": TableDetector,
        "stored tables": StoredTableDetector,
        "conversions": ConversionDetector,
        "custom functions": CustomFunctionDetector,
        "laundering": LaunderingDetector,
        "ranges": RangeDetector,
        "weights": WeightDetector,
        "gradients": GradientDetector,
        "coverage": CoverageDetector,
    }
)

__all__ = ["DETECTORS", "Detector", "Step"]

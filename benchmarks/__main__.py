"""All benchmarks."""

from . import kernels

kernels.main()

"""All benchmarks."""

from . import kernels, training_step

kernels.main()
training_step.main()

"""All benchmarks."""

from . import convolution_step, kernels, training_step

kernels.main()
training_step.main()
convolution_step.main()

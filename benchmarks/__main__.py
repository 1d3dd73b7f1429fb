"""All benchmarks."""

from . import convolution_step, kernels, monitor_overhead, optimizer_step, statistics, training_step

kernels.main()
statistics.main()
optimizer_step.main()
training_step.main()
convolution_step.main()
monitor_overhead.main()

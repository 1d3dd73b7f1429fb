"""All benchmarks."""

<<<<<<< HEAD
from . import convolution_step, kernels, monitor_overhead, optimizer_step, training_step
=======
from . import convolution_step, kernels, optimizer_step, statistics, training_step
>>>>>>> kernstats

kernels.main()
statistics.main()
optimizer_step.main()
training_step.main()
convolution_step.main()
monitor_overhead.main()

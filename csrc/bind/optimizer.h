// The part of the Python module for an optimizer's step.
#pragma once

#include <nanobind/nanobind.h>

void bind_optimizer(nanobind::module_& m);

"""One contract for rounding tensors, and its backends."""

"""mixprec: train any PyTorch model in the lowest precision that it can stand."""

"""What the parts cost, beside their peers."""

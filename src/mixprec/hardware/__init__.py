"""What machines exist: rate per format, bandwidth and memory, each with its source."""

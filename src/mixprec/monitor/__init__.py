"""What watches a run: sampling, the first bad tensor, exporters."""

"""Reads run directories: metrics, theory and the report."""

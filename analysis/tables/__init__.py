"""Tables of a trial in Parquet, read with bounds: samples, queues and transfers."""

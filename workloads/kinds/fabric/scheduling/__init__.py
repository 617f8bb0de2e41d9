"""What becomes of a batch of updates: MLfabric's algorithms, pure."""

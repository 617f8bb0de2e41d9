"""MLfabric's algorithms that schedule a batch of updates; pure."""

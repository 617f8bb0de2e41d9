"""MLfabric: a scheduler orders, aggregates, replicates and drops the updates of an asynchronous trial."""

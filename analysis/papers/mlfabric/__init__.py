"""MLfabric (Viswanathan, Akella, 2019): claims, a module for those that are measured alike."""

"""A network of namespaces: what to build, how it is built and changed, and what its links do to packets."""

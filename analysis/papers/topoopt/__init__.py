"""TopoOpt (Wang et al., NSDI 2023): its claims, and what measures and decides them here."""

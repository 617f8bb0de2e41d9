"""The claims of TopoOpt (Wang et al., NSDI 2023)."""

from __future__ import annotations

from analysis.papers.claim import Claim, Paper
from analysis.papers.topoopt.cost import costs
from analysis.papers.topoopt.degrees import DEGREES, degrees
from analysis.papers.topoopt.hops import hops
from analysis.papers.topoopt.permutations import permutations

PAPER = Paper(
    "topoopt",
    "TopoOpt: network topology and parallelisation found together (Wang et al., NSDI 2023)",
    (
        Claim(
            "topo.perms",
            "12 servers have the ring permutations 1, 5, 7 and 11. For DLRM on 16 servers with six interfaces, three "
            "rings carry the AllReduce, of strides 1, 3 and 7.",
            "sections 2.2 and 3.3, algorithms 2 and 3, figure 9",
            permutations,
            (),
            (
                "An AllReduce transfer is what a server sends around all rings, 4 GiB; activations are Appendix B's, "
                "32 MiB a server.",
            ),
        ),
        Claim(
            "topo.cost",
            "An ideal fat-tree costs 3.4 times TopoOpt with patch panels, and optical circuit switches 1.33 times "
            "patch panels.",
            "section 5.2, table 3 and figure 11",
            costs,
        ),
        Claim(
            "topo.three_hops",
            "In a cluster of 432 servers with eight interfaces each, most servers are at most three hops away; a "
            "fat-tree has up to six hops.",
            "section 5.4",
            hops,
        ),
        Claim(
            "topo.fig16",
            "Synchronisation takes less time with more interfaces, almost in proportion where a job is data parallel.",
            "section 5.5, figure 16",
            degrees,
            (DEGREES,),
            ("22 servers, the fewest that have five rings; links have a two-hundredth of the paper's 100 Gbit/s.",),
        ),
    ),
    prefix="topo",
)

"""Durations of the experiments of claims, guessed before anything has run: by spec, quick and full (s).

A guess plays the beginnings of trials and searches for strategies, which takes 15 s of a core for all of them. So
``testbed reproduce --list`` reads them here, and a test holds them against the specs.
"""

from __future__ import annotations

from collections.abc import Mapping

DURATIONS_S: Mapping[str, tuple[float | None, float]] = {
    "bml/gst.yaml": (46.8, 133.0),
    "bml/figure5.yaml": (76.2, 230.4),
    "bml/lenet5.yaml": (115.0, 2437.0),
    "bml/vgg19.yaml": (93.2, 1534.4),
    "rina/chain.yaml": (27.9, 142.5),
    "rina/figure10.yaml": (38.8, 278.0),
    "rina/figure12_vgg16.yaml": (60.4, 527.2),
    "rina/figure12_resnet50.yaml": (33.7, 209.3),
    "plink/probe.yaml": (136.4, 671.8),
    "plink/grouping.yaml": (503.3, 6498.6),
    "plink/k.yaml": (27.5, 261.4),
    "plink/switch.yaml": (47.2, 225.8),
    "plink/autotune.yaml": (114.1, 231.9),
    "collectives/reorder.yaml": (324.5, 1612.7),
    "collectives/orders.yaml": (124.5, 3508.2),
    "collectives/spearman.yaml": (172.0, 1436.4),
    "collectives/lightgbm.yaml": (182.6, 1212.8),
    "collectives/script.yaml": (280.0, 1389.9),
    "collectives/alexnet.yaml": (114.3, 561.3),
    "mlfabric/plan.yaml": (34.2, 297.8),
    "mlfabric/table2.yaml": (147.9, 1861.6),
    "mlfabric/table2_accuracy.yaml": (None, 1991.1),
    "mlfabric/delay.yaml": (89.7, 3698.8),
    "mlfabric/sync.yaml": (53.9, 775.0),
    "mlfabric/sync_resnet152.yaml": (69.3, 1650.6),
    "mlfabric/replication.yaml": (121.2, 947.5),
    "mlfabric/replica.yaml": (45.0, 1029.7),
    "mlfabric/lag.yaml": (74.1, 1279.1),
    "mlfabric/lda.yaml": (62.8, 1793.4),
    "mlfabric/failover.yaml": (40.8, 1916.8),
    "topoopt/perms_allreduce.yaml": (20.8, 347.5),
    "topoopt/perms.yaml": (47.1, 1755.3),
    "topoopt/perms_candle.yaml": (25.7, 623.3),
    "topoopt/dlrm.yaml": (31.9, 858.6),
    "topoopt/figure12.yaml": (100.5, 1743.7),
    "topoopt/figure12_d8.yaml": (49.5, 770.0),
    "topoopt/figure12_dlrm.yaml": (43.3, 629.7),
    "topoopt/figure16_candle.yaml": (67.3, 1750.8),
    "topoopt/figure16_dlrm.yaml": (71.3, 1882.5),
    "topoopt/figure18_resnet50.yaml": (17.6, 268.4),
    "topoopt/figure18_bert.yaml": (14.7, 197.1),
    "topoopt/figure18_candle.yaml": (40.2, 834.1),
    "topoopt/figure14.yaml": (66.3, 975.6),
    "topoopt/figure15.yaml": (16.8, 144.9),
    "topoopt/look_ahead.yaml": (79.5, 410.6),
    "topoopt/figure19.yaml": (42.0, 1357.3),
    "topoopt/figure16.yaml": (36.7, 730.4),
}

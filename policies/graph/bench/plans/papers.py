# SPDX-License-Identifier: BSD-3-Clause
"""What papers published for some of these graphs, beside the answers here."""


class Published:
    def __init__(self, paper, what, ratio, ours, same, different):
        self.paper, self.what, self.ratio, self.ours, self.same, self.different = paper, what, ratio, ours, same, different


def _find(plans, graph, devices, bandwidth, asked):
    return next((r for r in plans if (r.graph, r.devices, r.bandwidth, r.asked, r.long) == (graph, devices, bandwidth, asked, 0)), None)


def _over_data_parallel(graph, networks):
    """Throughput of `hierarchical` over plain data parallelism."""
    def ours(plans):
        found = [_find(plans, graph, devices, bandwidth, "hierarchical") for devices, bandwidth in networks]
        return ", ".join(f"{r.data_parallel_ns / r.load_ns:.2f} ({r.devices})" for r in found if r)
    return ours


def _milliseconds(graph, asked):
    def ours(plans):
        row = _find(plans, graph, "own", "own", asked)
        return f"{row.load_ns / 1e6:.4f}" if row else ""
    return ours


def _largest(ratio):
    """Of all plans with links of PipeDream's profiles the one with the largest ratio."""
    def ours(plans):
        found = [(ratio(plans, r), r) for r in plans if r.has_links and r.source == "pipedream" and not r.long]
        most, row = max(((x, r) for x, r in found if x), key=lambda pair: pair[0], default=(0, None))
        return f"at most {most:.2f} ({row.graph}, {row.devices}, {row.bandwidth} GB/s, `{row.asked}`)" if row else ""
    return ours


def _over_replicas(_, row):
    return row.data_parallel_ns / row.load_ns


def _over_hierarchical(plans, row):
    """By simulated iterations, which synchronous training goes by; of as many microbatches of the same size."""
    base = _find(plans, row.graph, row.devices, row.bandwidth, "hierarchical")
    if not base or not base.iteration_ns or not row.iteration_ns or base.iteration_of != row.iteration_of:
        return None
    return base.iteration_ns / row.iteration_ns


PIPEDREAM = "PipeDream, SOSP 2019"
ITS_PROFILES = "the planner's program; its profiles; machines of as many devices"
NOT_MEASURED = "the paper: time until an accuracy, on V100; here: a microbatch of the plan, transfers and gradients as hierarchical.h has them"
TARNAWSKI = "Tarnawski et al., NeurIPS 2020"
ITS_PROGRAM = "the graph, the objective, devices and memory of the file"


def _tarnawski():
    """Loads in ms that the released program printed: over all ideals, and over one order."""
    known = {"LayerGraphs-bert24_inference": (17.7899, 17.7899), "LayerGraphs-bert24_training": (41.7458, 41.7458),
             "LayerGraphs-gnmt_inference": (32.9107, 33.033), "LayerGraphs-gnmt_training": (107.0044, 107.0044),
             "LayerGraphs-resnet50_inference": (33.7747, 33.7747), "LayerGraphs-resnet50_training": (78.6318, 78.6498),
             "OperatorGraphs-bert_l-3_inference": (27.9186, 27.9186), "OperatorGraphs-bert_l-3_training": (65.3031, 65.3031),
             "OperatorGraphs-resnet50_inference": (124.3488, 124.3488), "LayerGraphs-inceptionv3_training": (None, 123.9301)}
    for graph, (exact, line) in known.items():
        if exact:
            yield Published(TARNAWSKI, f"{graph}, exact, ms", f"{exact}", _milliseconds(graph, "exact"), ITS_PROGRAM, "nothing")
        yield Published(TARNAWSKI, f"{graph}, one order, ms", f"{line}", _milliseconds(graph, "line"), ITS_PROGRAM,
                        "`line` cuts many orders, and moves units")


ALL = [
    Published(PIPEDREAM, "VGG-16, 4x4, over data parallelism", "5.28", _over_data_parallel("vgg16", [("4x4", "12,1.25")]), ITS_PROFILES,
              NOT_MEASURED),
    Published(PIPEDREAM, "VGG-16, 8x2, over data parallelism", "2.46", _over_data_parallel("vgg16", [("8x2", "100,12")]), ITS_PROFILES,
              NOT_MEASURED + "; the paper's links between machines are slower (25 Gbit/s)"),
    Published(PIPEDREAM, "AlexNet, 4x4 and 8x2, over data parallelism", "4.92, 2.04",
              _over_data_parallel("alexnet", [("4x4", "12,1.25"), ("8x2", "100,12")]), ITS_PROFILES, NOT_MEASURED),
    Published(PIPEDREAM, "ResNet-50, 4x4 and 8x2, over data parallelism", "1, 1",
              _over_data_parallel("resnet50", [("4x4", "12,1.25"), ("8x2", "100,12")]), ITS_PROFILES, NOT_MEASURED),
    Published(PIPEDREAM, "GNMT, over data parallelism", "2.34 to 3.14", _over_data_parallel("gnmt", [("4x4", "12,1.25"), ("8x2", "100,12")]),
              ITS_PROFILES, NOT_MEASURED + "; its network has 16 layers, this profile is the smaller one"),
    *_tarnawski(),
    Published("DRL-PP, submitted to ICLR 2024", "over data parallelism", "at most 6.8", _largest(_over_replicas),
              "image networks and one for translation among them", "its devices, profiles and planner are not published; here: plans of any"
              " planner with replicas, transfers and gradients counted"),
    Published("DRL-PP, submitted to ICLR 2024", "over PipeDream's plans", "at most 1.3", _largest(_over_hierarchical),
              "PipeDream's objective and profiles", "its devices and planner are not published; here: simulated iterations of 1F1B of any planner's"
              " plan, over those of `hierarchical`"),
]
UNPUBLISHED = ("PipeDream-2BW and Alpa published no ratio for these networks: their models are GPT, BERT, MoE and Wide-ResNet, which they did "
               "not release as graphs.")


def table(plans):
    """[(paper, what, published, here, the same, not the same)] of what was asked."""
    out = []
    for p in ALL:
        ours = p.ours(plans)
        if ours:
            out.append((p.paper, p.what, p.ratio, ours, p.same, p.different))
    return out

/* SPDX-License-Identifier: BSD-3-Clause */
/* A plan of a graph: which nodes on which stage, on how many devices, and what each device then does.
 * Every plan that comes out of here passed dp_graph_check(), and its loads are those of
 * dp_graph_loads(), not those that the planner believes in. */
#ifndef DP_POLICIES_GRAPH_PLAN_H
#define DP_POLICIES_GRAPH_PLAN_H

#include "policies/graph/graph.h"
#include "policies/graph/source.h"

/* All algorithms, a line each: --algorithm, its help, errors and TAB have their names from here. */
#define DP_PLAN_ALGORITHMS(A)                                                                                  \
    A(AUTO, "auto", "hierarchical for a profile; else exact, or line where that is too much")                  \
    A(EXACT, "exact", "max-load over all cuts of the graph")                                                   \
    A(LINE, "line", "max-load over cuts of single orders of it, many of them")                                 \
    A(RANDOM, "random", "likewise, of orders by chance: to compare with")                                      \
    A(ANNEAL, "anneal", "likewise, and moves that cool down: to compare with")                                 \
    A(GENETIC, "genetic", "likewise, of orders that are bred: to compare with")                                \
    A(LEARNED, "learned", "likewise, of orders by networks (--weights), and moves in the best plans")            \
    A(DRL_PP, "drl-pp", "DRL-PP: a network (--weights) cuts and places by itself: to compare with")             \
    A(HIERARCHICAL, "hierarchical", "PipeDream: stages with replicas, networks with levels; profiles only") \
    A(2BW, "2bw", "PipeDream-2BW: stages of equal width, with recomputation or without; profiles only")         \
    A(ALPA, "alpa", "Alpa between operators: the least iteration of stages on submeshes; profiles only")        \
    A(DAPPLE, "dapple", "DAPPLE: the least latency of an iteration by its pivot stage, with replicas; profiles only") \
    A(PIPER, "piper", "Piper: stages with replicas, a way to run each layer within the memory; profiles only") \
    A(CLASSES, "classes", "stages with replicas of one class of devices (--devices=8xa100,8xt4); profiles only") \
    A(HETPIPE, "hetpipe", "HetPipe: virtual workers with devices of several classes, side by side; profiles only")

#define DP_PLAN_ENUM(ID, name, help) DP_PLAN_##ID,
enum dp_plan_algorithm { DP_PLAN_ALGORITHMS(DP_PLAN_ENUM) DP_PLAN_N };
#undef DP_PLAN_ENUM

/* How far a long search is, so that its caller can say so, or end it. */
struct dp_plan_watch {
    /* Asked now and then. searched: share of the search, best_ns: of the best plan so far, 0: none; bound_ns: no plan is
     * faster. returns: go on? Else the best so far is the answer, and called optimal only where it reaches the bound. */
    bool (*go_on)(void *arg, double searched, uint64_t best_ns, uint64_t bound_ns);
    void *arg;
};

/* What a lower bound comes from. */
enum dp_plan_bound {
    DP_PLAN_BOUND_WORK,  /* all work spread over the devices without loss */
    DP_PLAN_BOUND_UNIT,  /* what cannot be split and takes longest to compute */
    DP_PLAN_BOUND_STAGE, /* every stage that holds bound_node, its traffic included */
    DP_PLAN_BOUND_COUNT, /* with less to do each there would have to be more stages, their traffic included */
};

struct dp_graph_stage {
    bool is_cpu;
    uint32_t accelerator; /* max-load, where speeds differ: which one, from 0 */
    uint32_t device_class; /* classes: of its devices, from 0 (classes/classes.h) */
    uint32_t group;    /* hierarchical, two levels: stages of one group share machines */
    uint32_t machines; /* hierarchical, two levels: how many; else 1 */
    uint32_t
        replicas; /* devices that hold the stage, on all machines, each for its share of the microbatches */
    uint64_t compute_ns; /* of one microbatch on one device */
    uint64_t traffic_ns; /* activations and gradients to and from other stages */
    uint64_t sync_ns;    /* gradients among replicas */
    uint64_t load_ns;    /* time between two microbatches that this stage allows */
    uint64_t bytes; /* state, and what is kept of the microbatches under way */
};

struct dp_graph_plan {
    enum dp_plan_algorithm algorithm; /* never AUTO */
    uint32_t n_stages, n_devices;     /* devices that have work */
    struct dp_graph_stage *stage;     /* [n_stages] along the pipeline */
    uint32_t *stage_of;               /* [n_nodes] */
    uint32_t *way_of;                 /* [n_nodes] piper: how each node runs, for dp_graph_take_ways(); NULL: as it is in the graph */
    uint64_t load_ns;                 /* of the slowest stage: time of a microbatch in steady state */
    uint64_t bound_ns;                /* no plan of this kind is faster */
    enum dp_plan_bound bound_by;
    uint32_t bound_node;              /* where BOUND_STAGE has a node; else 0 */
    bool is_optimal;                  /* of all plans of this kind none is better */
    bool was_ended;                   /* by the watch, before all was searched */
    uint64_t single_ns;               /* everything on one device, the fastest, whatever its memory */
    uint64_t data_parallel_ns;        /* every device holds everything; 0: cannot be said */
    uint64_t objective_ns;            /* what a planner of papers/ minimises; 0: load_ns */
    bool recomputes;                  /* each stage goes forward again before it goes back, and keeps its inputs only */
    uint32_t more_weights;            /* versions of the weights that are kept besides the newest one */
    uint32_t microbatch;              /* microbatches of the file in one of the plan; 0 or 1: as the file has them */
    uint64_t line_ns;                 /* best answer over a few orders (line.h); 0: not looked for, or none fits */
    uint32_t n_orders;                /* that were cut, those of the search included; DRL_PP: placements that were tried */
    uint32_t n_learned;               /* of them: those of the source */
    uint64_t learned_ns;              /* the best of these, before units moved; 0: none was cut, or none within what others had */
    uint32_t n_units, n_ideals;       /* n_ideals 0: too many to list */
    uint64_t steps;                   /* of the search */
    char why[256];                    /* a line */
};

struct dp_plan_maxload {
    enum dp_plan_algorithm algorithm; /* any but HIERARCHICAL */
    uint32_t n_accel, n_cpus;
    const double *speed;  /* [n_accel] > 0, of accelerators in the order of the pipeline; NULL: all 1 */
    uint64_t accel_bytes; /* UINT64_MAX: no limit */
    uint32_t max_ideals;  /* 0: DP_IDEALS_CAP */
    uint64_t max_steps;   /* 0: a few minutes of one core; exact gives up beyond it */
    const struct dp_plan_watch *watch; /* NULL: nobody */
    bool is_lean; /* in the least memory, whatever the size (lean.h); the same load */
    uint64_t seed;         /* of the search for orders (search/search.h) */
    uint64_t search_steps; /* of it; 0: a part of a second, UINT64_MAX: until the watch ends it */
    const struct dp_order_source *source; /* of orders for the search, which LEARNED needs; NULL: rules alone */
    const struct dp_place_source *placer; /* DRL_PP alone, which takes equal accelerators only */
};

/* g: finished, with its bandwidth set where it is a profile. *out is the caller's to release, whatever
 * comes back. returns 0, or -1: DP_EINVAL (the question), DP_ENOMEM (nothing fits into the devices'
 * memory, or EXACT was asked for and is too much). */
int dp_plan_maxload_find(const struct dp_graph *g, const struct dp_plan_maxload *ask, struct dp_graph_plan *out,
                         struct dp_err *err);
void dp_graph_plan_release(struct dp_graph_plan *p);

/* Loads of such a plan from the graph, the accelerators' speeds (NULL: all 1) and the plan's stage_of, is_cpu and
 * accelerator alone: sets the times and bytes of its stages and load_ns. returns 0, or -1: DP_ENOMEM, or what only a CPU
 * can run is on an accelerator. */
int dp_plan_maxload_evaluate(const struct dp_graph *g, const double *speed, struct dp_graph_plan *p, struct dp_err *err);

/* Have plans of this algorithm stages with replicas, and transfers that go over links, as hierarchical.h has them? Else
 * transfers take time of the devices, as maxload.h has it. */
bool dp_plan_has_links(enum dp_plan_algorithm a);

/* What takes so long at speed 1, rounded up. */
uint64_t dp_plan_time_ns(uint64_t ns, double speed);

/* As --algorithm has it; and in a few words. */
const char *dp_plan_algorithm_name(enum dp_plan_algorithm a);
const char *dp_plan_algorithm_help(enum dp_plan_algorithm a);
/* "work", "unit", "stage" or "count". */
const char *dp_plan_bound_name(enum dp_plan_bound b);
/* returns 0 and *out, or -1 with an error that lists the names. */
int dp_plan_algorithm_find(const char *name, enum dp_plan_algorithm *out, struct dp_err *err);

#endif

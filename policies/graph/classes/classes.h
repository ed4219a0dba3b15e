/* SPDX-License-Identifier: BSD-3-Clause */
/* Plans for devices of several classes that differ in speed, memory and links: a pipeline whose stages have replicas of one class.
 *
 *   load(stage) = max of  (compute / speed + sync) / r,  in / (link r),  out / (link r)
 *
 *   r        its replicas, all of one class
 *   sync     hierarchical.h's, over links of the class
 *   in, out  bytes that cross the cuts before and behind the stage, each output once; both directions at the same time
 *   link     of a device of the class; where the stage on the other side is of another class, no more than what passes
 *            between classes
 *
 * A link is a device's own, so that two slow receivers take what one fast sender puts out. Compute is that of a device of speed
 * 1. Memory is that of hierarchical's evaluate.c: state, and what microbatches under way keep, ceil(devices behind / r) + 1 of them.
 *
 * The program on one order of the units is exact: its state is a cut, how many devices of each class lie behind it, the class of
 * the stage behind it, and whether the stage before it is of the same class. */
#ifndef DP_POLICIES_GRAPH_CLASSES_CLASSES_H
#define DP_POLICIES_GRAPH_CLASSES_CLASSES_H

#include "policies/graph/hierarchical/hierarchical.h"

#define DP_CLASSES_MOST 8u       /* classes */
#define DP_CLASSES_NAME 64       /* bytes of a name, with its NUL */
#define DP_CLASSES_DEVICES 65535u /* of all classes together */
#define DP_CLASSES_MAX_FILE (1u << 16) /* bytes */

struct dp_device_class {
    char name[DP_CLASSES_NAME];
    uint32_t devices;     /* >= 1 */
    double speed;         /* 1e-6..1e6; 1: times are those of the graph */
    double bytes_per_s;   /* of a device's link, each way; > 0 */
    uint64_t accel_bytes; /* UINT64_MAX: no limit */
};

struct dp_classes {
    uint32_t n;                 /* 1..DP_CLASSES_MOST; 0: devices are alike */
    double between_bytes_per_s; /* of a device's link to another class, at most; > 0 */
    struct dp_device_class of[DP_CLASSES_MOST];
};

/* Does --devices mean classes? A name behind an 'x', or a path. */
bool dp_classes_is_text(const char *text);
/* "8xa100,8xt4": devices of each class and its name. *out: speeds are 1, links 0 and memories without limit: the caller's to
 * fill in. returns 0 or -1 (DP_EINVAL). */
int dp_classes_parse_text(const char *text, struct dp_classes *out, struct dp_err *err);
/* A file that says everything, JSON:
 *   {"format": "dynpipe classes", "version": 1, "between_bytes_per_s": 1.25e9,
 *    "classes": [{"name": "a100", "devices": 8, "speed": 1, "bytes_per_s": 12e9, "memory_bytes": 80e9}, ...]}
 * memory_bytes may be missing: no limit. returns 0 or -1: DP_EIO, DP_EINVAL with the place in the file, DP_ENOMEM. */
int dp_classes_read(const char *path, struct dp_classes *out, struct dp_err *err);
/* The same from memory; `name` stands for the file in messages. */
int dp_classes_parse(const char *name, const char *text, size_t bytes, struct dp_classes *out, struct dp_err *err);

/* Devices of all classes. */
uint32_t dp_classes_devices(const struct dp_classes *c);
/* Devices of speed 1 that could do as much. */
double dp_classes_speed(const struct dp_classes *c);
/* What passes on a link of a device of class a whose other end is of class b. */
double dp_classes_link(const struct dp_classes *c, uint32_t a, uint32_t b);
/* No plan of these units is faster: all compute spread over all devices without loss, or the dearest unit on as many devices of a class
 * as serve it best (all of them, or one). microbatches: of an iteration. by: = which. */
uint64_t dp_classes_bound_ns(const struct dp_classes *c, const struct dp_plan_hierarchical *net, const struct dp_graph *g,
                             const struct dp_units *u, enum dp_plan_bound *by);

/* Loads of a plan by the formula above, from the graph and the plan's stage_of, replicas and device_class alone: sets the times and
 * bytes of its stages and load_ns. net: its microbatches (>= 1); nothing else of it counts. returns 0 or -1 (DP_ENOMEM). */
int dp_classes_evaluate(const struct dp_graph *g, const struct dp_classes *classes, const struct dp_plan_hierarchical *net,
                        struct dp_graph_plan *p, struct dp_err *err);

#endif

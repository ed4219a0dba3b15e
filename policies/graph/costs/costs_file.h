/* SPDX-License-Identifier: BSD-3-Clause */
/* Files of estimates, JSON both: coefficients (struct dp_costs) and descriptions of devices. What is in them is checked; every
 * error names the file and the place in it. */
#ifndef DP_POLICIES_GRAPH_COSTS_COSTS_FILE_H
#define DP_POLICIES_GRAPH_COSTS_COSTS_FILE_H

#include <jansson.h>

#include "policies/graph/costs/costs.h"

#define DP_COSTS_MAX_FILE (1u << 20) /* bytes */
#define DP_COSTS_DEVICE_NAME 64            /* bytes of a name, with its NUL */
#define DP_COSTS_DEVICE_RATES 8            /* precisions of a device */

/* *c is overwritten, in any case. returns 0, or -1: DP_EIO (cannot be read), DP_EINVAL (what is in it), DP_ENOMEM. */
int dp_costs_read(const char *path, struct dp_costs *c, struct dp_err *err);
/* The same from memory; `name` stands for the file in messages. */
int dp_costs_parse(const char *name, const char *text, size_t bytes, struct dp_costs *c, struct dp_err *err);
/* As dp_costs_read() takes it, numbers with six digits: the same coefficients are the same bytes. New reference, or NULL without
 * memory. */
json_t *dp_costs_json(const struct dp_costs *c);

/* A device as its vendor describes it, or as it was measured. */
struct dp_costs_device {
    char name[DP_COSTS_DEVICE_NAME], title[DP_COSTS_TEXT], source[DP_COSTS_TEXT];
    bool is_measured;
    uint32_t n_rates;
    struct {
        char precision[16]; /* "fp32" */
        double flops_per_s; /* > 0 */
    } rate[DP_COSTS_DEVICE_RATES];
    double bytes_per_s; /* of its memory, > 0 */
    double launch_s;    /* of an operator, forward and backward together; > 0 */
    double flops_share, bytes_share; /* that operators attain of the two, 0..1; 1 where it was measured */
    uint64_t memory_bytes;           /* 0: not said */
};

/* wanted: "h100", or "h100:bf16" for another rate than the first of the device, or "./FILE" for the first device of a file of one's
 * own (any name with a '/'); path: the file of devices else. A name that is unknown: DP_EINVAL with those that there are.
 * precision: = the rate that was taken, of *out. returns 0 or -1, as above. */
int dp_costs_device_find(const char *path, const char *wanted, struct dp_costs_device *out, const char **precision,
                         struct dp_costs_roof *roof, struct dp_err *err);
/* Called with each device of a file; *d lives until it returns. */
typedef void (*dp_costs_device_fn)(void *arg, const struct dp_costs_device *d);

/* All devices of a file, one after the other. returns 0, or -1: each() has not been called for what is wrong or follows. */
int dp_costs_device_each(const char *path, dp_costs_device_fn each, void *arg, struct dp_err *err);
/* The same from memory. */
int dp_costs_device_parse(const char *name, const char *text, size_t bytes, dp_costs_device_fn each, void *arg,
                          struct dp_err *err);

#endif

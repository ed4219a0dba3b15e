/* SPDX-License-Identifier: BSD-3-Clause */
/* The interface of a policy: measured loads in, layout out.
 *
 * A policy is a pure function: no clock, no sockets, no globals; the same snapshot and seed give the
 * same answer. It proposes and nothing more: dp_policy_run() (predict/answer.h) checks every answer (each layer owned
 * once, order kept, only allowed devices, memory fits) and predicts its iteration time itself, so a
 * wrong policy costs speed, never correctness.
 *
 * A site's own policy is a shared object that exports DP_POLICY_SYMBOL, a struct dp_policy; it includes
 * this header and links the helpers at its end from libdynpipe-policy.a. doc/policies.md has an example.
 * Any change of a struct in here, in load.h or in layout.h is a new DP_POLICY_ABI and a new symbol, but for a member
 * at the end of struct dp_policy_in, which a policy that was compiled before does not see.
 *
 * A device is what one worker drives; device d belongs to the worker of rank d. A slot is what Slurm
 * can take back on its own and holds one or more devices: a node, or one of several slices on a node.
 */
#ifndef DP_POLICIES_POLICY_H
#define DP_POLICIES_POLICY_H

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"
#include "common/run/layout.h"
#include "common/run/load.h"
#include "common/schedule/list.h"

#define DP_POLICY_ABI 1 /* of dp_policy_v1 */
#define DP_POLICY_SYMBOL "dp_policy_v1" /* const struct dp_policy dp_policy_v1 */

struct dp_device {
    double speed;             /* relative; loads are given for a device of speed 1 */
    uint64_t mem_limit_bytes; /* 0: unlimited */
    uint32_t slot;
    bool is_allowed;          /* may own layers in the answer */
};

struct dp_links;

/* Read-only snapshot of a run, borrowed for the call. */
struct dp_policy_in {
    uint32_t n_layers, n_devices, n_slots;
    const struct dp_layer_load *layer; /* [n_layers] times of one microbatch on a device of speed 1 */
    const uint64_t *layer_opt_ns;      /* [n_layers] optimizer, once per step; NULL: 0 */
    const struct dp_layout *current;   /* n_workers = n_devices */
    const struct dp_device *device;    /* [n_devices] */
    uint32_t batch_slot;               /* can never be given back: work is packed towards it */
    enum dp_schedule_kind schedule;
    uint32_t microbatches;   /* per step, >= 1 */
    uint64_t stage_message_bytes; /* one activation (or gradient) message between two stages */
    double link_latency_s, link_bytes_per_s; /* bytes_per_s 0: no cost of size */
    uint64_t step, steps_total, seed;
    const struct dp_links *links; /* predict/links.h: slow links between slots, which predictions know; NULL: none */
    const uint32_t *slot_host; /* [n_slots] below n_slots: slots with the same number are on one node; NULL: each is a node */
};

struct dp_policy_out {
    struct dp_layout layout; /* epoch and gone[]: of `current` */
    uint64_t bottleneck_ns;  /* largest time that one device computes per step; dp_policy_run() sets it */
    uint64_t iteration_ns;   /* predicted wall time of one step; dp_policy_run() sets it */
    char reason[256];        /* one line, with numbers; bytes that are no printable ASCII become '?' */
};

struct dp_policy {
    uint32_t abi; /* DP_POLICY_ABI; stays the first member in every version */
    const char *name, *help;
    /* Optional: state for decide, from the arguments that the configuration gives a site policy (NULL
     * after the last), which stay where they are until close. returns 0 or -1. */
    int (*open)(void **state, int argc, char *const argv[], struct dp_err *err);
    /* Required. Fills out->layout and out->reason. returns 0, or -1 and why there is no layout. */
    int (*decide)(void *state, const struct dp_policy_in *in, struct dp_policy_out *out, struct dp_err *err);
    void (*close)(void *state); /* optional */
};

/* Did it answer nonsense (DP_EPROTO), not in time (DP_ETIMEOUT), crash (DP_EGONE), or is it of another
 * interface (DP_ENOTSUP)? */
bool dp_policy_is_broken(const struct dp_err *err);
/* Is this a policy that this program can ask? The message about a wrong ABI has both numbers. */
int dp_policy_check(const struct dp_policy *policy, struct dp_err *err);

/* Is the snapshot complete and sane (counts, slots, speeds > 0, no sum that overflows, a valid layout)? */
int dp_policy_in_check(const struct dp_policy_in *in, struct dp_err *err);

/* --- helpers for policies --- */

/* Indexes of the allowed devices, in order. returns how many. */
uint32_t dp_policy_allowed(const struct dp_policy_in *in, uint32_t index[DP_MAX_WORKERS]);
/* Microbatches whose activations the i-th of n stages keeps at the same time. */
uint32_t dp_policy_in_flight(const struct dp_policy_in *in, uint32_t i, uint32_t n);
/* Layout over all devices from cuts over the n devices of index; the others own nothing. */
void dp_policy_spread(const struct dp_policy_in *in, const uint32_t *index, uint32_t n, const uint32_t *cut,
                      struct dp_layout *out);
/* Work of one layer in one step on a device of speed 1: every microbatch, and the optimizer. */
uint64_t dp_policy_layer_work_ns(const struct dp_policy_in *in, uint32_t layer);
/* Time that a step's messages take over one border between two stages, one after the other: an activation and a
 * gradient of every microbatch. */
double dp_policy_message_ns(const struct dp_policy_in *in);
/* The exact contiguous min-max layout of these weights over the allowed devices, of all best ones the
 * one nearest to the current layout. with_speed: a device's load is weight / speed.
 * largest: = load of the fullest device. */
int dp_policy_minmax(const struct dp_policy_in *in, const uint64_t *weight, bool with_speed,
                     struct dp_layout *out, uint64_t *largest, struct dp_err *err);

#endif

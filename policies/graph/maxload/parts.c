/* SPDX-License-Identifier: BSD-3-Clause */
/* See parts.h. Devices are few, so which of them wait for which is a bit set for each. */
#include "policies/graph/maxload/parts.h"

#include <stdlib.h>
#include <string.h>

#include "common/err.h"

#define MOST DP_PARTS_MOST

/* reach[d]: = the devices that wait for d, over others, too, and d itself. */
static void find_reach(const struct dp_units *u, const uint32_t *device, uint32_t n_devices, uint64_t *reach)
{
    for (uint32_t d = 0; d < n_devices; d++)
        reach[d] = UINT64_C(1) << d;
    for (uint32_t v = 0; v < u->n; v++)
        for (uint32_t i = u->succ_at[v]; i < u->succ_at[v + 1]; i++)
            reach[device[v]] |= UINT64_C(1) << device[u->succ[i]];
    for (uint32_t by = 0; by < n_devices; by++)
        for (uint32_t d = 0; d < n_devices; d++)
            if (reach[d] >> by & 1)
                reach[d] |= reach[by];
}

/* Devices that reach each other reach the same; who is reached reaches fewer. So stages come by how many their devices reach, and
 * of as many, which cannot reach each other, by number. */
static uint32_t number_stages(const uint64_t *reach, uint64_t used, uint32_t n_devices, uint32_t *stage_of)
{
    uint32_t n = 0;

    for (int size = (int)MOST; size > 0; size--)
        for (uint32_t d = 0; d < n_devices; d++) {
            uint32_t first = 0;

            if (!(used >> d & 1) || __builtin_popcountll(reach[d]) != size)
                continue;
            while (reach[first] != reach[d]) /* only those of a circle reach the same */
                first++;
            stage_of[d] = first < d ? stage_of[first] : n++;
        }
    return n;
}

void dp_parts_pipeline(const struct dp_units *u, const uint32_t *device, uint32_t n_devices, uint32_t *stage, uint32_t *n_stages)
{
    uint64_t reach[MOST], used = 0;
    uint32_t stage_of[MOST] = {0};

    find_reach(u, device, n_devices, reach);
    for (uint32_t v = 0; v < u->n; v++)
        used |= UINT64_C(1) << device[v];
    *n_stages = number_stages(reach, used, n_devices, stage_of);
    for (uint32_t v = 0; v < u->n; v++)
        stage[v] = stage_of[device[v]];
}

static uint64_t add(uint64_t a, uint64_t b)
{
    uint64_t sum;

    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

static bool fits(const struct dp_units *u, const uint32_t *stage, uint32_t n_stages, uint64_t accel_bytes)
{
    uint64_t bytes[MOST] = {0};

    for (uint32_t v = 0; v < u->n; v++) {
        uint64_t kept;

        if (u->only_on_cpu[v])
            return false;
        if (__builtin_mul_overflow(u->kept_bytes[v], (uint64_t)(n_stages - stage[v]), &kept))
            kept = UINT64_MAX;
        bytes[stage[v]] = add(bytes[stage[v]], add(u->bytes[v], kept));
    }
    for (uint32_t s = 0; s < n_stages; s++)
        if (bytes[s] > accel_bytes)
            return false;
    return true;
}

int dp_parts_load(const struct dp_units *u, const uint32_t *stage, uint32_t n_stages, uint64_t accel_bytes, uint64_t *load_ns,
                  struct dp_err *err)
{
    uint32_t *held = calloc((size_t)u->n_nets + 1, sizeof *held); /* units of a net in this stage */

    *load_ns = 0;
    if (!held)
        return dp_err_set(err, DP_ENOMEM, "loads of %u stages: out of memory", n_stages);
    for (uint32_t s = 0; s < n_stages; s++) {
        uint64_t load = 0;

        memset(held, 0, u->n_nets * sizeof *held);
        for (uint32_t v = 0; v < u->n; v++) {
            if (stage[v] != s)
                continue;
            load = add(load, u->accel_ns[v]);
            for (uint32_t i = u->net_of_at[v]; i < u->net_of_at[v + 1]; i++)
                held[u->net_of[i]]++;
        }
        for (uint32_t i = 0; i < u->n_nets; i++)
            if (held[i] && held[i] < u->net_size[i])
                load = add(load, u->net_ns[i]);
        *load_ns = load > *load_ns ? load : *load_ns;
    }
    if (!fits(u, stage, n_stages, accel_bytes))
        *load_ns = UINT64_MAX;
    free(held);
    return 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of the coordinator in its world (coord_world.h) share. */
#ifndef DP_TESTS_COORD_CHECK_H
#define DP_TESTS_COORD_CHECK_H

#include "tests/unit/unit.h"

#include "tests/unit/daemon/coord_world.h"

static inline struct world *begin(uint64_t seed)
{
    struct world *w = malloc(sizeof *w);

    world_init(w, seed);
    return w;
}

static inline void end(struct world *w)
{
    if (w->broken[0])
        fail_msg("%s", w->broken);
    world_release(w);
    free(w);
}

/* All are there, and none is packed or balanced of itself. */
static inline void train_unmoved(struct world *w)
{
    snprintf(w->limits.policy, sizeof w->limits.policy, "keep");
    world_start(w);
    world_run(w, 4.0, false);
}

static inline const char *text_of(json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));

    return s ? s : "";
}

static inline json_int_t int_of(json_t *o, const char *key)
{
    return json_integer_value(json_object_get(o, key));
}

static inline json_t *report_of(struct world *w)
{
    return dp_coord_json(w->c, w->now_ns, DP_QUERY_REPORT);
}

#endif

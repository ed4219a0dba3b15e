/* SPDX-License-Identifier: BSD-3-Clause */
/* See schedule.h. Pure: the same arguments give the same list on every worker. Site policies get this, too
 * (libdynpipe-policy.a): nothing here may need more than err.h. */
#include "common/schedule/schedule.h"

#include <stdio.h>
#include <string.h>

#define TRAINED(ID, id, name, help) {name, help, true, &dp_schedule_##id},
#define SIMULATED(ID, id, name, help) {name, help, false, &dp_schedule_##id},
const struct dp_schedule dp_schedules[DP_N_SCHEDULES] = {DP_SCHEDULES_TRAINED(TRAINED) DP_SCHEDULES_SIMULATED(SIMULATED)};

static int find(const char *name, int n, enum dp_schedule_kind *out)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(name, dp_schedules[i].name)) {
            *out = (enum dp_schedule_kind)i;
            return 0;
        }
    return -1;
}

int dp_schedule_find(const char *name, enum dp_schedule_kind *out, struct dp_err *err)
{
    if (find(name, DP_N_SCHEDULES, out) == 0)
        return 0;
    return dp_err_set(err, DP_EINVAL, "unknown schedule '%.40s'; known: %s", name, &DP_SCHEDULES(DP_SCHEDULE_COMMA)[2]);
}

int dp_schedule_find_trained(const char *name, enum dp_schedule_kind *out, struct dp_err *err)
{
    enum dp_schedule_kind other;

    if (find(name, DP_N_SCHEDULES_TRAINED, out) == 0)
        return 0;
    return dp_err_set(err, DP_EINVAL, "%s '%.40s'; workers know %s",
                      find(name, DP_N_SCHEDULES, &other) == 0 ? "only the simulator knows schedule" : "unknown schedule", name,
                      &DP_SCHEDULES_TRAINED(DP_SCHEDULE_COMMA)[2]);
}

const char *dp_schedule_name(unsigned kind)
{
    return kind < DP_N_SCHEDULES ? dp_schedules[kind].name : "?";
}

bool dp_schedule_is_trained(unsigned kind)
{
    return kind < DP_N_SCHEDULES_TRAINED;
}

void dp_schedule_fill(enum dp_schedule_kind kind, uint32_t stage, uint32_t n_stages, uint32_t m, struct dp_action *out)
{
    const struct dp_schedule_place place = {.device = stage, .n_devices = n_stages, .chunks = 1, .microbatches = m,
                                            .behind = n_stages - stage - 1, .share = {.first = 0, .step = 1, .count = m}};

    dp_schedules[kind].rule->fill(&place, out);
}

uint32_t dp_schedule_in_flight(enum dp_schedule_kind kind, uint32_t stage, uint32_t n_stages, uint32_t m)
{
    return dp_schedules[kind].rule->keeps_all || n_stages - stage > m ? m : n_stages - stage;
}

uint32_t dp_schedule_depth(enum dp_schedule_kind kind, uint32_t m)
{
    return dp_schedules[kind].rule->keeps_all ? 0 : m;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* What the site allows, as dynpipe.conf says it, for a user who submits: he is still there to correct what the
 * daemons would otherwise change. No Slurm in here. */
#ifndef DP_SPANK_SITE_H
#define DP_SPANK_SITE_H

#include "common/conf/options.h"

struct dp_site {
    char policies[512];  /* names separated by commas */
    double max_slowdown; /* percent */
};

/* What the text of a configuration allows in some partition of `partitions` (names separated by commas; NULL
 * or "": anywhere, because Slurm chooses). Of several partitions, whatever one of them allows. */
void dp_site_scan(const char *text, const char *partitions, struct dp_site *out);

/* Does the site allow what was asked for? returns: 0, or -1 with a text that names what is allowed. path: of the
 * configuration, for that text. */
int dp_site_check(const struct dp_site *site, const struct dp_msg_step_start *asked, const char *path, struct dp_err *err);

/* What Slurm's own options say about the size of a job, in the words that slurm_option_get() gives; NULL: not
 * given. */
struct dp_asked_size {
    const char *nodes, *ntasks, *gpus, *gpus_per_node, *gpus_per_task, *gres, *nodelist, *exclusive;
    bool is_step; /* srun makes the job: as many workers as tasks */
};

/* Most devices that a job of this size can have. 0: it cannot be told. */
uint32_t dp_asked_devices(const struct dp_asked_size *size);

#endif

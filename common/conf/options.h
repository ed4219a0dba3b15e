/* SPDX-License-Identifier: BSD-3-Clause */
/* The options that users give: names, texts, strict validation. No Slurm in here, so that the unit
 * tests run the very objects that slurmstepd loads.
 *
 * A value is checked where it is given (sbatch, srun, salloc) and again, as if it came from the
 * network, in slurmstepd: there it may have been forged (doc/security.md, T1). So it may in a worker's
 * HELLO, from which a daemon learns them that was not told by the plugin.
 *
 * They are kept in what the daemon is told of a step: options_set of struct dp_msg_step_start says which of its fields
 * were given. The others of its fields (job, step, owner, node) are left alone here.
 */
#ifndef DP_COMMON_CONF_OPTIONS_H
#define DP_COMMON_CONF_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/message/msg.h"

#define DP_OPTION_COUNT 10 /* rows of dp_option_defs */
#define DP_STALL_END_MAX_MIN 10080 /* a week */
#define DP_VALUE_MAX 4096 /* longer than this is refused before anybody looks at it */
#define DP_SPEC_MAX 256   /* bytes of dp_options_format's text, NUL included */

/* What the administrator wrote behind the plugin in plugstack.conf. */
struct dp_plugin_args {
    char socket[256];    /* path of the daemon's socket, %n stands for the node */
    char policies[512];  /* names separated by commas, empty: any well-formed name */
    char config[256];    /* path of dynpipe.conf, for a look at what the site allows */
    uint8_t default_mode; /* of a plain --dynpipe */
};

struct dp_option_def {
    uint32_t bit;     /* enum dp_option_bit */
    const char *name; /* without the dashes */
    const char *arginfo;
    const char *key;  /* in the text form */
    const char *env;
    const char *help;
    bool is_value_optional;
};

extern const struct dp_option_def dp_option_defs[DP_OPTION_COUNT];

/* Carries the checked options, as dp_options_format() writes them, from sbatch, salloc and srun to slurmstepd and on to
 * the tasks. It begins with SLURM_ because only such variables survive --export=NONE. */
#define DP_ENV_SPEC "SLURM_DYNPIPE"

/* A user's value for an error text: short, and nothing that moves a cursor or starts a line. returns out. */
const char *dp_option_quoted(const char *text, char out[48]);

/* Set one option from text; text NULL means that no value was given.
 * returns: 0, or -1 with DP_EINVAL and a text that names the allowed values; *o is then unchanged.
 * The text is safe to print: of the user's value only printable ASCII is quoted, 40 bytes at most. */
int dp_option_set(struct dp_msg_step_start *o, const struct dp_option_def *def, const char *text,
                  const struct dp_plugin_args *args, struct dp_err *err);

/* The options as one line ("mode=release,min-gpus=2"), for the way to slurmstepd.
 * returns: 0, or -1 when it does not fit into cap (DP_SPEC_MAX always suffices). */
int dp_options_format(const struct dp_msg_step_start *o, char *out, size_t cap);

/* Inverse. Every key at most once, `mode` required, nothing else accepted; *o is overwritten, and all 0 on failure. */
int dp_options_parse(const char *text, const struct dp_plugin_args *args, struct dp_msg_step_start *o,
                     struct dp_err *err);

/* The value of one option that is set, as text.
 * returns: 0, or -1 when it is not set or does not fit. */
int dp_option_value(const struct dp_msg_step_start *o, const struct dp_option_def *def, char *out, size_t cap);

#endif

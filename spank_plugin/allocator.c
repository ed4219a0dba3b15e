/* In sbatch, salloc and srun: check what the user gave while he is still there to correct it, and
 * pass the result on to slurmstepd as one line in the environment (DP_ENV_SPEC).
 *
 * Precedence: command line (and #SBATCH lines, and what a batch job hands to the srun inside it),
 * then DYNPIPE_* variables, then what the site configured. --no-dynpipe beats all. */
#include "spank_plugin/plugin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int dp_allocator_option(struct dp_given *given, const struct dp_option_def *def, const char *text,
                        const struct dp_plugin_args *args)
{
    struct dp_err err;

    if (dp_option_set(&given->options, def, text, args, &err) == 0)
        return 0;
    slurm_error("dynpipe: --%s: %s", def->name, err.text);
    return -1;
}

/* True inside a step that runs under DynPipe already. Its DYNPIPE_* describe that run; a job
 * submitted from there is another one and asks for itself. */
static bool is_inside_run(void)
{
    const char *run = getenv(DP_ENV_JOB), *job = getenv("SLURM_JOB_ID");

    return run && job && !strcmp(run, job);
}

/* Slurm hands the options of a job on to every command inside it, by variables of these names. */
static void forget_inherited_option(const char *name)
{
    static const char *const prefixes[] = {"SLURM_SPANK__SLURM_SPANK_OPTION_dynpipe_",
                                           "_SLURM_SPANK_OPTION_dynpipe_"};
    char variable[128];

    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
        snprintf(variable, sizeof variable, "%s%s", prefixes[i], name);
        for (char *p = variable + strlen(prefixes[i]); *p; p++)
            if (*p == '-')
                *p = '_';
        unsetenv(variable);
    }
}

void dp_allocator_init(void)
{
    if (spank_context() != S_CTX_ALLOCATOR || !is_inside_run())
        return;
    for (size_t i = 0; i < DP_OPTION_COUNT; i++)
        forget_inherited_option(dp_option_defs[i].name);
    forget_inherited_option("no-dynpipe");
}

static int add_environment(struct dp_options *o, const struct dp_plugin_args *args)
{
    struct dp_err err;

    for (size_t i = 0; i < DP_OPTION_COUNT; i++) {
        const struct dp_option_def *def = &dp_option_defs[i];
        const char *text = getenv(def->env);
        if ((o->set & def->bit) || !text || !*text)
            continue;
        if (dp_option_set(o, def, text, args, &err) < 0) {
            slurm_error("dynpipe: %s: %s", def->env, err.text);
            return -1;
        }
    }
    return 0;
}

/* The variables that an enclosing step left behind must not reach the tasks of this one. */
static void forget_run(void)
{
    if (!getenv(DP_ENV_JOB))
        return;
    for (size_t i = 0; dp_task_env[i]; i++)
        unsetenv(dp_task_env[i]);
    for (size_t i = 0; i < DP_OPTION_COUNT; i++)
        unsetenv(dp_option_defs[i].env);
}

static int pass_on(const struct dp_options *o)
{
    char spec[DP_SPEC_MAX];

    if (dp_options_format(o, spec, sizeof spec) < 0 || setenv(DP_ENV_SPEC, spec, 1) < 0) {
        slurm_error("dynpipe: cannot pass the options on");
        return -1;
    }
    return 0;
}

int dp_allocator_finish(const struct dp_given *given, const struct dp_plugin_args *args)
{
    struct dp_options o = given->options;
    bool is_new_job = spank_context() == S_CTX_ALLOCATOR;

    if (!given->is_refused) {
        if (!(is_new_job && is_inside_run()) && add_environment(&o, args) < 0)
            return -1;
        if (given->options.set && !(o.set & DP_OPT_MODE)) {
            slurm_error("dynpipe: the options --dynpipe-* do nothing without --dynpipe");
            return -1;
        }
    }
    forget_run();
    if (given->is_refused || !(o.set & DP_OPT_MODE) || o.mode == DP_MODE_OFF) {
        unsetenv(DP_ENV_SPEC);
        return 0;
    }
    return pass_on(&o);
}

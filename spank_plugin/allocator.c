/* SPDX-License-Identifier: BSD-3-Clause */
/* In sbatch, salloc and srun: check what the user gave while he is still there to correct it, and
 * pass the result on to slurmstepd as one line in the environment (DP_ENV_SPEC).
 *
 * Precedence: command line (and #SBATCH lines, and what a batch job hands to the srun inside it),
 * then DYNPIPE_* variables, then what the site configured. --no-dynpipe beats all. */
#include "config.h" /* _GNU_SOURCE: RTLD_DEFAULT */

#include "spank_plugin/plugin.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/conf/conf_text.h"
#include "spank_plugin/site.h"

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

static int add_environment(struct dp_msg_step_start *o, const struct dp_plugin_args *args)
{
    struct dp_err err;

    for (size_t i = 0; i < DP_OPTION_COUNT; i++) {
        const struct dp_option_def *def = &dp_option_defs[i];
        const char *text = getenv(def->env);
        if ((o->options_set & def->bit) || !text || !*text)
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

static int pass_on(const struct dp_msg_step_start *o)
{
    char spec[DP_SPEC_MAX];

    if (dp_options_format(o, spec, sizeof spec) < 0 || setenv(DP_ENV_SPEC, spec, 1) < 0) {
        slurm_error("dynpipe: cannot pass the options on");
        return -1;
    }
    return 0;
}

/* What the user gave to Slurm itself, on the command line, in #SBATCH lines or variables, as Slurm's own
 * cli_filter plugins are told it. SPANK has no word for it; where the command does not show it, nothing is
 * known. The text is never freed: the command ends soon. */
static const char *given_to_slurm(const char *name)
{
    char *(*get)(void *opt, const char *name);
    void *opt = dlsym(RTLD_DEFAULT, "opt");

    *(void **)&get = dlsym(RTLD_DEFAULT, "slurm_option_get");
    return get && opt ? get(opt, name) : NULL;
}

/* Of a job of several components each has options of its own, and none says what the whole has. */
static bool is_het_job(void)
{
    char line[65536];
    int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, line, sizeof line);

    if (fd >= 0)
        close(fd);
    return n <= 0 || n == sizeof line || memmem(line, (size_t)n, "\0:\0", 3);
}

/* ntasks is what srun starts, unless tasks were given for each node or GPU ("-2": not given). */
static bool ntasks_is_all(void)
{
    const char *per_node = given_to_slurm("ntasks-per-node"), *per_gpu = given_to_slurm("ntasks-per-gpu");

    return (!per_node || *per_node == '-') && (!per_gpu || *per_gpu == '-');
}

static int check_size(const struct dp_msg_step_start *o)
{
    struct dp_asked_size size = {
        .nodes = given_to_slurm("nodes"), .ntasks = given_to_slurm("ntasks"), .gpus = given_to_slurm("gpus"),
        .gpus_per_node = given_to_slurm("gpus-per-node"), .gpus_per_task = given_to_slurm("gpus-per-task"),
        .gres = given_to_slurm("gres"), .nodelist = given_to_slurm("nodelist"), .exclusive = given_to_slurm("exclusive"),
        .is_step = spank_context() == S_CTX_LOCAL && ntasks_is_all(),
    };
    uint32_t most = o->slices ? o->slices : dp_asked_devices(&size);

    if (!most || o->min_gpus <= most)
        return 0;
    slurm_error("dynpipe: --dynpipe-min-gpus=%u: this %s at most %u", o->min_gpus, o->slices ? "run has" : "job requests", most);
    return -1;
}

/* What nobody could grow to. Said by srun in a job, too: the options are all of its own, or all of the job's. */
static int check_growth(const struct dp_msg_step_start *o)
{
    if (!(o->options_set & DP_OPT_MAX_GPUS))
        return 0;
    if (!o->slices)
        slurm_error("dynpipe: --dynpipe-max-gpus=%u: only a run of slices grows; say --dynpipe-slices=N, with which it begins",
                    o->max_gpus);
    else if (o->max_gpus < o->slices)
        slurm_error("dynpipe: --dynpipe-max-gpus=%u: the run begins with %u slices", o->max_gpus, o->slices);
    else if (o->options_set & DP_OPT_MIN_GPUS && o->max_gpus < o->min_gpus)
        slurm_error("dynpipe: --dynpipe-max-gpus=%u: fewer than --dynpipe-min-gpus=%u", o->max_gpus, o->min_gpus);
    else if (o->mode < DP_MODE_BALANCE)
        slurm_error("dynpipe: --dynpipe-max-gpus=%u: nobody joins a run in mode %s; say --dynpipe=balance or release", o->max_gpus,
                    dp_mode_name(o->mode));
    else
        return 0;
    return -1;
}

/* The file is the same on every node. Where it is not here, or cannot be read, the daemon decides. */
static int check_site(const struct dp_msg_step_start *o, const struct dp_plugin_args *args)
{
    char *text = access(args->config, R_OK) == 0 ? dp_conf_text_read(args->config, NULL) : NULL;
    struct dp_site site;
    struct dp_err err;
    int rc = 0;

    if (text) {
        dp_site_scan(text, given_to_slurm("partition"), &site);
        rc = dp_site_check(&site, o, args->config, &err);
    }
    free(text);
    if (rc < 0)
        slurm_error("dynpipe: %s", err.text);
    return rc;
}

/* A stepmgr (Slurm 24.05) goes on starting steps on nodes that the job no longer has. */
static int check_stepmgr(const struct dp_msg_step_start *o)
{
    const char *stepmgr = given_to_slurm("stepmgr");

    if (o->mode != DP_MODE_RELEASE || !stepmgr || strcmp(stepmgr, "set") != 0)
        return 0;
    slurm_error("dynpipe: --stepmgr: Slurm would start steps on nodes that were given back; omit it, or use "
                "--dynpipe=balance");
    return -1;
}

/* Would a daemon change what is asked for? An srun inside of a job has its options from there, and may be
 * only a part of it. */
static int check_request(const struct dp_msg_step_start *o, const struct dp_plugin_args *args)
{
    if (o->options_set & (DP_OPT_POLICY | DP_OPT_MAX_SLOWDOWN) && check_site(o, args) < 0)
        return -1;
    if (!(o->options_set & DP_OPT_MIN_GPUS) || (spank_context() == S_CTX_LOCAL && getenv("SLURM_JOB_ID")) || is_het_job())
        return 0;
    return check_size(o);
}

/* At submission, where the user still sees it; what else may be in the way the daemon finds, and `dynpipe status` says. */
static void tell_of_memory(const struct dp_msg_step_start *o)
{
#if HAVE_JOB_INFO_T_MEM_UPDATE_DELAY
    (void)o;
#else
    if (spank_context() == S_CTX_ALLOCATOR && o->options_set & DP_OPT_MEMORY && o->memory)
        slurm_info("dynpipe: --dynpipe-memory does nothing here: this Slurm cannot take memory back from a running job");
#endif
}

int dp_allocator_finish(const struct dp_given *given, const struct dp_plugin_args *args)
{
    struct dp_msg_step_start o = given->options;
    bool is_new_job = spank_context() == S_CTX_ALLOCATOR;

    if (!given->is_refused) {
        if (!(is_new_job && is_inside_run()) && add_environment(&o, args) < 0)
            return -1;
        if (given->options.options_set && !(o.options_set & DP_OPT_MODE)) {
            slurm_error("dynpipe: the options --dynpipe-* do nothing without --dynpipe");
            return -1;
        }
    }
    forget_run();
    if (given->is_refused || !(o.options_set & DP_OPT_MODE) || o.mode == DP_MODE_OFF) {
        unsetenv(DP_ENV_SPEC);
        return 0;
    }
    if (check_stepmgr(&o) < 0 || check_growth(&o) < 0 || check_request(&o, args) < 0)
        return -1;
    tell_of_memory(&o);
    return pass_on(&o);
}

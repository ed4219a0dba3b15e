/* SPDX-License-Identifier: BSD-3-Clause */
/* The symbols that Slurm looks for. Nothing is decided here: each call goes to the file of the
 * context it came in.
 *
 *   allocator.c   sbatch, salloc, srun    checks options early, passes them on
 *   remote.c      slurmstepd              tells the daemon about steps, sets DYNPIPE_* for tasks
 *
 * Every callback returns 0 outside the user's own commands: a nonzero return, a crash or a hang in
 * slurmstepd can drain a node. There is no prolog and no epilog: whatever goes wrong in their
 * process, the loader included, drains the node even where the plugin is `optional`, and every plain
 * job would pay for that process. Not used either: spank_job_control_setenv(), which makes
 * `srun --het-group=0,1` crash.
 */
#include "config.h"

#include "spank_plugin/plugin.h"

#include <stdlib.h>

SPANK_PLUGIN(dynpipe, 1)

const char *const dp_task_env[] = {DP_ENV_SOCKET, DP_ENV_JOB, DP_ENV_STEP, DP_ENV_NODE, NULL};

#define VAL_REFUSED 100 /* beyond every index of dp_option_defs */

static struct dp_plugin_args plugin_args;
static struct dp_given given;

static int on_option(int val, const char *text, int remote)
{
    if (val == VAL_REFUSED) {
        given.is_refused = true;
        return 0;
    }
    if (val < 0 || val >= DP_OPTION_COUNT)
        return 0;
    if (!remote)
        return dp_allocator_option(&given, &dp_option_defs[val], text, &plugin_args);
    dp_remote_option(&given, &dp_option_defs[val], text, &plugin_args);
    return 0;
}

/* Slurm's struct wants char *, and keeps what it needs. */
static struct spank_option spank_option_of(int i)
{
    const struct dp_option_def *def = &dp_option_defs[i];
    struct spank_option o = {
        .name = (char *)def->name,
        .arginfo = (char *)def->arginfo,
        .usage = (char *)def->help,
        .has_arg = def->is_value_optional ? 2 : 1,
        .val = i,
        .cb = on_option,
    };
    return o;
}

static struct spank_option refused_option(void)
{
    struct spank_option o = {
        .name = (char *)"no-dynpipe",
        .usage = (char *)"[dynpipe] do without DynPipe, whatever else is given",
        .val = VAL_REFUSED,
        .cb = on_option,
    };
    return o;
}

static bool is_command(void)
{
    return spank_context() == S_CTX_LOCAL || spank_context() == S_CTX_ALLOCATOR;
}

static bool is_step(void)
{
    return spank_context() == S_CTX_REMOTE;
}

#define BUILT_FOR "dynpipe: spank_dynpipe.so " PACKAGE_VERSION ", built for Slurm %u.%02u.%u", \
    (unsigned)SLURM_VERSION_MAJOR(SLURM_VERSION_NUMBER), (unsigned)SLURM_VERSION_MINOR(SLURM_VERSION_NUMBER), \
    (unsigned)SLURM_VERSION_MICRO(SLURM_VERSION_NUMBER)

/* Slurm's commands and step daemons say it to those who look closer, slurmd once when it starts. */
static void say_version(void)
{
    if (spank_context() == S_CTX_SLURMD)
        slurm_info(BUILT_FOR);
    else
        slurm_debug(BUILT_FOR);
}

int slurm_spank_init(spank_t sp, int argc, char *argv[])
{
    struct dp_err err;
    struct spank_option o;

    say_version();
    if (dp_plugin_args_parse(argc, argv, &plugin_args, &err) < 0)
        slurm_error("dynpipe: %s", err.text);
    if (!is_command() && !is_step())
        return 0;
    if (is_command())
        dp_allocator_init();
    for (int i = 0; i < DP_OPTION_COUNT; i++) {
        o = spank_option_of(i);
        spank_option_register(sp, &o);
    }
    o = refused_option();
    spank_option_register(sp, &o);
    return 0;
}

int slurm_spank_init_post_opt(spank_t sp, int argc, char *argv[])
{
    (void)argc, (void)argv;
    if (is_step())
        dp_remote_start(sp, &given, &plugin_args);
    /* A return of -1 ends the command only where the plugin is `required` in plugstack.conf, which
     * would let it drain nodes. This is the user's own sbatch, salloc or srun, and nothing has been
     * queued or started yet. */
    else if (is_command() && dp_allocator_finish(&given, &plugin_args) < 0)
        exit(EXIT_FAILURE);
    return 0;
}

int slurm_spank_user_init(spank_t sp, int argc, char *argv[])
{
    (void)argc, (void)argv;
    if (is_step())
        dp_remote_user_init(sp);
    return 0;
}

int slurm_spank_task_init_privileged(spank_t sp, int argc, char *argv[])
{
    (void)sp, (void)argc, (void)argv;
    if (is_step())
        dp_remote_task_init_privileged();
    return 0;
}

int slurm_spank_task_init(spank_t sp, int argc, char *argv[])
{
    (void)argc, (void)argv;
    if (is_step())
        dp_remote_task_init(sp);
    return 0;
}

int slurm_spank_task_post_fork(spank_t sp, int argc, char *argv[])
{
    (void)argc, (void)argv;
    if (is_step())
        dp_remote_task_forked(sp);
    return 0;
}

int slurm_spank_task_exit(spank_t sp, int argc, char *argv[])
{
    (void)argc, (void)argv;
    if (is_step())
        dp_remote_task_exit(sp);
    return 0;
}

int slurm_spank_exit(spank_t sp, int argc, char *argv[])
{
    (void)sp, (void)argc, (void)argv;
    if (is_step())
        dp_remote_end();
    return 0;
}

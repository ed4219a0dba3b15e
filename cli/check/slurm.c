/* SPDX-License-Identifier: BSD-3-Clause */
/* Slurm's own settings that decide what DynPipe can do (doc/slurm in short: node-wise shrinking is
 * Slurm's, and an administrator can forbid it). */
#include <stdlib.h>
#include <string.h>

#include "cli/check/check.h"
#include "cli/command/probe.h"
#include "cli/show/json.h"
#include "common/slurm/libslurm.h"

static void set_text(json_t *o, const char *key, const char *value)
{
    json_object_set_new(o, key, json_string(value));
}

static void add_name(const char *name, void *names)
{
    json_array_append_new(names, json_string(name));
}

static void add_node(const struct dp_slurm_node *node, void *names)
{
    add_name(node->name, names);
}

/* In the child: ask slurmctld for its configuration and print what matters here as JSON. */
static int read_conf(void *arg, FILE *out)
{
    json_t *o = json_object(), *partitions = json_array(), *nodes = json_array();
    struct dp_slurm_conf conf;
    struct dp_err err;

    (void)arg;
    dp_slurm_open();
    if (dp_slurm_conf_load(&conf, &err) < 0) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    set_text(o, "version", conf.version);
    set_text(o, "cluster", conf.cluster);
    set_text(o, "slurm_conf", conf.path);
    set_text(o, "plugstack", conf.plugstack);
    set_text(o, "plugindir", conf.plugin_dir);
    set_text(o, "sched_params", conf.sched_params);
    set_text(o, "select_type", conf.select_type);
    set_text(o, "accounting", conf.accounting);
    set_text(o, "authinfo", conf.auth_info);
    set_text(o, "proctrack", conf.proctrack);
    set_text(o, "own_folders", conf.own_folders);
    dp_slurm_each_partition(add_name, partitions, NULL); /* for those of dynpipe.conf */
    dp_slurm_each_node(NULL, add_node, nodes, NULL);     /* for the daemons' check */
    json_object_set_new(o, "partitions", partitions);
    json_object_set_new(o, "nodes", nodes);
    json_dumpf(o, out, JSON_COMPACT);
    json_decref(o);
    dp_slurm_conf_release(&conf);
    return 0;
}

static void check_shrink(struct dp_check *c, unsigned version)
{
    char params[1024], accounting[128];

    dp_json_text(params, sizeof params, c->slurm, "sched_params", "");
    if (strstr(params, "disable_job_shrink"))
        dp_check_note(c, DP_FIND_FAIL, "shrink", "remove disable_job_shrink from SchedulerParameters",
                      "SchedulerParameters does not let a running job shrink: nothing can be released");
    else
        dp_check_note(c, DP_FIND_OK, "shrink", NULL, "a running job may shrink");
    dp_json_text(accounting, sizeof accounting, c->slurm, "accounting", "");
    if (version < 241100 && !strstr(accounting, "slurmdbd"))
        dp_check_note(c, DP_FIND_WARN, "releases",
                      "set up slurmdbd (AccountingStorageType), or use Slurm 24.11 or newer",
                      "one release in the life of a job: without slurmdbd this Slurm shrinks a job once");
    else
        dp_check_note(c, DP_FIND_OK, "releases", NULL, "a job may shrink several times");
}

static void check_select(struct dp_check *c)
{
    char select[128], params[1024];

    dp_json_text(select, sizeof select, c->slurm, "select_type", "");
    if (strstr(select, "cons_tres"))
        dp_check_note(c, DP_FIND_OK, "select", NULL, "%s", select);
    else
        dp_check_note(c, DP_FIND_WARN, "select", "SelectType=select/cons_tres",
                      "%s: GPUs cannot be requested with --gpus", select);
    dp_json_text(params, sizeof params, c->slurm, "sched_params", "");
    if (!strstr(params, "bf_interval") && !strstr(params, "sched_min_interval"))
        dp_check_note(c, DP_FIND_OK, "scheduler", NULL,
                      "default intervals: the next job starts about 2 s after a release");
}

/* A process that Slurm loses sight of outlives its job, and its slot when it is given back. */
static void check_proctrack(struct dp_check *c)
{
    char proctrack[128];

    dp_json_text(proctrack, sizeof proctrack, c->slurm, "proctrack", "");
    if (!strcmp(proctrack, "proctrack/cgroup"))
        dp_check_note(c, DP_FIND_OK, "proctrack", NULL, "%s", proctrack);
    else
        dp_check_note(c, DP_FIND_WARN, "proctrack", "ProctrackType=proctrack/cgroup in slurm.conf where users are not trusted",
                      "%s: a process that clears its environment and detaches leaves its job; the proof of an empty node "
                      "finds it only by a GPU that it has open", proctrack);
}

/* Values for a partition that Slurm does not have never count: a name that is spelled wrong. */
static void check_partitions(struct dp_check *c)
{
    json_t *names = dp_json_list(c->slurm, "partitions"), *name;
    size_t i;

    for (uint32_t p = 0; c->config && json_array_size(names) > 0 && p < c->config->n_partitions; p++) {
        bool is_known = false;

        json_array_foreach(names, i, name)
            is_known |= !strcmp(json_string_value(name), c->config->partition[p].name);
        if (!is_known)
            dp_check_note(c, DP_FIND_WARN, "partitions", "correct the name, or remove the entry",
                          "dynpipe.conf has values for partition %s, which Slurm does not have", c->config->partition[p].name);
    }
}

void dp_check_slurm(struct dp_check *c)
{
    char version[64], cluster[128], conf[512], *text = NULL;
    struct dp_err err;
    unsigned number;

    if (c->config && !c->config->slurm) {
        dp_check_note(c, DP_FIND_WARN, "slurm", "set daemon.slurm = true to release nodes",
                      "dynpipe.conf says that there is no Slurm: runs are balanced, nothing is released");
        return;
    }
    if (dp_probe(read_conf, NULL, 20, &text, &err) < 0) {
        dp_check_note(c, DP_FIND_FAIL, "slurm",
                      "is slurmctld running? is $SLURM_CONF right? does `scontrol ping` answer here? is DynPipe built for this Slurm?",
                      "Slurm's configuration cannot be read (this dynpipe is built for Slurm %s): %s", dp_slurm_built_for(), err.text);
        return;
    }
    c->slurm = json_loads(text ? text : "", 0, NULL);
    free(text);
    if (!c->slurm) {
        dp_check_note(c, DP_FIND_FAIL, "slurm", NULL, "libslurm gave no answer");
        return;
    }
    dp_json_text(version, sizeof version, c->slurm, "version", "?");
    number = dp_check_version(version);
    dp_check_note(c, number >= 220500 ? DP_FIND_OK : DP_FIND_WARN, "slurm", "DynPipe is tested with 22.05 and newer",
                  "Slurm %s, cluster %s, %s", version, dp_json_text(cluster, sizeof cluster, c->slurm, "cluster", "?"),
                  dp_json_text(conf, sizeof conf, c->slurm, "slurm_conf", ""));
    if (number / 100 != dp_check_version(dp_slurm_built_for()) / 100)
        dp_check_note(c, DP_FIND_WARN, "slurm", "build DynPipe against the headers of this Slurm",
                      "this dynpipe is built for Slurm %s, slurmctld is %s", dp_slurm_built_for(), version);
    check_proctrack(c);
    check_partitions(c);
    check_shrink(c, number);
    check_select(c);
}

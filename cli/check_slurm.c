/* Slurm's own settings that decide what DynPipe can do (doc/slurm in short: node-wise shrinking is
 * Slurm's, and an administrator can forbid it). */
#include <errno.h>
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/check.h"
#include "cli/json.h"
#include "cli/probe.h"

static void set_text(json_t *o, const char *key, const char *value)
{
    json_object_set_new(o, key, json_string(value ? value : ""));
}

/* Names of all nodes, for the daemons' check. */
static json_t *node_names(void)
{
    node_info_msg_t *msg = NULL;
    json_t *names = json_array();

    if (slurm_load_node(0, &msg, SHOW_ALL) != SLURM_SUCCESS)
        return names;
    for (uint32_t i = 0; i < msg->record_count; i++) {
        if (msg->node_array[i].name)
            json_array_append_new(names, json_string(msg->node_array[i].name));
    }
    slurm_free_node_info_msg(msg);
    return names;
}

/* Names of all partitions, for those of dynpipe.conf. */
static json_t *partition_names(void)
{
    partition_info_msg_t *msg = NULL;
    json_t *names = json_array();

    if (slurm_load_partitions(0, &msg, SHOW_ALL) != SLURM_SUCCESS)
        return names;
    for (uint32_t i = 0; i < msg->record_count; i++) {
        if (msg->partition_array[i].name)
            json_array_append_new(names, json_string(msg->partition_array[i].name));
    }
    slurm_free_partition_info_msg(msg);
    return names;
}

/* In the child: ask slurmctld for its configuration and print what matters here as JSON. */
static int read_conf(void *arg, FILE *out)
{
    slurm_conf_t *conf = NULL;
    json_t *o = json_object();

    (void)arg;
    if (slurm_load_ctl_conf(0, &conf) != SLURM_SUCCESS) {
        fprintf(stderr, "%s\n", slurm_strerror(errno));
        return 1;
    }
    set_text(o, "version", conf->version);
    set_text(o, "cluster", conf->cluster_name);
    set_text(o, "slurm_conf", conf->slurm_conf);
    set_text(o, "plugstack", conf->plugstack);
    set_text(o, "plugindir", conf->plugindir);
    set_text(o, "sched_params", conf->sched_params);
    set_text(o, "select_type", conf->select_type);
    set_text(o, "accounting", conf->accounting_storage_type);
    set_text(o, "authinfo", conf->authinfo);
    set_text(o, "proctrack", conf->proctrack_type);
    json_object_set_new(o, "partitions", partition_names());
    json_object_set_new(o, "nodes", node_names());
    json_dumpf(o, out, JSON_COMPACT);
    json_decref(o);
    slurm_free_ctl_conf(conf);
    return 0;
}

static void check_shrink(struct dp_check *c, unsigned version)
{
    char params[1024], accounting[128];

    dp_json_text(params, sizeof params, c->slurm, "sched_params", "");
    if (strstr(params, "disable_job_shrink"))
        dp_check_note(c, DP_FIND_FAIL, "shrink", "take disable_job_shrink out of SchedulerParameters",
                      "SchedulerParameters forbids that a running job gets smaller: nothing can be released");
    else
        dp_check_note(c, DP_FIND_OK, "shrink", NULL, "a running job may get smaller");
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
                      "%s: GPUs cannot be asked for with --gpus", select);
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
            dp_check_note(c, DP_FIND_WARN, "partitions", "correct the name, or take the entry out",
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
                      "is slurmctld running? is $SLURM_CONF right? does `scontrol ping` answer here?",
                      "Slurm's configuration cannot be read: %s", err.text);
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
    dp_check_note(c, number >= 220500 ? DP_FIND_OK : DP_FIND_WARN, "slurm", "DynPipe is tested from 22.05 on",
                  "Slurm %s, cluster %s, %s", version, dp_json_text(cluster, sizeof cluster, c->slurm, "cluster", "?"),
                  dp_json_text(conf, sizeof conf, c->slurm, "slurm_conf", ""));
    check_proctrack(c);
    check_partitions(c);
    check_shrink(c, number);
    check_select(c);
}

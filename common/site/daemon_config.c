/* SPDX-License-Identifier: BSD-3-Clause */
/* See daemon_config.h. The table below is the one place where a key, its range, default and meaning are
 * written; etc/dynpipe.conf is printed from it and a test compares the two. */
#include "config.h"

#include "common/site/daemon_config.h"

#include <errno.h>
#include <fcntl.h>
#include <libconfig.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/conf/conf.h"
#include "common/conf/site_defaults.h"
#include "common/file/trusted_file.h"
#include "policies/decide/pack.h"
#include "policies/list.h"

#define AT(member) offsetof(struct dp_config, member), sizeof ((struct dp_config *)0)->member
#define RUN_AT(member) offsetof(struct dp_config, run.member), sizeof ((struct dp_config *)0)->run.member

static const struct dp_conf_key keys[] = {
    {"daemon", "socket", DP_CONF_STRING, AT(socket), 0, 0, "/run/dynpipe/%n.sock", NULL,
     "unix socket for workers, the plugin and the command; %n: name of the node"},
    {"daemon", "state_dir", DP_CONF_STRING, AT(state_dir), 0, 0, "/var/lib/dynpipe/%n", NULL,
     "folder of the journals; %n: name of the node"},
    {"daemon", "pidfile", DP_CONF_STRING, AT(pidfile), 0, 0, "", NULL,
     "file for the process id, empty: none; %n: name of the node"},
    {"daemon", "listen", DP_CONF_STRING, AT(listen), 0, 0, "0.0.0.0", NULL,
     "address to listen on for the daemons of other nodes"},
    {"daemon", "port", DP_CONF_INT, AT(port), 0, 65535, "6830", NULL,
     "TCP port of the daemons, 0: do not listen"},
    {"daemon", "munge_socket", DP_CONF_STRING, AT(munge_socket), 0, 0, "", NULL,
     "socket of munged, empty: munge's default"},
    {"daemon", "run_user", DP_CONF_STRING, AT(run_user), 0, 0, "dynpipe", NULL,
     "user that the network-facing process becomes when started as root, empty: root listens"},
    {"daemon", "device_files", DP_CONF_STRING, AT(device_files), 0, 0, "/dev/nvidia[0-9]*", NULL,
     "GPUs of the node as in gres.conf, patterns separated by commas, empty: none; %n: name of the node"},
    {"daemon", "slurm", DP_CONF_BOOL, AT(slurm), 0, 0, "true", NULL,
     "false: without Slurm, on one machine; runs are balanced, nothing is released"},
    {"daemon", "report_ms", DP_CONF_INT, AT(report_ms), 10, 600000, "1000", NULL,
     "least time between two reports of a worker, milliseconds"},
    {"daemon", "poll_s", DP_CONF_FLOAT, AT(poll_s), 1, 3600, "30", NULL,
     "time between two looks at whether a job still runs, seconds"},
    {"daemon", "slices_wait_s", DP_CONF_FLOAT, AT(slices_wait_s), 1, 86400, "600", NULL,
     "how long the first slice of a run waits for the others; then it begins without them, or not at all, seconds"},
    {"daemon", "history_hours", DP_CONF_FLOAT, AT(history_hours), 0, 8760, "72", NULL,
     "how long the report of a finished run is kept, hours; of one user the newest 1000"},
    {"daemon", "log", DP_CONF_STRING, AT(log), 0, 0, "stderr", NULL,
     "stderr, syslog, or the path of a file, which SIGHUP opens anew; %n: name of the node"},
    {"daemon", "log_level", DP_CONF_STRING, AT(log_level), 0, 0, "info", "error|warning|info|debug",
     "most verbose level that is written"},
    {"daemon", "max_connections", DP_CONF_INT, AT(max_connections), 8, 65536, "512", NULL,
     "connections at a time, all users; a quarter is reserved for users with a run on this node"},
    {"daemon", "max_connections_per_uid", DP_CONF_INT, AT(max_connections_per_uid), 4, 65536, "128", NULL,
     "connections at a time of one user"},

    {"run", "max_mode", DP_CONF_STRING, RUN_AT(max_mode), 0, 0, "release", "off|observe|balance|release",
     "most that a user may ask for"},
    {"run", "default_mode", DP_CONF_STRING, RUN_AT(default_mode), 0, 0, "release", "off|observe|balance|release",
     "mode of a user who names none"},
    {"run", "policy", DP_CONF_STRING, RUN_AT(policy), 0, 0, "time", NULL, "policy of a user who names none"},
    {"run", "policies", DP_CONF_STRING, RUN_AT(policies), 0, 0, DP_DEFAULT_POLICIES, NULL,
     "policies that a user may ask for, separated by commas"},
    {"run", "reference", DP_CONF_STRING, RUN_AT(reference), 0, 0, "fixed", "fixed|start|best",
     "what a run is held to: the time that it would take without DynPipe, its speed at the start, or the best on all "
     "devices held"},
    {"run", "objective", DP_CONF_STRING, RUN_AT(objective), 0, 0, "auto", "auto|devices|efficiency",
     "of what meets the reference: the fewest devices, or the fewest device-seconds; auto: these with fixed, else those"},
    {"run", "packing", DP_CONF_STRING, RUN_AT(packing), 0, 0, "best", "best|first-fit",
     "first-fit: DynMo's merging of whole stages onto min_devices, for comparison"},
    {"run", "max_slowdown", DP_CONF_FLOAT, RUN_AT(max_slowdown), 0, 100, DP_DEFAULT_MAX_SLOWDOWN, NULL,
     "most that a user may give up: percent of the time of fixed, of the throughput of start and best"},
    {"run", "default_slowdown", DP_CONF_FLOAT, RUN_AT(default_slowdown), 0, 100, "5", NULL,
     "slowdown of a run whose user names none, likewise"},
    {"run", "min_devices", DP_CONF_INT, RUN_AT(min_devices), 1, 512, "1", NULL,
     "no run is packed onto fewer devices; users may ask for more"},
    {"run", "max_gpus", DP_CONF_INT, RUN_AT(max_gpus), 0, 512, "512", NULL,
     "most GPUs that a run of slices may grow to where its user lets it grow; 0: none grows"},
    {"run", "growth_wait_s", DP_CONF_FLOAT, RUN_AT(growth_wait_s), 1, 86400, "600", NULL,
     "slices that a run asked for while it trains, and that the queue does not start for so long, are withdrawn, seconds"},
    {"run", "growth_cooldown_s", DP_CONF_FLOAT, RUN_AT(growth_cooldown_s), 1, 86400, "120", NULL,
     "least time between two such requests of a run, and after it gave a slice back; twice as long after each in vain, seconds"},
    {"run", "memory", DP_CONF_STRING, RUN_AT(memory), 0, 0, "ask", "off|ask|on",
     "host memory that pruning frees goes back to Slurm: never, for users who ask, or for all who ask for mode release"},
    {"run", "memory_margin", DP_CONF_INT, RUN_AT(memory_margin), 1, 1000, "25", NULL,
     "percent of memory that a run keeps beyond what it needs; users may ask for more"},
    {"run", "copies", DP_CONF_INT, RUN_AT(copies), 0, DP_COPIES_MAX, "0", NULL,
     "copies of each layer that workers on other nodes hold, of a run whose user says nothing, so that a lost node costs no step"},
    {"run", "hysteresis", DP_CONF_FLOAT, RUN_AT(hysteresis), 0, 100, "3", NULL,
     "predicted gain of the iteration time that a move must bring, percent"},
    {"run", "cooldown_s", DP_CONF_FLOAT, RUN_AT(cooldown_s), 0, 86400, "30", NULL,
     "least time between two hand-overs of a run, seconds"},
    {"run", "warmup_reports", DP_CONF_INT, RUN_AT(warmup_reports), 1, 1000, "3", NULL,
     "reports of each worker before the first decision and after each change"},
    {"run", "vote_timeout_s", DP_CONF_FLOAT, RUN_AT(vote_timeout_s), 1, 3600, "120", NULL,
     "time for all votes of a hand-over, five steps at least; then it is aborted, seconds"},
    {"run", "stall_s", DP_CONF_FLOAT, RUN_AT(stall_s), 1, 86400, "30", NULL,
     "silence of all workers after which a run counts as stalled, five steps at least, seconds"},
    {"run", "stall_end_s", DP_CONF_FLOAT, RUN_AT(stall_end_s), 0, 604800, "0", NULL,
     "a run stalled for so long is ended and put back into the queue, 0: never; users may ask for less, seconds"},
    {"run", "gone_timeout_s", DP_CONF_FLOAT, RUN_AT(gone_timeout_s), 1, 3600, "30", NULL,
     "time for the proof that a node is empty; then it is held, seconds"},
    {"run", "grace_s", DP_CONF_FLOAT, RUN_AT(grace_s), 0, 600, "10", NULL,
     "time for a drained worker to leave by itself, seconds"},
    {"run", "confirm_s", DP_CONF_FLOAT, RUN_AT(confirm_s), 0, 3600, "10", NULL,
     "between the two looks that confirm a release, seconds"},
    {"run", "link_latency_us", DP_CONF_FLOAT, RUN_AT(link_latency_us), 0, 1e6, "20", NULL,
     "latency of a message between two workers, microseconds"},
    {"run", "link_gbytes_per_s", DP_CONF_FLOAT, RUN_AT(link_gbytes_per_s), 0.001, 10000, "1", NULL,
     "bandwidth between two workers, 1e9 bytes per second"},
    {"run", "policy_timeout_s", DP_CONF_FLOAT, RUN_AT(policy_timeout_s), 0.01, 600, "10", NULL,
     "time for a site policy to answer all questions of one decision, seconds"},
    {NULL, NULL, DP_CONF_INT, 0, 0, 0, 0, NULL, NULL, NULL},
};

static const char *const extra_sections[] = {"partitions", "nodes", "site_policies", NULL};

void dp_config_print(FILE *out)
{
    dp_conf_print(keys, out);
    fputs("\n# Other values of section run for some partitions, each key as above:\n"
          "# partitions = ( { name = \"debug\"; max_mode = \"observe\"; }, { name = \"gpu\"; cooldown_s = 60.0; } );\n"
          "\n# Policies of this site, shared objects (doc/policies.md); policies above says which of them may be requested:\n"
          "# site_policies = ( { name = \"headroom\"; file = \"/usr/lib/dynpipe/headroom.so\"; arguments = \"free=10\"; } );\n"
          "\n# Where the daemons of nodes listen, where not at <name>:<port>; from: more addresses that they come from:\n"
          "# nodes = ( { name = \"n1\"; address = \"10.0.0.1\"; port = 6831; from = \"10.1.0.1\"; } );\n",
          out);
}

static int check_owner(const char *path, const struct stat *opened, struct dp_err *err)
{
    if (opened->st_uid != 0 && opened->st_uid != geteuid())
        return dp_err_set(err, DP_EAUTH, "%s: belongs to uid %u, must belong to root or the daemon's user",
                          path, opened->st_uid);
    if (opened->st_mode & (S_IWGRP | S_IWOTH))
        return dp_err_set(err, DP_EAUTH, "%s: others may write to it (mode %03o)", path, opened->st_mode & 0777);
    return 0;
}

/* Every %n becomes the name of the node. */
static int expand(char *path, size_t cap, const char *node, const char *key, struct dp_err *err)
{
    char out[512];
    size_t n = 0;

    for (const char *p = path; *p; p++) {
        const char *piece = p[0] == '%' && p[1] == 'n' ? node : NULL;
        size_t len = piece ? strlen(piece) : 1;

        if (n + len >= sizeof out || n + len >= cap)
            return dp_err_set(err, DP_EINVAL, "%s: too long with the node's name in it", key);
        memcpy(out + n, piece ? piece : p, len);
        n += len;
        if (piece)
            p++;
    }
    out[n] = '\0';
    memcpy(path, out, n + 1);
    return 0;
}

static int bad_entry(const char *path, const config_setting_t *s, struct dp_err *err, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
static int bad_entry(const char *path, const config_setting_t *s, struct dp_err *err, const char *fmt, ...)
{
    char text[256];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return dp_err_set(err, DP_EINVAL, "%s:%u: %s", path, config_setting_source_line(s), text);
}

/* Take the member `name` of a group as text out of it: what is left are keys of section run. */
static int take_text(const char *path, config_setting_t *group, const char *name, char *out, size_t cap,
                     struct dp_err *err)
{
    const char *text;

    if (config_setting_lookup_string(group, name, &text) != CONFIG_TRUE || !text[0] || strlen(text) >= cap)
        return bad_entry(path, group, err, "%s is missing, empty or too long", name);
    memcpy(out, text, strlen(text) + 1);
    config_setting_remove(group, name);
    return 0;
}

static int read_partition(struct dp_config *c, const char *path, config_setting_t *group, struct dp_err *err)
{
    struct dp_partition_conf *p = &c->partition[c->n_partitions];
    struct dp_config *whole;
    int rc;

    if (c->n_partitions == DP_MAX_PARTITIONS)
        return bad_entry(path, group, err, "more than %d partitions", DP_MAX_PARTITIONS);
    if (!config_setting_is_group(group))
        return bad_entry(path, group, err, "partitions: expected { name = ...; }");
    if (take_text(path, group, "name", p->name, sizeof p->name, err) < 0)
        return -1;
    whole = malloc(sizeof *whole);
    if (!whole)
        return dp_err_set(err, DP_ENOMEM, "out of memory");
    *whole = *c;
    rc = dp_conf_read_group(path, (struct config_setting_t *)group, "run", keys, whole, err);
    p->run = whole->run;
    free(whole);
    c->n_partitions++;
    return rc;
}

static bool is_policy_name(const char *name)
{
    return name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-")] == '\0';
}

static const struct dp_site_policy_conf *find_site_policy(const struct dp_config *c, const char *name)
{
    for (uint32_t i = 0; i < c->n_site_policies; i++)
        if (!strcmp(c->site_policy[i].name, name))
            return &c->site_policy[i];
    return NULL;
}

static int read_site_policy(struct dp_config *c, const char *path, config_setting_t *group, struct dp_err *err)
{
    struct dp_site_policy_conf *p = &c->site_policy[c->n_site_policies];
    const char *arguments;
    struct dp_err why;

    if (c->n_site_policies == DP_MAX_SITE_POLICIES)
        return bad_entry(path, group, err, "more than %d site policies", DP_MAX_SITE_POLICIES);
    if (!config_setting_is_group(group))
        return bad_entry(path, group, err, "site_policies: expected { name = ...; file = ...; }");
    if (take_text(path, group, "name", p->name, sizeof p->name, err) < 0 ||
        take_text(path, group, "file", p->file, sizeof p->file, err) < 0)
        return -1;
    if (config_setting_lookup_string(group, "arguments", &arguments) == CONFIG_TRUE && !*arguments)
        config_setting_remove(group, "arguments"); /* none */
    if (config_setting_get_member(group, "arguments") &&
        take_text(path, group, "arguments", p->arguments, sizeof p->arguments, err) < 0)
        return -1;
    if (config_setting_length(group) > 0)
        return bad_entry(path, config_setting_get_elem(group, 0), err,
                         "unknown key %s in site_policies; known: name, file, arguments",
                         config_setting_name(config_setting_get_elem(group, 0)));
    if (!is_policy_name(p->name))
        return bad_entry(path, group, err, "'%s' is not a valid policy name; allowed: 1 to 63 characters of a-z 0-9 _ -", p->name);
    if (dp_policy_find(p->name, NULL) || find_site_policy(c, p->name))
        return bad_entry(path, group, err, "there is a policy %s already", p->name);
    if (dp_trusted_file_check(p->file, &why) < 0)
        return bad_entry(path, group, err, "policy %s: %.200s", p->name, why.text);
    c->n_site_policies++;
    return 0;
}

static int read_node(struct dp_config *c, const char *path, config_setting_t *group, struct dp_err *err)
{
    struct dp_node_entry *n = &c->node[c->n_nodes];
    long long port = c->port;

    if (c->n_nodes == DP_MAX_NODE_ENTRIES)
        return bad_entry(path, group, err, "more than %d nodes", DP_MAX_NODE_ENTRIES);
    if (!config_setting_is_group(group))
        return bad_entry(path, group, err, "nodes: expected { name = ...; address = ...; port = ...; }");
    if (take_text(path, group, "name", n->name, sizeof n->name, err) < 0)
        return -1;
    memcpy(n->address, n->name, sizeof n->address);
    n->is_listed = true;
    n->has_address = config_setting_get_member(group, "address") != NULL;
    if (n->has_address && take_text(path, group, "address", n->address, sizeof n->address, err) < 0)
        return -1;
    if (config_setting_get_member(group, "from") && take_text(path, group, "from", n->from, sizeof n->from, err) < 0)
        return -1;
    if (config_setting_get_member(group, "port")) {
        if (config_setting_lookup_int64(group, "port", &port) != CONFIG_TRUE || port < 1 || port > 65535)
            return bad_entry(path, group, err, "port must be 1..65535");
        config_setting_remove(group, "port");
    }
    if (config_setting_length(group) > 0)
        return bad_entry(path, config_setting_get_elem(group, 0), err,
                         "unknown key %s in nodes; known: name, address, from, port",
                         config_setting_name(config_setting_get_elem(group, 0)));
    n->port = (uint16_t)port;
    c->n_nodes++;
    return 0;
}

typedef int (*entry_fn)(struct dp_config *c, const char *path, config_setting_t *group, struct dp_err *err);

static int read_list(struct dp_config *c, const char *path, config_t *file, const char *name, entry_fn fn,
                     struct dp_err *err)
{
    config_setting_t *list = config_lookup(file, name);

    if (!list)
        return 0;
    if (!config_setting_is_list(list))
        return bad_entry(path, list, err, "%s: expected a list, ( { ... }, { ... } )", name);
    for (int i = 0; i < config_setting_length(list); i++)
        if (fn(c, path, config_setting_get_elem(list, (unsigned)i), err) < 0)
            return -1;
    return 0;
}

static bool is_listed(const char *list, const char *name)
{
    size_t n = strlen(name);

    for (const char *p = list; n > 0 && (p = strstr(p, name)); p += n)
        if ((p == list || p[-1] == ',') && (p[n] == ',' || p[n] == '\0'))
            return true;
    return false;
}

/* Every name of the list is a policy that there is. */
static int check_policies(const struct dp_config *c, const char *path, const char *where, const char *list,
                          struct dp_err *err)
{
    char name[64];

    for (const char *p = list; *p;) {
        size_t n = strcspn(p, ",");
        struct dp_err why;

        snprintf(name, sizeof name, "%.*s", n < sizeof name ? (int)n : 0, p);
        if (!find_site_policy(c, name) && !dp_policy_find(name, &why))
            return dp_err_set(err, DP_EINVAL, "%s: %s: policies '%s': %s, or what site_policies names", path,
                              where, list, why.text);
        p += n + (p[n] == ',');
    }
    return 0;
}

static int check_run(const struct dp_config *c, const char *path, const char *where, const struct dp_run_conf *r,
                     struct dp_err *err)
{
    if (check_policies(c, path, where, r->policies, err) < 0)
        return -1;
    if (!is_listed(r->policies, r->policy))
        return dp_err_set(err, DP_EINVAL, "%s: %s: policy '%s' is not one of policies '%s'", path, where,
                          r->policy, r->policies);
    if (r->default_slowdown > r->max_slowdown)
        return dp_err_set(err, DP_EINVAL, "%s: %s: default_slowdown %g is above max_slowdown %g", path, where,
                          r->default_slowdown, r->max_slowdown);
    return 0;
}

static int check_runs(const struct dp_config *c, const char *path, struct dp_err *err)
{
    if (check_run(c, path, "run", &c->run, err) < 0)
        return -1;
    for (uint32_t i = 0; i < c->n_partitions; i++)
        if (check_run(c, path, c->partition[i].name, &c->partition[i].run, err) < 0)
            return -1;
    return 0;
}

static int read_lists(struct dp_config *c, const char *path, const char *text, struct dp_err *err)
{
    config_t file;
    int rc;

    config_init(&file);
    rc = dp_conf_parse(path, text, (struct config_t *)&file, err);
    if (rc == 0)
        rc = read_list(c, path, &file, "site_policies", read_site_policy, err);
    if (rc == 0)
        rc = read_list(c, path, &file, "partitions", read_partition, err);
    if (rc == 0)
        rc = read_list(c, path, &file, "nodes", read_node, err);
    config_destroy(&file);
    return rc;
}

int dp_config_set(struct dp_config *c, const char *assignment, struct dp_err *err)
{
    return dp_conf_set(keys, assignment, "dynpipe.conf", c, err);
}

static int check_log(const struct dp_config *c, const char *path, struct dp_err *err)
{
    if (c->log[0] == '/' || !strcmp(c->log, "stderr") || !strcmp(c->log, "syslog"))
        return 0;
    return dp_err_set(err, DP_EINVAL, "%s: daemon.log '%s': expected stderr, syslog, or a path that begins with /", path,
                      c->log);
}

int dp_config_expand(struct dp_config *c, const char *node, struct dp_err *err)
{
    return expand(c->socket, sizeof c->socket, node, "socket", err) < 0 ||
                   expand(c->state_dir, sizeof c->state_dir, node, "state_dir", err) < 0 ||
                   expand(c->pidfile, sizeof c->pidfile, node, "pidfile", err) < 0 ||
                   expand(c->log, sizeof c->log, node, "log", err) < 0 ||
                   expand(c->device_files, sizeof c->device_files, node, "device_files", err) < 0
               ? -1
               : 0;
}

static int read_config(struct dp_config *c, const char *path, const char *text, const char *node, struct dp_err *err)
{
    if (dp_conf_load_text(path, text, keys, extra_sections, c, err) < 0 || (text && read_lists(c, path, text, err) < 0) ||
        check_runs(c, path ? path : "default", err) < 0 || check_log(c, path ? path : "default", err) < 0)
        return -1;
    return dp_config_expand(c, node, err);
}

struct dp_config *dp_config_load(const char *path, const char *node, struct dp_err *err)
{
    struct dp_config *c = calloc(1, sizeof *c);
    char *text = NULL;

    if (!c)
        dp_err_set(err, DP_ENOMEM, "out of memory");
    else if (path)
        text = dp_conf_read(path, check_owner, err);
    if (!c || (path && !text) || read_config(c, path, text, node, err) < 0) {
        dp_config_destroy(c);
        c = NULL;
    }
    free(text);
    return c;
}

void dp_config_destroy(struct dp_config *c)
{
    free(c);
}

void dp_config_find_node(const struct dp_config *c, const char *name, struct dp_node_entry *out)
{
    for (uint32_t i = 0; i < c->n_nodes; i++)
        if (!strcmp(c->node[i].name, name)) {
            *out = c->node[i];
            return;
        }
    memset(out, 0, sizeof *out);
    snprintf(out->name, sizeof out->name, "%.63s", name);
    snprintf(out->address, sizeof out->address, "%.63s", name);
    out->port = (uint16_t)c->port;
}

static bool is_loopback(const char *address)
{
    return !strncmp(address, "127.", 4);
}

bool dp_config_is_shared_host(const struct dp_config *c, const char *node)
{
    struct dp_node_entry self;

    dp_config_find_node(c, node, &self);
    for (uint32_t i = 0; i < c->n_nodes; i++)
        if (strcmp(c->node[i].name, node) && (!strcmp(c->node[i].address, self.address) ||
                                              (is_loopback(c->node[i].address) && is_loopback(self.address))))
            return true;
    return false;
}

static const struct dp_run_conf *run_of(const struct dp_config *c, const char *partition)
{
    for (uint32_t i = 0; i < c->n_partitions; i++)
        if (!strcmp(c->partition[i].name, partition))
            return &c->partition[i].run;
    return &c->run;
}

/* Words of the enums were checked against `choices` when they were read. */
static uint8_t mode_of(const char *text)
{
    int mode = dp_mode_parse(text);

    return mode < 0 ? DP_MODE_OFF : (uint8_t)mode;
}

/* auto: a run that is held to the time without DynPipe gives back what saves device-seconds, and no more. */
static uint8_t objective_of(const struct dp_run_conf *r, uint8_t reference)
{
    if (!strcmp(r->objective, "auto"))
        return reference == DP_REF_FIXED ? DP_OBJ_EFFICIENCY : DP_OBJ_DEVICES;
    return !strcmp(r->objective, "efficiency") ? DP_OBJ_EFFICIENCY : DP_OBJ_DEVICES;
}

static void limits_of(const struct dp_run_conf *r, struct dp_run_limits *out)
{
    int reference = dp_reference_parse(r->reference);

    memset(out, 0, sizeof *out);
    out->mode = mode_of(r->default_mode);
    out->pack.reference = reference < 0 ? DP_REF_FIXED : (uint8_t)reference;
    out->pack.packing = !strcmp(r->packing, "first-fit") ? DP_PACKING_FIRST_FIT : DP_PACKING_BEST;
    out->pack.min_devices = (uint32_t)r->min_devices;
    out->pack.max_slowdown = r->default_slowdown;
    snprintf(out->policy, sizeof out->policy, "%s", r->policy);
    out->hysteresis = r->hysteresis;
    out->cooldown_s = r->cooldown_s;
    out->warmup_reports = (uint32_t)r->warmup_reports;
    out->vote_timeout_s = r->vote_timeout_s;
    out->stall_s = r->stall_s;
    out->stall_end_s = r->stall_end_s;
    out->gone_timeout_s = r->gone_timeout_s;
    out->grace_s = r->grace_s;
    out->confirm_s = r->confirm_s;
    out->link_latency_s = r->link_latency_us * 1e-6;
    out->link_bytes_per_s = r->link_gbytes_per_s * 1e9;
    out->policy_timeout_s = r->policy_timeout_s;
}

static void narrow_memory(const struct dp_run_conf *r, const struct dp_msg_step_start *asked, struct dp_run_limits *out,
                          char note[256])
{
    uint32_t least = (uint32_t)r->memory_margin, wish = !strcmp(r->memory, "on") ? DP_MEMORY_ON : 0;

    if (asked->options_set & DP_OPT_MEMORY)
        wish = asked->memory;
    if (wish && !strcmp(r->memory, "off")) {
        if (asked->options_set & DP_OPT_MEMORY)
            snprintf(note, 256, "the site gives no host memory back");
        wish = 0;
    }
    out->memory_margin = wish == DP_MEMORY_ON || (wish && wish < least) ? least : wish;
    if (wish && wish < least)
        snprintf(note, 256, "the site keeps at least %u percent more memory than a run needs", least);
    if (out->memory_margin > DP_MEMORY_MARGIN_MAX)
        out->memory_margin = DP_MEMORY_MARGIN_MAX;
}

/* Only who asks for it grows, and never to fewer than the run begins with. */
static void narrow_growth(const struct dp_run_conf *r, const struct dp_msg_step_start *asked, struct dp_run_limits *out, char note[256])
{
    uint32_t most = (uint32_t)r->max_gpus;

    out->growth = (struct dp_growth_limits){.slices = asked->slices, .wait_s = r->growth_wait_s, .cooldown_s = r->growth_cooldown_s};
    if (!(asked->options_set & DP_OPT_MAX_GPUS) || !asked->slices || out->mode < DP_MODE_BALANCE)
        return;
    if (asked->max_gpus > most)
        snprintf(note, 256, most ? "the site lets a run grow to at most %u GPUs" : "the site lets no run grow", most);
    out->growth.max_gpus = asked->max_gpus < most ? asked->max_gpus : most;
    if (out->growth.max_gpus < asked->slices)
        out->growth.max_gpus = 0;
}

/* Where nobody could go on with them (daemon/coord/members/regroup.c) they would cost time for nothing. */
static void narrow_copies(const struct dp_run_conf *r, const struct dp_msg_step_start *asked, struct dp_run_limits *out, char note[256])
{
    bool is_asked = asked->options_set & DP_OPT_COPIES;

    out->copies = is_asked ? asked->copies : (uint32_t)r->copies;
    if (out->copies > DP_COPIES_MAX)
        out->copies = DP_COPIES_MAX;
    if (out->copies && out->mode < DP_MODE_BALANCE) {
        out->copies = 0;
        if (is_asked)
            snprintf(note, 256, "no copies of layers: in mode %s nobody goes on where a worker is lost", dp_mode_name(out->mode));
    }
}

void dp_config_limits(const struct dp_config *c, const char *partition, const struct dp_msg_step_start *asked,
                      struct dp_run_limits *out, char note[256])
{
    const struct dp_run_conf *r = run_of(c, partition);
    const struct dp_site_policy_conf *site;
    uint32_t set = asked->options_set;

    note[0] = '\0';
    limits_of(r, out);
    if (set & DP_OPT_MODE)
        out->mode = asked->mode;
    if (out->mode > mode_of(r->max_mode)) {
        out->mode = mode_of(r->max_mode);
        snprintf(note, 256, "the site allows mode %s here", r->max_mode);
    }
    if (set & DP_OPT_REFERENCE && asked->reference <= DP_REF_FIXED)
        out->pack.reference = asked->reference;
    out->pack.objective = objective_of(r, out->pack.reference);
    if (set & DP_OPT_POLICY && is_listed(r->policies, asked->policy))
        snprintf(out->policy, sizeof out->policy, "%s", asked->policy);
    else if (set & DP_OPT_POLICY)
        snprintf(note, 256, "policy %.40s is not allowed here (%.80s), using %.40s", asked->policy,
                 r->policies, r->policy);
    site = find_site_policy(c, out->policy);
    if (site) {
        memcpy(out->policy_file, site->file, sizeof out->policy_file);
        memcpy(out->policy_arguments, site->arguments, sizeof out->policy_arguments);
    }
    if (set & DP_OPT_STALL_END && asked->stall_end_s && (!(r->stall_end_s > 0) || asked->stall_end_s <= r->stall_end_s))
        out->stall_end_s = asked->stall_end_s;
    else if (set & DP_OPT_STALL_END)
        snprintf(note, 256, "the site ends a run that is stalled for %g s", r->stall_end_s);
    narrow_memory(r, asked, out, note);
    narrow_growth(r, asked, out, note);
    narrow_copies(r, asked, out, note);
    if (set & DP_OPT_MIN_GPUS && asked->min_gpus > out->pack.min_devices)
        out->pack.min_devices = asked->min_gpus;
    if (set & DP_OPT_MAX_SLOWDOWN && asked->max_slowdown >= 0 && asked->max_slowdown <= r->max_slowdown)
        out->pack.max_slowdown = asked->max_slowdown;
    else if (set & DP_OPT_MAX_SLOWDOWN) {
        out->pack.max_slowdown = r->max_slowdown;
        snprintf(note, 256, "the site allows a slowdown of at most %g percent", r->max_slowdown);
    }
}

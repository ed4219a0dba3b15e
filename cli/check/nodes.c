/* SPDX-License-Identifier: BSD-3-Clause */
/* Every node is asked: its daemon looks at what only that node can see (daemon/query/node_look.c), and at the way to the
 * node that will coordinate: the job's batch host, else the first node of the list. All at a time, so that many nodes
 * that drop packets cost one time-out. */
#include "config.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/ask/link.h"
#include "cli/check/check.h"
#include "cli/command/probe.h"
#include "cli/command/slurm_job.h"
#include "cli/show/json.h"
#include "common/clock.h"
#include "common/slurm/libslurm.h"

/* So many are asked without --all, and at a time. */
enum { MAX_ASKED = 16, AT_A_TIME = 32, TRIES = 10 };

#define CLOCK_WARN_S 5.0  /* people compare logs */
#define CLOCK_FAIL_S 30.0 /* credentials live 60 s */

struct asked {
    const struct dp_check *check;
    const char *node, *target;
    json_t *doc;   /* its answer, NULL: none */
    double skew_s; /* its clock minus ours */
    struct dp_err err;
};

struct pool {
    struct asked *asked;
    size_t n, next;
    pthread_mutex_t lock;
};

static void ask(struct asked *a)
{
    const struct dp_check *c = a->check;
    struct timespec pause = {.tv_nsec = 300000000};
    char *text = NULL;

    for (int i = 0; i < TRIES; i++) {
        if (dp_link_check_node(c->config, c->config_path, a->node, a->target, c->cli->job_id, &text, &a->err) == 0)
            break;
        if (!strstr(a->err.text, DP_CHECK_BUSY))
            return;
        nanosleep(&pause, NULL);
    }
    a->doc = text ? json_loads(text, 0, NULL) : NULL;
    a->skew_s = dp_json_number(a->doc, "wall_s") - (double)dp_wall_ns() / 1e9;
    if (!a->doc)
        dp_err_set(&a->err, DP_EPROTO, "its answer is not valid JSON");
    free(text);
}

static void *ask_some(void *arg)
{
    struct pool *p = arg;
    size_t i;

    for (;;) {
        pthread_mutex_lock(&p->lock);
        i = p->next++;
        pthread_mutex_unlock(&p->lock);
        if (i >= p->n)
            return NULL;
        ask(&p->asked[i]);
    }
}

static void ask_all(struct asked *asked, size_t n)
{
    struct pool p = {.asked = asked, .n = n};
    pthread_t thread[AT_A_TIME];
    size_t n_threads = 0;

    pthread_mutex_init(&p.lock, NULL);
    while (n_threads < AT_A_TIME && n_threads + 1 < n && pthread_create(&thread[n_threads], NULL, ask_some, &p) == 0)
        n_threads++;
    ask_some(&p);
    while (n_threads)
        pthread_join(thread[--n_threads], NULL);
    pthread_mutex_destroy(&p.lock);
}

/* ---- whom to ask ---- */

static void print_name(const char *name, void *out)
{
    fprintf(out, "%s\n", name);
}

/* In the child: the nodes of a hostlist, or of a job, one a line. */
static int print_nodes(void *arg, FILE *out)
{
    const struct dp_cli *cli = arg;
    struct dp_slurm_job job = {0};
    struct dp_err err;
    uint32_t n;

    dp_slurm_open();
    if (!cli->nodes && dp_slurm_job_load(cli->job_id, &job, &err) < 0) {
        fprintf(stderr, "job %u: %s\n", cli->job_id, err.text);
        return 1;
    }
    n = dp_slurm_each_host(cli->nodes ? cli->nodes : job.nodes, true, print_name, out);
    if (!n && cli->nodes)
        fprintf(stderr, "--nodes=%s: not a list of nodes\n", cli->nodes);
    else if (!n)
        fprintf(stderr, "job %u: the job has no nodes\n", cli->job_id);
    dp_slurm_job_release(&job);
    return n == 0;
}

/* Nodes of --nodes or of the job, else of Slurm, else those that dynpipe.conf lists. New reference. */
static json_t *nodes_to_ask(struct dp_check *c)
{
    json_t *names = json_array(), *known = dp_json_list(c->slurm, "nodes");
    char *text = NULL, *rest, *name;
    struct dp_err err;

    if (c->cli->nodes || c->cli->job_id) {
        if (dp_probe(print_nodes, (void *)c->cli, 20, &text, &err) < 0)
            dp_check_note(c, DP_FIND_FAIL, "nodes", NULL, "%s", err.text);
        for (rest = text; rest && (name = strsep(&rest, "\n"));)
            if (*name)
                json_array_append_new(names, json_string(name));
        free(text);
    } else if (json_array_size(known) > 0) {
        json_array_extend(names, known);
    } else {
        for (uint32_t i = 0; i < c->config->n_nodes; i++)
            json_array_append_new(names, json_string(c->config->node[i].name));
    }
    return names;
}

/* ---- what they said ---- */

/* A finding that several nodes share is one line. */
static void note_nodes(struct dp_check *c, enum dp_finding kind, const char *name, const char *todo, json_t *nodes,
                       const char *text)
{
    size_t n = json_array_size(nodes), i;
    char list[300] = "";
    json_t *node;

    json_array_foreach(nodes, i, node) {
        size_t used = strlen(list);

        if (i == 8 && n > 9) {
            snprintf(list + used, sizeof list - used, " and %zu more", n - i);
            break;
        }
        snprintf(list + used, sizeof list - used, "%s%.40s", i ? ", " : "", json_string_value(node));
    }
    dp_check_note(c, kind, name, todo, "%s: %s", list, text);
    dp_check_set_nodes(c, nodes);
}

/* Collect (status, name, text, todo) with the nodes that said it: {"key": {..., "nodes": [...]}}. */
static void collect(json_t *all, const char *node, const char *status, const char *name, const char *text,
                    const char *todo)
{
    char key[1400];
    json_t *entry;

    snprintf(key, sizeof key, "%s %s %s", status, name, text);
    entry = json_object_get(all, key);
    if (!entry) {
        entry = json_pack("{s:s, s:s, s:s, s:s, s:[]}", "status", status, "name", name, "text", text, "todo", todo ? todo : "",
                          "nodes");
        json_object_set_new(all, key, entry);
    }
    json_array_append_new(json_object_get(entry, "nodes"), json_string(node));
}

static void collect_findings(json_t *all, const struct asked *a)
{
    char status[16], name[64], text[1024], todo[512];
    const json_t *f;
    size_t i;

    json_array_foreach(dp_json_list(a->doc, "findings"), i, f) {
        dp_json_text(status, sizeof status, f, "status", "ok");
        if (strcmp(status, "ok") != 0)
            collect(all, a->node, status, dp_json_text(name, sizeof name, f, "name", "node"),
                    dp_json_text(text, sizeof text, f, "text", ""), dp_json_text(todo, sizeof todo, f, "todo", ""));
    }
    if (*dp_json_text(text, sizeof text, a->doc, "error", ""))
        collect(all, a->node, "FAIL", "node", text, "see its log");
}

static void collect_state(json_t *all, const struct asked *a)
{
    double skew = fabs(a->skew_s);
    char text[256], version[64];

    if (skew > CLOCK_WARN_S) {
        snprintf(text, sizeof text, "its clock is %.0f s %s this one's", skew, a->skew_s > 0 ? "ahead of" : "behind");
        collect(all, a->node, skew > CLOCK_FAIL_S ? "FAIL" : "warn", "clock", text, "set the clocks of all nodes (NTP)");
    }
    if (strcmp(dp_json_text(version, sizeof version, a->doc, "version", "?"), PACKAGE_VERSION) != 0) {
        snprintf(text, sizeof text, "dynpiped %s there, this is dynpipe %s", version, PACKAGE_VERSION);
        collect(all, a->node, "warn", "version", text, "install the same version on every node");
    } else if (json_integer_value(json_object_get(a->doc, "protocol")) != DP_PROTO_VERSION) {
        snprintf(text, sizeof text, "its daemon speaks protocol version %d, this is version %d",
                 (int)json_integer_value(json_object_get(a->doc, "protocol")), DP_PROTO_VERSION);
        collect(all, a->node, "warn", "version", text, "install the same version on every node");
    }
    if (a->check->cli->job_id && dp_json_is(a->doc, "job", "unknown")) {
        snprintf(text, sizeof text, "job %u was not registered there: no step of it loaded spank_dynpipe.so", a->check->cli->job_id);
        collect(all, a->node, "FAIL", "job", text,
                "was the job started with --dynpipe? was the daemon up at its start? see plugstack.conf of that node");
    }
}

static void note_all(struct dp_check *c, json_t *all)
{
    const char *key;
    json_t *e;

    json_object_foreach(all, key, e) {
        enum dp_finding kind = dp_json_is(e, "status", "FAIL") ? DP_FIND_FAIL : DP_FIND_WARN;
        const char *todo = json_string_value(json_object_get(e, "todo"));

        note_nodes(c, kind, json_string_value(json_object_get(e, "name")), todo && *todo ? todo : NULL,
                   json_object_get(e, "nodes"), json_string_value(json_object_get(e, "text")));
    }
}

static void report(struct dp_check *c, const char *local, const struct asked *asked, size_t n, size_t known,
                   const char *target)
{
    json_t *all = json_object();
    size_t fine = 0;

    for (size_t i = 0; i < n; i++) {
        if (!asked[i].doc && asked[i].err.code == DP_ENOTSUP) {
            collect(all, asked[i].node, "warn", "version", asked[i].err.text,
                    "upgrade dynpiped there; until then no run with that node gives nodes back (man dynpiped, UPGRADE)");
            continue;
        }
        if (!asked[i].doc) {
            collect(all, asked[i].node, "FAIL", "nodes", asked[i].err.text,
                    strstr(asked[i].err.text, "nvalid credential") ? "the same munge key on every node"
                    : strstr(asked[i].err.text, "xpired") || strstr(asked[i].err.text, "ewound") ? "set the clocks of both nodes"
                    : "start dynpiped there; open its port between the nodes");
            continue;
        }
        fine++;
        if (strcmp(asked[i].node, local) != 0) /* its own trouble was told already */
            dp_check_note_trouble(c, asked[i].doc);
        collect_findings(all, &asked[i]);
        collect_state(all, &asked[i]);
    }
    if (fine == n)
        dp_check_note(c, DP_FIND_OK, "nodes", NULL, "the daemons of %zu of %zu nodes were asked; all answered", n, known);
    if (fine && json_object_size(all) == 0)
        dp_check_note(c, DP_FIND_OK, "inside", NULL, "plugin, state_dir, munge and clock are right on %s%s%s",
                      n > 1 ? "all of them" : asked[0].node, n > 1 ? ", and all reach " : "", n > 1 ? target : "");
    note_all(c, all);
    json_decref(all);
}

void dp_check_nodes(struct dp_check *c, const char *local)
{
    json_t *names = nodes_to_ask(c);
    size_t known = json_array_size(names), n = !c->cli->all && !c->cli->nodes && !c->cli->job_id && known > MAX_ASKED ? MAX_ASKED : known;
    struct asked *asked = calloc(n + 1, sizeof *asked);
    char target[64] = "";
    struct dp_err err;

    if (n)
        snprintf(target, sizeof target, "%.63s", json_string_value(json_array_get(names, 0)));
    if (c->cli->job_id && dp_batch_host(c->cli->job_id, target, sizeof target, &err) < 0)
        dp_check_note(c, DP_FIND_WARN, "job", NULL, "%s", err.text);
    for (size_t i = 0; asked && i < n; i++)
        asked[i] = (struct asked){.check = c, .node = json_string_value(json_array_get(names, i)), .target = target};
    if (asked && n) {
        ask_all(asked, n);
        report(c, local, asked, n, known, target);
        for (size_t i = 0; i < n; i++)
            json_decref(asked[i].doc);
    }
    free(asked);
    json_decref(names);
}

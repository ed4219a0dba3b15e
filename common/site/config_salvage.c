/* SPDX-License-Identifier: BSD-3-Clause */
/* What a command needs of a configuration that is wrong: where the daemons are. They run on with what they read
 * before, so a mistake in the file must not hide them from everybody. A section that is not known (a typo) counts
 * as `daemon`. Each value passes the same checks as in a file that is right, or the default stays. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "common/conf/conf_scan.h"
#include "common/conf/conf_text.h"
#include "common/site/daemon_config.h"

struct salvage {
    struct dp_config *c;
    unsigned entry; /* of nodes, the newest that was seen */
};

static bool is_one_of(const char *word, const char *const *list)
{
    while (*list && strcmp(*list, word) != 0)
        list++;
    return *list != NULL;
}

static void take_node(struct salvage *s, const struct dp_conf_found *f)
{
    struct dp_node_entry *e;
    unsigned long port;

    if (f->entry > s->entry && s->c->n_nodes < DP_MAX_NODE_ENTRIES) {
        s->entry = f->entry;
        memset(&s->c->node[s->c->n_nodes++], 0, sizeof s->c->node[0]);
    }
    if (f->entry != s->entry || !s->c->n_nodes)
        return;
    e = &s->c->node[s->c->n_nodes - 1];
    if (!strcmp(f->name, "name") && strlen(f->value) < sizeof e->name) {
        snprintf(e->name, sizeof e->name, "%s", f->value);
    } else if (!strcmp(f->name, "address") && strlen(f->value) < sizeof e->address) {
        snprintf(e->address, sizeof e->address, "%s", f->value);
    } else if (!strcmp(f->name, "port")) {
        port = strtoul(f->value, NULL, 0);
        e->port = port <= 65535 ? (uint16_t)port : 0;
    }
}

static void take(void *arg, const struct dp_conf_found *f)
{
    static const char *const wanted[] = {"socket", "port", "munge_socket", "run_user", "slurm", NULL};
    static const char *const others[] = {"run", "partitions", "site_policies", NULL};
    struct salvage *s = arg;
    char assignment[1200];

    if (!strcmp(f->section, "nodes")) {
        take_node(s, f);
    } else if (!is_one_of(f->section, others) && is_one_of(f->name, wanted)) {
        snprintf(assignment, sizeof assignment, "daemon.%s=%s", f->name, f->value);
        (void)dp_config_set(s->c, assignment, NULL);
    }
}

/* What an entry leaves out is as in a file that is right. */
static void complete_nodes(struct dp_config *c)
{
    for (uint32_t i = 0; i < c->n_nodes; i++) {
        struct dp_node_entry *e = &c->node[i];

        if (!e->address[0])
            memcpy(e->address, e->name, sizeof e->address);
        if (!e->port)
            e->port = (uint16_t)c->port;
    }
}

struct dp_config *dp_config_salvage(const char *path, const char *node, struct dp_err *err)
{
    char *text = dp_conf_text_read(path, err);
    struct salvage s = {0};

    if (!text)
        return NULL;
    s.c = dp_config_load(NULL, "%n", err); /* the defaults, as they are written */
    if (s.c) {
        dp_conf_scan(text, take, &s);
        complete_nodes(s.c);
    }
    free(text);
    if (s.c && dp_config_expand(s.c, node, err) < 0) {
        dp_config_destroy(s.c);
        return NULL;
    }
    return s.c;
}

/* What a command needs of a configuration that is wrong: where the daemons are. They run on with what they read
 * before, so a mistake in the file must not hide them from everybody.
 *
 * The text is not parsed but looked through for NAME = VALUE. A section begins with its name before a bracket,
 * wherever it stands, so that a bracket that is missing loses nothing; one that is not known (a typo) counts as
 * `daemon`. Each value passes the same checks as in a file that is right, or the default stays. */
#include "config.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "common/conf_text.h"
#include "daemon/daemon_config.h"

struct salvage {
    struct dp_config *c;
    char section[32], name[32]; /* name: "" after its value */
    bool is_assigned;           /* = or : stood behind the name */
    struct dp_node_entry entry; /* of nodes, name "": none begun */
};

static bool is_one_of(const char *word, const char *const *list)
{
    while (*list && strcmp(*list, word) != 0)
        list++;
    return *list != NULL;
}

static void end_entry(struct salvage *s)
{
    struct dp_node_entry *e = &s->entry;

    if (e->name[0] && s->c->n_nodes < DP_MAX_NODE_ENTRIES) {
        if (!e->address[0])
            memcpy(e->address, e->name, sizeof e->address);
        if (!e->port)
            e->port = (uint16_t)s->c->port;
        s->c->node[s->c->n_nodes++] = *e;
    }
    memset(e, 0, sizeof *e);
}

static void take_entry(struct salvage *s, const char *value)
{
    unsigned long port;

    if (!strcmp(s->name, "name") && strlen(value) < sizeof s->entry.name) {
        snprintf(s->entry.name, sizeof s->entry.name, "%s", value);
    } else if (!strcmp(s->name, "address") && strlen(value) < sizeof s->entry.address) {
        snprintf(s->entry.address, sizeof s->entry.address, "%s", value);
    } else if (!strcmp(s->name, "port")) {
        port = strtoul(value, NULL, 0);
        s->entry.port = port <= 65535 ? (uint16_t)port : 0;
    }
}

/* token: a string with or without its last quote, a number or a word. */
static void take_value(struct salvage *s, const char *token, size_t n)
{
    static const char *const wanted[] = {"socket", "port", "munge_socket", "run_user", "slurm", NULL};
    static const char *const others[] = {"run", "partitions", "site_policies", NULL};
    size_t from = *token == '"';
    char value[256], assignment[320];

    n = strcspn(token + from, from ? "\"\n" : "\n") < n - from ? strcspn(token + from, from ? "\"\n" : "\n") : n - from;
    if (!from && n > 1 && isdigit((unsigned char)*token))
        n -= token[n - 1] == 'L';
    if (n >= sizeof value || memchr(token + from, '\\', n))
        return;
    memcpy(value, token + from, n);
    value[n] = '\0';
    if (!strcmp(s->section, "nodes")) {
        take_entry(s, value);
    } else if (!is_one_of(s->section, others) && is_one_of(s->name, wanted)) {
        snprintf(assignment, sizeof assignment, "daemon.%s=%s", s->name, value);
        (void)dp_config_set(s->c, assignment, NULL);
    }
}

static void take_token(struct salvage *s, const char *token, size_t n)
{
    if (*token == '=' || *token == ':') {
        s->is_assigned = s->name[0] != '\0';
    } else if (*token == '{' || *token == '(') {
        if (s->is_assigned)
            memcpy(s->section, s->name, sizeof s->section);
        end_entry(s);
        s->is_assigned = false;
        s->name[0] = '\0';
    } else if (*token == '}' || *token == ')' || *token == ';' || *token == ',') {
        s->name[0] = '\0';
        s->is_assigned = false;
    } else if (s->is_assigned) {
        take_value(s, token, n);
        s->name[0] = '\0';
        s->is_assigned = false;
    } else if (n < sizeof s->name) {
        memcpy(s->name, token, n);
        s->name[n] = '\0';
    }
}

struct dp_config *dp_config_salvage(const char *path, const char *node, struct dp_err *err)
{
    struct salvage s = {0};
    char *text = dp_conf_text_read(path, err);
    const char *token;
    size_t n = 0;

    if (!text)
        return NULL;
    s.c = dp_config_load(NULL, "%n", err); /* the defaults, as they are written */
    if (!s.c) {
        free(text);
        return NULL;
    }
    for (const char *p = text; (token = dp_conf_text_token(p, &n)); p = token + n) {
        if (*token == '"') { /* one that is not closed ends with its line */
            size_t line = strcspn(token, "\n");

            n = n > line ? line : n;
        }
        take_token(&s, token, n);
    }
    end_entry(&s);
    free(text);
    if (dp_config_expand(s.c, node, err) < 0) {
        dp_config_destroy(s.c);
        return NULL;
    }
    return s.c;
}

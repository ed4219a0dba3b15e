/* SPDX-License-Identifier: BSD-3-Clause */
/* PipeDream's graph.txt (msr-fiddle/pipedream, graph/graph.py, Node.from_str):
 *
 *   node4 -- Linear(8, 8) -- forward_compute_time=1.5, backward_compute_time=3, activation_size=64,
 * parameter_size=256 <TAB>node1 -- node4
 *
 * Times are ms, sizes bytes; activation_size may be a list "[64; 8; 8]" that counts in sum; " -- stage_id=2"
 * of an earlier plan may follow and is ignored. Nodes come in any order, edges anywhere behind or before
 * them. A node without predecessors whose description begins with "Input" carries the time of loading data
 * (half a second in the published profiles); as PipeDream does, its numbers are taken for 0.
 */
#include "config.h"

#include "policies/graph/read/read.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char separator[] = " -- ";

struct edge_line {
    char *from, *to; /* into the text */
    uint32_t line;
};

struct reader {
    const char *file;
    uint32_t line;
    struct dp_graph *g;
    struct edge_line *edge;
    uint32_t n_edges, room_edges;
    uint32_t *by_name;   /* [n_nodes] indices, sorted by name */
    uint32_t *node_line; /* [n_nodes] */
    uint32_t room_lines;
    struct dp_err *err;
};

static int fail(struct reader *r, uint32_t line)
{
    return dp_err_prefix(r->err, "%s:%u", r->file, line);
}

static int fail_text(struct reader *r, const char *text)
{
    return dp_err_set(r->err, DP_EINVAL, "%s:%u: %s", r->file, r->line, text);
}

static int no_memory(struct reader *r)
{
    return dp_err_set(r->err, DP_ENOMEM, "%s: out of memory", r->file);
}

static void trim_end(char *s)
{
    char *end = s + strlen(s);

    while (end > s && (end[-1] == ' ' || end[-1] == '\r' || end[-1] == '\t'))
        *--end = '\0';
}

static char *trim(char *s)
{
    trim_end(s);
    while (*s == ' ' || *s == '\t')
        s++;
    return s;
}

/* A decimal number that fills the text; hexadecimal, nan and inf are none. */
static int parse_number(const char *text, double *out)
{
    char *end;

    if (!*text || strspn(text, "0123456789.eE+-") != strlen(text))
        return -1;
    *out = strtod(text, &end);
    return *end || end == text ? -1 : 0;
}

/* "[a; b; c]" counts as a + b + c. */
static int parse_sum(char *text, double *out)
{
    size_t n = strlen(text);
    char *part;
    double one;

    *out = 0.0;
    if (*text != '[')
        return parse_number(text, out);
    if (n < 2 || text[n - 1] != ']')
        return -1;
    text[n - 1] = '\0';
    text++;
    while ((part = strsep(&text, ";"))) {
        if (parse_number(trim(part), &one) < 0 || one < 0.0)
            return -1;
        *out += one;
    }
    return 0;
}

/* "name=" at the head of *rest, and its value up to the next ", ". */
static char *take_field(char **rest, const char *name)
{
    size_t n = strlen(name);
    char *value, *end;

    if (!*rest || strncmp(*rest, name, n) != 0 || (*rest)[n] != '=')
        return NULL;
    value = *rest + n + 1;
    end = strstr(value, ", ");
    if (end)
        *end = '\0';
    *rest = end ? end + 2 : NULL;
    return trim(value);
}

static int take_costs(struct reader *r, char *text, struct dp_graph_node *node)
{
    static const char *const names[] = {"forward_compute_time", "backward_compute_time", "activation_size",
                                        "parameter_size"};
    uint64_t *const out[] = {&node->forward_ns, &node->backward_ns, &node->output_bytes, &node->param_bytes};

    for (int i = 0; i < 4; i++) {
        char *value = take_field(&text, names[i]);
        double v;

        if (!value)
            return dp_err_set(r->err, DP_EINVAL, "%s:%u: '%s=' is missing", r->file, r->line, names[i]);
        if ((i == 2 ? parse_sum(value, &v) : parse_number(value, &v)) < 0)
            return dp_err_set(r->err, DP_EINVAL, "%s:%u: %s='%.40s' is not a number", r->file, r->line,
                              names[i], value);
        if ((i < 2 ? dp_graph_take_time(v, 1e6, names[i], out[i], r->err)
                   : dp_graph_take_bytes(v, names[i], out[i], r->err)) < 0)
            return fail(r, r->line);
    }
    if (text)
        return fail_text(r, "something follows the parameter_size");
    if (node->param_bytes > DP_GRAPH_MAX_BYTES / DP_GRAPH_STATE_OF_PARAMETERS)
        return dp_err_set(r->err, DP_EINVAL, "%s:%u: parameter_size=%llu: at most %llu bytes, since their state is %d times that", r->file,
                          r->line, (unsigned long long)node->param_bytes,
                          (unsigned long long)(DP_GRAPH_MAX_BYTES / DP_GRAPH_STATE_OF_PARAMETERS), DP_GRAPH_STATE_OF_PARAMETERS);
    node->bytes = DP_GRAPH_STATE_OF_PARAMETERS * node->param_bytes;
    node->kept_bytes = node->output_bytes;
    return 0;
}

/* The last " -- name=" of a line: a description may hold " -- " of its own. */
static char *find_last(char *text, const char *what)
{
    char *found = NULL;

    for (char *at = strstr(text, what); at; at = strstr(at + 1, what))
        found = at;
    return found;
}

static int keep_node(struct reader *r, const struct dp_graph_node *node)
{
    uint32_t n = r->g->n_nodes;

    if (n == r->room_lines) {
        uint32_t room = n ? 2 * n : 64;
        uint32_t *l = realloc(r->node_line, room * sizeof *l);

        if (!l)
            return no_memory(r);
        r->node_line = l;
        r->room_lines = room;
    }
    if (dp_graph_add_node(r->g, node, r->err) < 0)
        return fail(r, r->line);
    r->node_line[n] = r->line;
    return 0;
}

static int take_node(struct reader *r, char *text)
{
    struct dp_graph_node node = {.colour = r->g->n_nodes};
    char *description = strstr(text, separator), *costs, *stage, *end;

    if (!description)
        return fail_text(r, "neither a node (ID -- DESCRIPTION -- COSTS) nor an edge (a tab, then ID -- ID)");
    costs = find_last(description, " -- forward_compute_time=");
    if (!costs)
        return fail_text(r, "a node without ' -- forward_compute_time='");
    stage = strstr(costs + 1, " -- ");
    if (stage) {
        if (strncmp(stage, " -- stage_id=", 13) != 0 || strtol(stage + 13, &end, 10) < 0 || *end ||
            end == stage + 13)
            return fail_text(r, "what follows the costs is not ' -- stage_id=NUMBER'");
        *stage = '\0';
    }
    *costs = '\0';
    costs += sizeof separator - 1;
    *description = '\0';
    description += description + 1 < costs ? sizeof separator - 1 : 0;
    node.name = trim(text);
    if (!*node.name)
        return fail_text(r, "a node without an id");
    if (take_costs(r, costs, &node) < 0)
        return -1;
    node.text = description;
    return keep_node(r, &node);
}

static int take_edge(struct reader *r, char *text)
{
    char *to = strstr(text, separator);

    if (!to)
        return fail_text(r, "an edge is a tab, then ID -- ID");
    *to = '\0';
    to = trim(to + sizeof separator - 1);
    text = trim(text);
    if (!*text || !*to || strstr(to, separator))
        return fail_text(r, "an edge is a tab, then ID -- ID");
    if (r->n_edges == DP_GRAPH_MAX_EDGES)
        return fail_text(r, "too many edges");
    if (r->n_edges == r->room_edges) {
        uint32_t room = r->n_edges ? 2 * r->n_edges : 64;
        struct edge_line *e = realloc(r->edge, room * sizeof *e);

        if (!e)
            return no_memory(r);
        r->edge = e;
        r->room_edges = room;
    }
    r->edge[r->n_edges++] = (struct edge_line){text, to, r->line};
    return 0;
}

/* ---- names ---- */

static int by_name(const void *a, const void *b, void *nodes)
{
    const struct dp_graph_node *node = nodes;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    int order = strcmp(node[x].name, node[y].name);

    return order ? order : x < y ? -1 : 1;
}

static int index_names(struct reader *r)
{
    struct dp_graph *g = r->g;

    r->by_name = malloc(g->n_nodes * sizeof *r->by_name);
    if (!r->by_name)
        return no_memory(r);
    for (uint32_t i = 0; i < g->n_nodes; i++)
        r->by_name[i] = i;
    qsort_r(r->by_name, g->n_nodes, sizeof *r->by_name, by_name, g->node);
    for (uint32_t i = 1; i < g->n_nodes; i++) {
        const char *name = g->node[r->by_name[i]].name;

        if (!strcmp(g->node[r->by_name[i - 1]].name, name))
            return dp_err_set(r->err, DP_EINVAL, "%s:%u: the id '%.80s' is that of line %u, too", r->file,
                              r->node_line[r->by_name[i]], name, r->node_line[r->by_name[i - 1]]);
    }
    return 0;
}

static int64_t find_name(const struct reader *r, const char *name)
{
    uint32_t low = 0, high = r->g->n_nodes;

    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        int order = strcmp(r->g->node[r->by_name[mid]].name, name);

        if (order == 0)
            return r->by_name[mid];
        if (order < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return -1;
}

static int connect(struct reader *r)
{
    for (uint32_t i = 0; i < r->n_edges; i++) {
        const struct edge_line *e = &r->edge[i];
        int64_t from = find_name(r, e->from), to = find_name(r, e->to);

        if (from < 0 || to < 0)
            return dp_err_set(r->err, DP_EINVAL, "%s:%u: there is no node '%.80s'", r->file, e->line,
                              from < 0 ? e->from : e->to);
        if (dp_graph_add_edge(r->g, (uint32_t)from, (uint32_t)to, e->line, r->err) < 0)
            return fail(r, e->line);
    }
    return 0;
}

/* ---- the whole ---- */

static int mark_inputs(struct reader *r)
{
    struct dp_graph *g = r->g;
    bool *has_source = calloc(g->n_nodes, sizeof *has_source);

    if (!has_source)
        return no_memory(r);
    for (uint32_t e = 0; e < g->n_edges; e++)
        has_source[g->edge[e].to] = true;
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        struct dp_graph_node *node = &g->node[i];

        if (has_source[i] || strncmp(node->text, "Input", 5) != 0)
            continue;
        node->is_input = true;
        node->forward_ns = node->backward_ns = node->output_bytes = node->param_bytes = node->bytes =
            node->kept_bytes = 0;
    }
    free(has_source);
    return 0;
}

static int read_lines(struct reader *r, char *text)
{
    char *line;

    while ((line = strsep(&text, "\n"))) {
        /* some editors make blanks of tabs; with nothing before its "--" it is a node without an id */
        bool is_edge = *line == '\t' || (*line == ' ' && strncmp(line + strspn(line, " \t"), "-- ", 3) != 0);

        r->line++;
        trim_end(line);
        if (*line && (is_edge ? take_edge(r, line) : take_node(r, line)) < 0)
            return -1;
    }
    return 0;
}

int dp_graph_parse_profile(const char *name, char *text, size_t bytes, struct dp_graph *g, struct dp_err *err)
{
    struct dp_err own;
    struct reader r = {.file = name, .g = g, .err = err ? err : &own};
    uint32_t line;
    int rc = -1;

    (void)bytes;
    dp_graph_init(g, DP_GRAPH_PROFILE);
    if (read_lines(&r, text) < 0)
        goto out;
    if (g->n_nodes == 0) {
        dp_err_set(r.err, DP_EINVAL, "%s: no nodes in it", name);
        goto out;
    }
    g->n_colours = g->n_nodes;
    if (index_names(&r) < 0 || connect(&r) < 0)
        goto out;
    if (dp_graph_finish(g, &line, r.err) < 0) {
        if (line)
            fail(&r, line);
        else
            dp_err_prefix(r.err, "%s", name);
        goto out;
    }
    rc = mark_inputs(&r);
out:
    free(r.node_line);
    free(r.edge);
    free(r.by_name);
    return rc;
}

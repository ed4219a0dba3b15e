/* dynpipe.conf, and whether the daemons answer: this node's over its socket, the others over TCP. */
#include <stdlib.h>
#include <string.h>

#include "cli/check.h"
#include "cli/json.h"
#include "cli/link.h"
#include "common/client.h"
#include "common/clock.h"

void dp_check_config(struct dp_check *c)
{
    struct dp_err err;

    c->config = dp_link_config(c->cli, &c->config_path, &err);
    if (!c->config) {
        dp_check_note(c, DP_FIND_FAIL, "config", "correct the file; `man dynpipe.conf` lists every key", "%s", err.text);
        if (err.code == DP_EINVAL && c->config_path) /* the daemons can be asked all the same */
            c->config = dp_config_salvage(c->config_path, dp_link_node(), NULL);
    } else if (!c->config_path)
        dp_check_note(c, DP_FIND_WARN, "config", "install etc/dynpipe.conf there, the same on every node",
                      "no %s: the defaults are used", DYNPIPE_CONF_PATH);
    else
        dp_check_note(c, DP_FIND_OK, "config", NULL, "%s", c->config_path);
}

/* A daemon's answer to DP_QUERY_NODE: note what was wrong with its last reload, and with its newest record. */
static void note_trouble(struct dp_check *c, const json_t *doc)
{
    char node[96], trouble[1024];

    if (*dp_json_text(trouble, sizeof trouble, doc, "journal_error", ""))
        dp_check_note(c, DP_FIND_FAIL, "journal",
                      "look after the file system of state_dir there; until then no layer moves and no node is given back",
                      "%s cannot write its journal: %s", dp_json_text(node, sizeof node, doc, "node", "this node"), trouble);
    if (*dp_json_text(trouble, sizeof trouble, doc, "trouble", ""))
        dp_check_note(c, DP_FIND_FAIL, "reload", "correct it, until `dynpiped --check-config` says ok, and reload again",
                      "%s: %s", dp_json_text(node, sizeof node, doc, "node", "this node"), trouble);
}

/* node: = who answers, "" for nobody. */
static void check_local(struct dp_check *c, char *node, size_t cap)
{
    struct dp_err err;
    struct dp_client *client;
    char socket[256], version[64], *text = NULL;
    json_t *doc;

    node[0] = '\0';
    dp_link_socket(c->cli, c->config, socket, sizeof socket);
    client = dp_client_open_unix(socket, 3000, &err);
    if (client && dp_client_query(client, DP_QUERY_NODE, 0, &text, &err) == 0) {
        doc = json_loads(text, 0, NULL);
        dp_check_note(c, DP_FIND_OK, "daemon", NULL, "dynpiped %s on %s answers",
                      dp_json_text(version, sizeof version, doc, "version", ""),
                      dp_json_text(node, cap, doc, "node", "this node"));
        note_trouble(c, doc);
        json_decref(doc);
    } else {
        dp_check_note(c, DP_FIND_WARN, "daemon",
                      "on a compute node: `systemctl start dynpiped`; a login node needs none", "none on this node: %s",
                      err.text);
    }
    free(text);
    dp_client_destroy(client);
}

/* Nodes of Slurm, else those that dynpipe.conf lists. New reference. */
static json_t *nodes_to_ask(const struct dp_check *c)
{
    json_t *names = dp_json_list(c->slurm, "nodes");

    if (json_array_size(names) > 0)
        return json_incref(names);
    names = json_array();
    for (uint32_t i = 0; i < c->config->n_nodes; i++)
        json_array_append_new(names, json_string(c->config->node[i].name));
    return names;
}

/* So many silent nodes are named; without --all so many are asked, and for no longer than this. */
enum { MAX_NAMED = 5, MAX_ASKED = 16, MAX_SECONDS = 20 };

/* local: this node, whose trouble is known. */
static void check_nodes(struct dp_check *c, const char *local)
{
    json_t *names = nodes_to_ask(c), *name;
    size_t i, asked = 0, fine = 0;
    uint64_t until_ns = dp_now_ns() + MAX_SECONDS * 1000000000ull;
    char silent[512] = "", why[300] = "";

    json_array_foreach(names, i, name) {
        char *text = NULL;
        struct dp_err err;

        if (!c->cli->all && (asked == MAX_ASKED || dp_now_ns() > until_ns))
            break;
        asked++;
        if (dp_link_query_node(c->config, c->config_path, json_string_value(name), DP_QUERY_NODE, 0, &text, &err) == 0) {
            json_t *doc = json_loads(text, 0, NULL);

            fine++;
            if (strcmp(json_string_value(name), local) != 0)
                note_trouble(c, doc);
            json_decref(doc);
        } else {
            if (asked - fine <= MAX_NAMED)
                snprintf(silent + strlen(silent), sizeof silent - strlen(silent), "%s%s", *silent ? ", " : "",
                         json_string_value(name));
            snprintf(why, sizeof why, "%.*s", (int)sizeof why - 1, err.text);
        }
        free(text);
    }
    if (asked && fine == asked)
        dp_check_note(c, DP_FIND_OK, "nodes", NULL, "the daemons of %zu of %zu nodes were asked, all answer", asked,
                      json_array_size(names));
    else if (asked)
        dp_check_note(c, DP_FIND_FAIL, "nodes",
                      "start dynpiped there; open its port between the nodes; the same munge key everywhere",
                      "%zu of %zu daemons do not answer: %s%s (%s)", asked - fine, asked, silent,
                      asked - fine > MAX_NAMED ? ", ..." : "", why);
    json_decref(names);
}

void dp_check_daemons(struct dp_check *c)
{
    char local[96];

    if (!c->config)
        return;
    check_local(c, local, sizeof local);
    if (c->config->port > 0)
        check_nodes(c, local);
}

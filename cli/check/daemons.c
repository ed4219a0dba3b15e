/* SPDX-License-Identifier: BSD-3-Clause */
/* dynpipe.conf, and the daemon of this node. */
#include <stdlib.h>
#include <string.h>

#include "cli/ask/link.h"
#include "cli/check/check.h"
#include "cli/show/json.h"
#include "common/message/client.h"

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

void dp_check_note_trouble(struct dp_check *c, const json_t *doc)
{
    char node[96], trouble[1024];

    if (*dp_json_text(trouble, sizeof trouble, doc, "journal_error", ""))
        dp_check_note(c, DP_FIND_FAIL, "journal",
                      "check the file system of state_dir there; until then no layer moves and no node is given back",
                      "%s cannot write its journal: %s", dp_json_text(node, sizeof node, doc, "node", "this node"), trouble);
    if (*dp_json_text(trouble, sizeof trouble, doc, "trouble", ""))
        dp_check_note(c, DP_FIND_FAIL, "reload", "fix it until `dynpiped --check-config` says ok, then reload again",
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
        dp_check_note(c, DP_FIND_OK, "daemon", NULL, "dynpiped %s on %s answers (protocol version %d)",
                      dp_json_text(version, sizeof version, doc, "version", ""),
                      dp_json_text(node, cap, doc, "node", "this node"),
                      (int)json_integer_value(json_object_get(doc, "protocol")));
        dp_check_note_trouble(c, doc);
        json_decref(doc);
    } else {
        dp_check_note(c, DP_FIND_WARN, "daemon",
                      "on a compute node: `systemctl start dynpiped`; a login node needs none", "none on this node: %s",
                      err.text);
    }
    free(text);
    dp_client_destroy(client);
}

void dp_check_daemons(struct dp_check *c)
{
    char local[96];

    if (!c->config)
        return;
    check_local(c, local, sizeof local);
    if (c->config->port > 0)
        dp_check_nodes(c, local);
}

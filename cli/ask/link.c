/* SPDX-License-Identifier: BSD-3-Clause */
/* See link.h. One connection for each question: a daemon that restarts is not noticed. */
#include "config.h"

#include "cli/ask/link.h"

#include <poll.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/command/slurm_job.h"
#include "cli/show/text.h"
#include "common/clock.h"
#include "common/message/client.h"
#include "common/message/session.h"

enum { TIMEOUT_MS = 5000, CHECK_MS = 12000 /* a look at a node may wait for Slurm */ };

/* One question, however it travels. */
struct question {
    bool is_command;
    enum dp_query what;
    enum dp_verb verb;
    uint32_t job_id;
    const char *argument;
    char **text;
};

const char *dp_link_node(void)
{
    static char name[64];
    const char *node = getenv("SLURMD_NODENAME");

    if (node && *node && strlen(node) < sizeof name)
        return node;
    if (gethostname(name, sizeof name - 1) < 0)
        name[0] = '\0';
    name[strcspn(name, ".")] = '\0';
    return name;
}

struct dp_config *dp_link_config(const struct dp_cli *cli, const char **path, struct dp_err *err)
{
    const char *file = cli->config ? cli->config : getenv("DYNPIPE_CONF");

    if (file && !*file)
        file = NULL;
    if (!file && access(DYNPIPE_CONF_PATH, F_OK) == 0)
        file = DYNPIPE_CONF_PATH;
    if (path)
        *path = file;
    return dp_config_load(file, dp_link_node(), err);
}

/* A mistake in the file stops no daemon that runs, so it stops no command either. */
static struct dp_config *usable_config(const struct dp_cli *cli, const char **path, struct dp_err *err)
{
    static bool is_told;
    struct dp_config *config = dp_link_config(cli, path, err);
    char clean[1100];

    if (config || err->code != DP_EINVAL || !*path)
        return config;
    config = dp_config_salvage(*path, dp_link_node(), NULL);
    if (config && !is_told)
        fprintf(stderr, "dynpipe: warning: %s (only the addresses of the daemons are taken from this file)\n",
                dp_text_clean(clean, sizeof clean, err->text));
    is_told = is_told || config;
    return config;
}

void dp_link_socket(const struct dp_cli *cli, const struct dp_config *config, char *out, size_t cap)
{
    const char *env = getenv("DYNPIPE_SOCKET");

    snprintf(out, cap, "%s", cli->socket ? cli->socket : env && *env ? env : config->socket);
}

/* Only the daemon may open what we seal; a stranger on its port could else pass for us. It runs as
 * run_user, or as whoever owns its configuration: root, or the user of a private cluster. */
static uid_t daemon_uid(const struct dp_config *config, const char *config_path)
{
    struct passwd entry, *pw = NULL;
    char strings[4096];
    struct stat st;

    if (*config->run_user && getpwnam_r(config->run_user, &entry, strings, sizeof strings, &pw) == 0 && pw)
        return pw->pw_uid;
    return config_path && stat(config_path, &st) == 0 ? st.st_uid : 0;
}

static struct dp_client *open_node(const struct dp_config *config, const char *config_path, const char *node,
                                   uint32_t timeout_ms, struct dp_err *err)
{
    struct dp_node_entry entry;

    dp_config_find_node(config, node, &entry);
    return dp_client_open_tcp(entry.address, entry.port, NULL, node, *config->munge_socket ? config->munge_socket : NULL,
                              daemon_uid(config, config_path), timeout_ms, err);
}

/* Where a daemon listens. */
struct door {
    const struct dp_config *config;
    const char *config_path;
    const char *node; /* NULL: on the unix socket */
    const char *socket;
};

/* Once. A command may have been carried out although its answer is lost: so a question comes first, which may be put
 * again, and who has its answer has a place. */
static int put_once(const struct door *at, const struct question *q, struct dp_err *err)
{
    struct dp_client *client = at->node ? open_node(at->config, at->config_path, at->node, TIMEOUT_MS, err)
                                        : dp_client_open_unix(at->socket, TIMEOUT_MS, err);
    char *text = NULL;
    int rc = -1;

    if (!client) {
        if (err->code != DP_EAUTH && err->code != DP_EHUNGUP)
            err->code = DP_EIO;
        return -1;
    }
    if (!q->is_command) {
        rc = dp_client_query(client, q->what, q->job_id, q->text, err);
    } else if (dp_client_query(client, DP_QUERY_NODE, 0, &text, err) == 0) {
        rc = dp_client_command(client, q->verb, q->job_id, q->argument, err);
        if (rc < 0 && err->code == DP_EHUNGUP) {
            dp_err_prefix(err, "it is not known whether it was carried out");
            err->code = DP_EIO;
        }
    }
    free(text);
    dp_client_destroy(client);
    return rc;
}

/* Put the question and close. A daemon that hangs up may have no place for us just now: as long as a question may take,
 * it is put again. A connection that could not be made is DP_EIO, so that DP_EGONE only says that the job is not known. */
static int put(const struct door *at, const struct question *q, struct dp_err *err)
{
    uint64_t end_ns = dp_now_ns() + TIMEOUT_MS * UINT64_C(1000000);
    int rc;

    while ((rc = put_once(at, q, err)) < 0 && err->code == DP_EHUNGUP && dp_now_ns() < end_ns)
        poll(NULL, 0, 50 + (int)(dp_now_ns() / 1000 % 100)); /* not all who were turned away at once */
    if (rc < 0 && err->code == DP_EHUNGUP)
        err->code = DP_EIO;
    return rc;
}

int dp_link_query_node(const struct dp_config *config, const char *config_path, const char *node,
                       enum dp_query what, uint32_t job_id, char **text, struct dp_err *err)
{
    struct question q = {.what = what, .job_id = job_id, .text = text};

    const struct door at = {config, config_path, node, NULL};
    struct dp_err own;

    return put(&at, &q, err ? err : &own);
}

int dp_link_check_node(const struct dp_config *config, const char *config_path, const char *node, const char *target,
                       uint32_t job_id, char **text, struct dp_err *err)
{
    struct dp_client *client = open_node(config, config_path, node, CHECK_MS, err);
    int rc = client ? dp_client_check(client, job_id, target, text, err) : -1;

    dp_client_destroy(client);
    return rc;
}

/* The local daemon did not help: ask the one of the job's batch host. */
static int put_to_batch_host(const struct dp_config *config, const char *config_path, const struct question *q,
                             struct dp_err *err)
{
    char node[64];
    const struct door at = {config, config_path, node, NULL};
    struct dp_err why;

    if (dp_batch_host(q->job_id, node, sizeof node, &why) < 0)
        return -1;
    if (put(&at, q, &why) == 0)
        return 0;
    *err = why;
    return -1;
}

static bool is_listed(const struct dp_config *config, const char *node)
{
    for (uint32_t i = 0; i < config->n_nodes; i++)
        if (!strcmp(config->node[i].name, node))
            return true;
    return false;
}

static int put_anywhere(const struct dp_cli *cli, const struct question *q, struct dp_err *err)
{
    const char *path;
    struct dp_config *config = usable_config(cli, &path, err);
    char socket[256];
    const struct door at = {config, path, cli->node, socket};
    int rc;

    if (!config)
        return -1;
    if (cli->node) {
        rc = put(&at, q, err);
        if (rc < 0 && err->code == DP_EIO && !is_listed(config, cli->node))
            dp_err_prefix(err, "--node=%.63s (not a node listed in dynpipe.conf)", cli->node);
    } else {
        dp_link_socket(cli, config, socket, sizeof socket);
        rc = put(&at, q, err);
        if (rc < 0 && (err->code == DP_EIO || err->code == DP_EGONE) && !cli->socket && q->job_id && config->slurm)
            rc = put_to_batch_host(config, path, q, err);
        if (rc < 0 && err->code == DP_EIO)
            dp_err_prefix(err, "no answer from dynpiped");
    }
    dp_config_destroy(config);
    return rc;
}

int dp_link_query(const struct dp_cli *cli, enum dp_query what, uint32_t job_id, char **text, struct dp_err *err)
{
    struct question q = {.what = what, .job_id = job_id, .text = text};
    struct dp_err own;

    return put_anywhere(cli, &q, err ? err : &own);
}

int dp_link_command(const struct dp_cli *cli, enum dp_verb verb, uint32_t job_id, const char *argument,
                    struct dp_err *err)
{
    struct question q = {.is_command = true, .verb = verb, .job_id = job_id, .argument = argument};
    struct dp_err own;

    return put_anywhere(cli, &q, err ? err : &own);
}

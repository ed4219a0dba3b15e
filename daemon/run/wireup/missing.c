/* SPDX-License-Identifier: BSD-3-Clause */
/* Why nothing is heard of a node, as far as daemons can tell each other: on the batch host for the coordinator's
 * `missing`, on the others for workers whose HELLO waits. Only told, nothing is decided by it; but the batch host
 * knocks at nodes that it misses, so that one which may only be called is found, too.
 */
#include "config.h"

#include "daemon/run/wireup/missing.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "daemon/coord/coordinator.h"
#include "daemon/net/daemon_state.h"
#include "daemon/net/peer_link.h"
#include "daemon/run/run.h"
#include "daemon/run/worker.h"

#define LOOK_EVERY_NS UINT64_C(500000000) /* people are told after seconds */
#define JOIN_EVERY_NS UINT64_C(5000000000) /* a batch host that was told too early forgets it */
#define SERVE_EVERY_NS UINT64_C(500000000) /* a HELLO that waits is handed on again */
#define MAX_KNOCKS 8u /* nodes that the batch host of one run calls at a time */
#define EXPLAIN_AFTER_NS UINT64_C(2000000000) /* a worker gives up waiting after 3 s */

static bool has_joined(const struct dp_run *run, const char *node)
{
    for (uint32_t i = 0; i < run->n_joined; i++)
        if (!strcmp(run->joined[i], node))
            return true;
    return false;
}

void dp_run_joined(struct dp_run *run, const char *node)
{
    if (!has_joined(run, node) && run->n_joined < DP_MAX_SLOTS)
        snprintf(run->joined[run->n_joined++], sizeof run->joined[0], "%s", node);
}

static void say_why(struct dp_run *run, const char *node, uint32_t *n_knocks)
{
    struct dp_daemon *d = run->daemon;
    bool is_other = strcmp(node, d->node) != 0, is_cut_off = is_other && !dp_peer_find(d, node);
    char text[320] = "";

    if (is_cut_off && (dp_peer_is_wanted(d, node) || (*n_knocks)++ < MAX_KNOCKS))
        dp_peer_want(d, node);
    if (is_other && *dp_peer_trouble(d, node)) {
        snprintf(text, sizeof text, "its daemon cannot be reached: %s", dp_peer_trouble(d, node));
    } else if (is_cut_off) {
        ; /* the first try goes on */
    } else if (dp_coord_job(run->coord)->restart_count && dp_peer_is_old(d, node)) {
        snprintf(text, sizeof text, DP_PEER_OLD_FMT "it cannot tell a requeued job from its life before; upgrade it",
                 dp_peer_version(d, node), DP_PROTO_VERSION);
    } else if (is_other && !has_joined(run, node)) {
        snprintf(text, sizeof text, "its daemon runs but was not told about the job: does slurmd there load spank_dynpipe.so? "
                                    "`dynpipe check -j %u` looks", run->job_id);
    } else {
        snprintf(text, sizeof text, "its daemon knows the job, but no worker there has connected");
    }
    dp_coord_node_trouble(run->coord, node, text);
}

static void look(struct dp_run *run)
{
    const struct dp_job_info *job = dp_coord_job(run->coord);
    uint32_t n_knocks = 0;

    for (uint32_t i = 0; i < job->n_nodes; i++)
        n_knocks += dp_peer_is_wanted(run->daemon, job->node[i]);
    for (uint32_t i = 0; i < job->n_nodes; i++)
        if (dp_coord_is_node_missing(run->coord, job->node[i]))
            say_why(run, job->node[i], &n_knocks);
}

void dp_run_missing_tick(struct dp_run *run, uint64_t now_ns)
{
    struct dp_msg_join m = {run->job_id};

    if (run->role == DP_RUN_COORD && run->coord && now_ns - run->looked_ns >= LOOK_EVERY_NS) {
        run->looked_ns = now_ns;
        look(run);
    } else if (run->role == DP_RUN_RELAY && now_ns - run->looked_ns >= JOIN_EVERY_NS) {
        run->looked_ns = now_ns;
        (void)DP_PEER_SEND(run->daemon, run->job.batch_host, join, DP_MSG_JOIN, &m);
    }
}

void dp_run_why_waiting(const struct dp_run *run, char *out, size_t cap)
{
    const char *host = run->job.batch_host, *why = dp_peer_trouble(run->daemon, host);

    if (run->role == DP_RUN_LOOKUP) {
        snprintf(out, cap, "node %s waits for Slurm to say what job %u is%s%.100s", run->daemon->node, run->job_id,
                 run->read_why[0] ? ": " : "", run->read_why);
    } else if (run->is_unsure) {
        snprintf(out, cap, "node %s waits for Slurm to say whether job %u was requeued%s%.100s", run->daemon->node,
                 run->job_id, run->read_why[0] ? ": " : "", run->read_why);
    } else if (*why || !dp_peer_find(run->daemon, host)) {
        if (strstr(why, strerror(ECONNREFUSED))) /* whoever asks hears that, so nobody says who asked */
            snprintf(out, cap, DP_HOST_TROUBLE "%s is not there: %.100s", host, why);
        else
            snprintf(out, cap, "node %s does not reach the daemon of the batch host %s%s%.100s", run->daemon->node, host,
                 *why ? ": " : "", why);
    } else if (run->job.restart_count && dp_peer_is_old(run->daemon, host)) {
        snprintf(out, cap, DP_HOST_TROUBLE "%s is too old to tell job %u, which was requeued, from its life before: "
                           "upgrade it", host, run->job_id);
    } else {
        snprintf(out, cap, DP_HOST_TROUBLE "%s was not told about job %u: does slurmd there load "
                           "spank_dynpipe.so? `dynpipe check -j %u` looks", host, run->job_id, run->job_id);
    }
}

void dp_workers_explain(struct dp_run *run, uint64_t now_ns)
{
    for (struct dp_worker *w = run->workers, *next; w; w = next) {
        struct dp_msg_welcome welcome = {.verdict = DP_VERDICT_UNKNOWN};
        char text[512];

        next = w->next;
        if (w->conn && w->is_waiting && now_ns - w->served_ns >= SERVE_EVERY_NS)
            dp_worker_serve(w); /* the batch host may not have known the job */
        if (!w->conn || !w->is_waiting || now_ns - w->hello_ns < EXPLAIN_AFTER_NS)
            continue;
        dp_run_why_waiting(run, text, sizeof text);
        snprintf(welcome.text, sizeof welcome.text, "%.255s", text);
        dp_worker_welcome(w, &welcome);
    }
}

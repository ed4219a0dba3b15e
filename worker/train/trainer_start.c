/* SPDX-License-Identifier: BSD-3-Clause */
/* See trainer_internal.h: from nothing to the first step, and the end of it all.
 *
 * Whatever can fail is tried before anybody depends on it, and then all workers agree: either all
 * train, or all have the same error and can leave in good order. The leader alone decides what concerns
 * all (which checkpoint, which table of crossovers) and tells the others. */
#include "worker/train/trainer_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <string.h>
#include <unistd.h>

#include "common/log.h"
#include "lib/job_step.h"
#include "worker/checkpoint/ckpt_lock.h"
#include "worker/handover/transfer.h"
#include "worker/net/link_times.h"
#include "worker/train/start/hello.h"
#include "worker/train/start/initial_layout.h"
#include "worker/train/start/memory_limit.h"
#include "worker/train/start/preflight.h"

#define FIRST_CONTACT_MS 3000 /* then training starts, and the daemon is looked for meanwhile */
#define REPORT_MS 1000 /* until a daemon says what it wants */

/* Seats that nobody has are those of workers that are gone. A newcomer knows nothing of the others' layers. */
static int first_layout(struct dp_trainer *t, struct dp_err *err)
{
    const struct dp_wireup *w = t->args->wireup;
    struct dp_layout *l = &t->layout;

    if (dp_layout_initial(t->config, w->joins ? 1 : w->n_there, l, err) < 0)
        return -1;
    for (uint32_t r = w->joins ? 1 : w->n_there; r < w->n_workers; r++) {
        l->cut[r + 1] = l->n_layers;
        l->gone[r] = 1;
    }
    l->n_workers = w->n_workers;
    return 0;
}

/* What this worker can check alone, before anybody has to wait for it. */
static int open_local(struct dp_trainer *t, struct dp_err *err)
{
    const struct dp_train_config *c = t->config;

    if (first_layout(t, err) < 0)
        return -1;
    if (dp_trainer_leads(t) && dp_preflight_files(c, err) < 0)
        return -1;
    t->data = dp_data_open(c, err);
    if (!t->data || (dp_trainer_leads(t) && dp_ckpt_lock(c, &t->ckpt_lock, err) < 0))
        return -1;
    t->be = dp_backend_create(c->pipeline.backend, (int)t->args->wireup->local_rank, (int)c->pipeline.threads, err);
    if (!t->be)
        return -1;
    t->losses = calloc((size_t)c->train.microbatches, sizeof *t->losses);
    t->squares = calloc(t->layout.n_layers, sizeof *t->squares);
    t->measured = calloc((size_t)t->layout.n_layers * DP_N_SCHEMES, sizeof *t->measured);
    if (!t->losses || !t->squares || !t->measured)
        return dp_err_set(err, DP_ENOMEM, "no memory for the sums of a step");
    return 0;
}

static void tell_without_plugin(const struct dp_trainer *t)
{
    char why[256];

    if (!t->args->socket && !t->args->wireup->local_rank && dp_job_lacks_plugin(why))
        dp_warn("rank=%u: %s; training goes on with a fixed layout", t->rank, why);
}

/* Who joins later has to know this worker. */
static int introduce(struct dp_trainer *t, struct dp_err *err)
{
    uint8_t key[DP_KEY_BYTES];
    const void *card;
    size_t bytes;
    int rc;

    if (!t->args->transport || !t->args->wireup->is_slice)
        return 0;
    dp_transport_card(t->args->transport, &card, &bytes);
    dp_transport_key(t->args->transport, key);
    rc = dp_control_introduce(t->control, card, bytes, key);
    explicit_bzero(key, sizeof key);
    return rc < 0 ? dp_err_set(err, DP_ENOMEM, "no memory for this worker's address") : 0;
}

static int open_control(struct dp_trainer *t, struct dp_err *err)
{
    const struct dp_msg_welcome *w;
    struct dp_msg_hello *hello = calloc(1, sizeof *hello);

    if (!hello)
        return dp_err_set(err, DP_ENOMEM, "no memory for HELLO");
    dp_hello_fill(hello, t->config, &t->layout, t->rank, t->step);
    snprintf(hello->device, sizeof hello->device, "%s", t->be->ops->host_memory ? t->config->pipeline.backend : t->be->info.name);
    hello->stage_message_bytes = dp_stage_message_bytes(t->config, t->be->info.act_bytes);
    t->mem_limit_bytes = dp_memory_limit(t->be, t->config->pipeline.memory_mb, dp_stage_bytes(t->stage, NULL));
    hello->mem_limit_bytes = t->mem_limit_bytes;
    hello->regroups = t->args->transport && t->args->wireup->way == DP_WIREUP_BY_DAEMON;
    hello->n_there = t->args->wireup->n_there;
    hello->joins = t->args->wireup->joins;
    tell_without_plugin(t);
    t->control = dp_control_create(t->args->socket, hello, FIRST_CONTACT_MS, err);
    free(hello);
    if (!t->control || introduce(t, err) < 0)
        return -1;
    w = dp_control_welcome(t->control);
    if (dp_control_is_connected(t->control) && w && w->text[0] && dp_trainer_leads(t))
        dp_info("%s", w->text);
    return 0;
}

/* A worker's answer to: what is broken between you and the coordinator? */
struct trouble {
    char node[64], text[300];
};

#define TOLD 4 /* different troubles that are told */

static bool is_told_before(const struct trouble *all, uint32_t r)
{
    for (uint32_t i = 0; i < r; i++)
        if (!strcmp(all[i].text, all[r].text))
            return true;
    return false;
}

static void tell_troubles(const struct trouble *all, uint32_t n)
{
    uint32_t told = 0;

    for (uint32_t r = 0; r < n; r++) {
        uint32_t same = 0;

        if (r > 0 && all[0].text[0] && !strncmp(all[r].text, DP_HOST_TROUBLE, strlen(DP_HOST_TROUBLE)))
            continue; /* worker 0 is on that host, or hears the same */
        if (!all[r].text[0] || is_told_before(all, r) || ++told > TOLD)
            continue;
        for (uint32_t i = r; i < n; i++)
            same += !strcmp(all[i].text, all[r].text);
        if (n == 1)
            dp_warn("no coordinator: %s; training goes on with a fixed layout", all[r].text);
        else if (same == 1)
            dp_warn("worker %u on %s: no coordinator: %s; training goes on with a fixed layout", r, all[r].node,
                    all[r].text);
        else
            dp_warn("worker %u on %s and %u more of %u workers: no coordinator: %s; training goes on with a fixed layout", r,
                    all[r].node, same - 1, n, all[r].text);
    }
    if (told > TOLD)
        dp_warn("no coordinator, for %u more reasons", told - TOLD);
}

/* Each worker knows of its own connection only; people read it once. */
static int share_troubles(struct dp_trainer *t, struct dp_err *err)
{
    uint32_t n = t->layout.n_workers;
    struct trouble mine = {0}, *all = dp_trainer_leads(t) ? calloc(n, sizeof *all) : NULL;
    const char *node = getenv("SLURMD_NODENAME");
    size_t offset[DP_MAX_WORKERS + 1];
    int rc;

    if (dp_trainer_leads(t) && !all)
        return dp_err_set(err, DP_ENOMEM, "no memory for the answers of %u workers", n);
    snprintf(mine.text, sizeof mine.text, "%.299s", dp_control_trouble(t->control));
    if (node)
        snprintf(mine.node, sizeof mine.node, "%.63s", node);
    else
        gethostname(mine.node, sizeof mine.node - 1);
    for (uint32_t r = 0; r <= n; r++)
        offset[r] = r * sizeof mine;
    rc = dp_collectives_gather(&t->collectives, &mine, sizeof mine, all, offset, err);
    if (rc == 0 && dp_trainer_leads(t))
        tell_troubles(all, n);
    free(all);
    if (t->args->wireup->local_rank != 0)
        dp_control_hush(t->control);
    return rc;
}

uint32_t dp_trainer_report_ms(const struct dp_trainer *t)
{
    const struct dp_msg_welcome *w = dp_control_is_connected(t->control) ? dp_control_welcome(t->control) : NULL;

    return w && w->report_ms ? w->report_ms : REPORT_MS;
}

int dp_trainer_open_layout(struct dp_trainer *t, struct dp_err *err)
{
    dp_tied_head_init(&t->tied, t->config, &t->device, t->rank);
    t->pipeline = dp_pipeline_create(t->config, &t->device, t->rank, t->data, err);
    t->metrics = t->pipeline ? dp_metrics_create(t->rank, dp_trainer_report_ms(t), err) : NULL;
    return t->metrics ? 0 : -1;
}

void dp_trainer_close_layout(struct dp_trainer *t)
{
    dp_metrics_destroy(t->metrics);
    dp_pipeline_destroy(t->pipeline);
    dp_tied_head_release(&t->tied);
    t->metrics = NULL;
    t->pipeline = NULL;
}

static int open_rest(struct dp_trainer *t, struct dp_err *err)
{
    t->stage = dp_start_stage(t->config, t->be, &t->start, &t->layout, t->rank, err);
    if (!t->stage || open_control(t, err) < 0)
        return -1;
    t->device = (struct dp_device_wait){.be = t->be, .transport = t->args->transport, .serve = dp_trainer_serve, .arg = t};
    if (dp_trainer_open_layout(t, err) < 0)
        return -1;
    t->handover = dp_handover_create(t->control, t->rank, &t->layout, NULL, err);
    t->trace = t->handover ? dp_tracelog_open(t->config, t->rank, dp_start_resumes(&t->start), err) : NULL;
    if (!t->trace)
        return -1;
    if (t->args->transport)
        dp_transport_give_up_when(t->args->transport, dp_trainer_must_regroup, t);
    if (dp_trainer_leads(t))
        t->log = dp_steplog_open(t->config, dp_data_bytes_per_token(t->data),
                                 dp_start_resumes(&t->start) ? DP_STEPLOG_APPEND : DP_STEPLOG_NEW, err);
    return dp_trainer_leads(t) && !t->log ? -1 : 0;
}

int dp_trainer_lead(struct dp_trainer *t, struct dp_err *err)
{
    if (t->log || !dp_trainer_leads(t))
        return 0;
    if (t->ckpt_lock < 0 && dp_ckpt_lock(t->config, &t->ckpt_lock, err) < 0)
        return -1;
    t->log = dp_steplog_open(t->config, dp_data_bytes_per_token(t->data), DP_STEPLOG_TAKE_OVER, err);
    if (!t->log)
        return -1;
    dp_control_lead(t->control);
    return 0;
}

/* Of this worker's layers. */
static void count_reached(struct dp_stage *stage, uint64_t *left, uint64_t *frozen)
{
    *left = 0;
    *frozen = dp_stage_n_frozen(stage);
    for (uint32_t i = 0; i < dp_stage_n_layers(stage); i++) {
        const struct dp_layer *l = dp_stage_layer(stage, i);

        for (uint32_t k = 0; k < l->n_params; k++)
            if (l->param[k].prunable)
                *left += (uint64_t)l->param[k].nnz;
    }
}

/* Do this worker's layers fit to the first `frozen` ones of the model? A stage knows no layers below its own. */
static int check_frozen(struct dp_stage *stage, uint32_t frozen, struct dp_err *err)
{
    for (uint32_t i = 0; i < dp_stage_n_layers(stage); i++) {
        const struct dp_layer *l = dp_stage_layer(stage, i);

        if (l->is_frozen != (l->index < frozen))
            return dp_err_set(err, DP_ECORRUPT, "%u layers are frozen, and layer %u is%s one of them: these are not the layers of one "
                              "checkpoint", frozen, l->index, l->is_frozen ? "" : " not");
    }
    return 0;
}

int dp_trainer_count_reached(struct dp_trainer *t, struct dp_err *err)
{
    uint64_t prunable = dp_model_prunable(t->config), counts[2];
    int rc;

    count_reached(t->stage, &counts[0], &counts[1]);
    if (dp_collectives_allreduce(&t->collectives, counts, 2, err) < 0)
        return -1;
    t->reached.sparsity = prunable ? 1.0 - (double)counts[0] / (double)prunable : 0;
    t->reached.frozen = (uint32_t)counts[1];
    rc = check_frozen(t->stage, t->reached.frozen, err);
    return dp_collectives_agree(&t->collectives, rc, err);
}

int dp_trainer_begin_schemes(struct dp_trainer *t, struct dp_err *err)
{
    const struct dp_scheme_site site = dp_trainer_site(t);
    uint32_t frozen;

    if (dp_trainer_count_reached(t, err) < 0)
        return -1;
    frozen = t->reached.frozen;
    if (dp_collectives_agree(&t->collectives, dp_schemes_begin(&site, t->step, err), err) < 0)
        return -1;
    if (t->reached.frozen > frozen)
        dp_trainer_tell_reached(t, DP_SCHEME_FREEZE);
    return 0;
}

/* A trace begins with the link to the next worker, which all measure together. */
static int begin_trace(struct dp_trainer *t, struct dp_err *err)
{
    uint32_t n = t->args->wireup->n_there;
    size_t bytes = dp_stage_message_bytes(t->config, t->be->info.act_bytes);
    struct dp_link_times link = {0};

    if (!dp_tracelog_is_on(t->trace))
        return 0;
    if (t->args->transport && !t->is_joining &&
        dp_link_measure(t->args->transport, t->rank, n, bytes, t->be->ops->host_memory, &link, err) < 0)
        return -1;
    dp_tracelog_header(t->trace, t->config, t->be, t->rank, n, &link);
    return 0;
}

/* The others train, and wait for nobody. */
static int begin_joining(struct dp_trainer *t, enum dp_run_outcome *how, struct dp_err *err)
{
    *how = DP_RUN_FAILED;
    t->is_joining = true;
    return open_local(t, err) < 0 || open_rest(t, err) < 0 || begin_trace(t, err) < 0 ? -1 : 0;
}

int dp_trainer_begin(struct dp_trainer *t, enum dp_run_outcome *how, struct dp_err *err)
{
    int rc;

    /* The sums need only the number of workers, which is known even when open_local() fails. */
    t->layout.n_workers = t->args->wireup->n_workers;
    for (uint32_t r = t->args->wireup->n_there; r < t->layout.n_workers; r++)
        t->layout.gone[r] = 1;
    dp_collectives_init(&t->collectives, t->args->transport, &t->layout, t->rank);
    if (t->args->wireup->joins)
        return begin_joining(t, how, err);
    rc = open_local(t, err);
    t->layout.n_workers = t->args->wireup->n_workers;
    *how = DP_RUN_REFUSED;
    if (dp_collectives_agree(&t->collectives, rc, err) < 0 || dp_start_agree(&t->collectives, t->config, t->be, &t->start, err) < 0)
        return -1;
    t->step = t->standing.step = t->standing.given = t->start.step;
    rc = open_rest(t, err);
    if (dp_collectives_agree(&t->collectives, rc, err) < 0)
        return -1;
    *how = DP_RUN_FAILED;
    if (share_troubles(t, err) < 0 || dp_trainer_begin_schemes(t, err) < 0 || begin_trace(t, err) < 0 ||
        dp_trainer_copies_open(t, true, err) < 0)
        return -1;
    if (dp_start_resumes(&t->start))
        dp_trainer_event(t, DP_EV_RESUMED, "resumed", NAN, t->start.path);
    else if (t->start.path[0] && dp_trainer_leads(t))
        dp_info("begins with the weights of %s", t->start.path);
    return 0;
}

void dp_trainer_stop_leading(struct dp_trainer *t)
{
    dp_steplog_close(t->log);
    t->log = NULL;
    if (t->ckpt_lock >= 0)
        close(t->ckpt_lock);
    t->ckpt_lock = -1;
}

void dp_trainer_end(struct dp_trainer *t)
{
    if (t->args->transport)
        dp_transport_watch(t->args->transport, -1, NULL, NULL);
    if (t->args->transport)
        dp_transport_give_up_when(t->args->transport, NULL, NULL);
    dp_trainer_stop_leading(t);
    dp_tracelog_close(t->trace);
    dp_trainer_shadow_end(t, false);
    dp_trainer_stock_end(t);
    dp_trainer_rescue_end(t);
    dp_chunks_free(t->stuck);
    dp_trainer_copies_end(t);
    dp_handover_destroy(t->handover);
    dp_control_destroy(t->control);
    dp_trainer_close_layout(t);
    dp_stage_destroy(t->stage);
    dp_backend_destroy(t->be);
    dp_data_close(t->data);
    free(t->losses);
    free(t->squares);
    free(t->measured);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* See tracelog.h. */
#include <config.h> /* of the build; worker/model/train_config.h is another one */

#include "worker/train/log/tracelog.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/log.h"
#include "common/numbers.h"
#include "worker/step/pipeline.h"

struct dp_tracelog {
    FILE *file; /* NULL: none */
    bool has_lost; /* a line; the user was told */
};

static void put(json_t *o, const char *name, uint64_t value)
{
    json_object_set_new(o, name, json_integer((json_int_t)value));
}

static void write_line(struct dp_tracelog *log, json_t *o)
{
    if ((!o || json_dumpf(o, log->file, JSON_COMPACT | JSON_PRESERVE_ORDER) < 0 || fputc('\n', log->file) == EOF ||
         fflush(log->file) != 0) &&
        !log->has_lost) {
        log->has_lost = true;
        dp_warn("output.trace: %s; windows are missing there", strerror(errno));
    }
    json_decref(o);
}

void dp_tracelog_header(struct dp_tracelog *log, const struct dp_train_config *c, const struct dp_backend *be, uint32_t rank,
                        uint32_t n_workers, const struct dp_link_times *link)
{
    char host[256] = "", source[512];
    json_t *o = json_object();

    gethostname(host, sizeof host - 1);
    if (be->ops->host_memory)
        snprintf(source, sizeof source, "measured by dynpipe-worker %s, backend %s, %lld compute thread%s, host %s", PACKAGE_VERSION,
                 c->pipeline.backend, (long long)c->pipeline.threads, dp_plural((uint64_t)c->pipeline.threads), host);
    else
        snprintf(source, sizeof source, "measured by dynpipe-worker %s, backend %s, %s, host %s", PACKAGE_VERSION,
                 c->pipeline.backend, be->info.name, host);
    put(o, "trace", 1);
    json_object_set_new(o, "source", json_string(source));
    put(o, "rank", rank);
    put(o, "workers", n_workers);
    put(o, "layers", (uint64_t)c->model.blocks + 2);
    json_object_set_new(o, "schedule", json_string(c->pipeline.schedule));
    put(o, "microbatches", (uint64_t)c->train.microbatches);
    put(o, "tokens_per_microbatch", (uint64_t)(c->train.batch * c->model.context));
    put(o, "boundary_bytes", dp_stage_message_bytes(c, be->info.act_bytes));
    put(o, "link_latency_ns", link->latency_ns);
    put(o, "link_transfer_ns", link->transfer_ns);
    write_line(log, o);
}

struct dp_tracelog *dp_tracelog_open(const struct dp_train_config *c, uint32_t rank, bool append, struct dp_err *err)
{
    struct dp_tracelog *log = calloc(1, sizeof *log);
    char path[sizeof c->output.trace + 16];

    if (!log) {
        dp_err_set(err, DP_ENOMEM, "no memory for the trace");
        return NULL;
    }
    if (!c->output.trace[0])
        return log;
    snprintf(path, sizeof path, "%s.%u", c->output.trace, rank);
    log->file = fopen(path, append ? "ae" : "we");
    if (!log->file) {
        dp_err_set(err, DP_EIO, "output.trace: %s: %s", path, strerror(errno));
        free(log);
        return NULL;
    }
    return log;
}

void dp_tracelog_close(struct dp_tracelog *log)
{
    if (!log)
        return;
    if (log->file)
        fclose(log->file);
    free(log);
}

bool dp_tracelog_is_on(const struct dp_tracelog *log)
{
    return log->file != NULL;
}

static json_t *layer_costs(const struct dp_layer_load *l)
{
    json_t *o = json_object();

    put(o, "forward_ns", l->fwd_ns);
    put(o, "backward_input_ns", l->bwd_input_ns);
    put(o, "backward_weight_ns", l->bwd_weight_ns);
    put(o, "state_bytes", l->state_bytes);
    put(o, "activation_bytes", l->act_bytes);
    put(o, "parameters", l->params);
    put(o, "nonzeros", l->nnz);
    return o;
}

void dp_tracelog_window(struct dp_tracelog *log, const struct dp_msg_report *w, const struct dp_metrics_rest *rest,
                        const struct dp_layout *layout, uint64_t boundary_ns)
{
    json_t *o, *counts, *layers;

    if (!log->file || !w->window_steps)
        return;
    o = json_object();
    counts = json_array();
    layers = json_array();
    for (uint32_t i = 0; i < layout->n_workers; i++)
        json_array_append_new(counts, json_integer(layout->cut[i + 1] - layout->cut[i]));
    for (uint32_t i = 0; i < w->n_layers; i++)
        json_array_append_new(layers, layer_costs(&w->layer[i]));
    put(o, "step", w->step);
    put(o, "steps", w->window_steps);
    json_object_set_new(o, "layout", counts);
    put(o, "held", dp_layout_members(layout));
    put(o, "step_ns", w->step_ns);
    put(o, "wait_ns", w->wait_ns);
    put(o, "busy_ns", w->busy_ns);
    put(o, "optimizer_ns", w->optimizer_ns);
    put(o, "overhead_ns", w->overhead_ns);
    put(o, "message_ns", rest->message_ns);
    put(o, "rest_ns", rest->rest_ns);
    put(o, "lost_ns", rest->lost_ns);
    put(o, "boundary_ns", boundary_ns);
    put(o, "mem_bytes", w->mem_bytes);
    put(o, "first_layer", w->n_layers ? w->first_layer : 0);
    json_object_set_new(o, "layers", layers);
    write_line(log, o);
}

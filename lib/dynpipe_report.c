/* SPDX-License-Identifier: BSD-3-Clause */
/* See dynpipe.h: what a trainer says of its steps, and of what is to come. */
#include "lib/dynpipe_internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/clock.h"

_Static_assert(sizeof(struct dynpipe_load) == sizeof(struct dp_layer_load), "what is copied is of one size");
_Static_assert(offsetof(struct dynpipe_load, nnz) == offsetof(struct dp_layer_load, nnz), "and of one order");

static uint32_t own_layers(const struct dynpipe *d)
{
    return d->layout.cut[d->rank + 1] - d->layout.cut[d->rank];
}

static int check_step(const struct dynpipe *d, const struct dynpipe_step *s, const struct dynpipe_load *load, uint32_t n,
                      struct dp_err *err)
{
    if (s->zero)
        return dp_err_set(err, DP_EINVAL, "step: field zero is %u", s->zero);
    if (s->step <= d->step || s->step > d->steps_total)
        return dp_err_set(err, DP_EINVAL, "step %llu comes behind step %llu of %llu", (unsigned long long)s->step,
                          (unsigned long long)d->step, (unsigned long long)d->steps_total);
    if (!s->wall_ns)
        return dp_err_set(err, DP_EINVAL, "step %llu took no time", (unsigned long long)s->step);
    if (n != own_layers(d) || (n && !load))
        return dp_err_set(err, DP_EINVAL, "costs of %u layers%s; this worker has %u", load ? n : 0, load ? "" : " (NULL)",
                          own_layers(d));
    return 0;
}

static void add_to_window(struct dynpipe *d, const struct dynpipe_step *s, uint32_t n)
{
    struct dp_window_step step = {.step = s->step, .epoch = d->layout.epoch, .wall_ns = s->wall_ns, .wait_ns = s->wait_ns,
                                  .optimizer_ns = s->optimizer_ns, .busy_ns = s->busy_ns, .loss = s->loss,
                                  .grad_norm = s->grad_norm};

    if (!s->busy_ns) {
        for (uint32_t i = 0; i < n; i++)
            step.busy_ns += d->load[i].fwd_ns + d->load[i].bwd_input_ns + d->load[i].bwd_weight_ns;
        step.busy_ns = step.busy_ns * d->microbatches + s->optimizer_ns;
    }
    dp_window_add(d->window, &step, d->layout.cut[d->rank], d->load, n);
}

/* While there is no daemon the window goes on: it holds the newest steps. */
static int report_if_due(struct dynpipe *d, const struct dynpipe_step *s)
{
    uint64_t now = dp_now_ns();
    struct dp_msg_report *r;
    bool is_sent;

    if (!dp_control_is_connected(d->control))
        return 0;
    dp_window_set_interval(d->window, dp_control_welcome(d->control)->report_ms);
    if (!dp_window_is_due(d->window, now))
        return 0;
    r = dp_window_report(d->window);
    r->mem_bytes = s->mem_bytes;
    is_sent = dp_control_report(d->control, r);
    dp_window_reported(d->window, now);
    return is_sent;
}

int dynpipe_report(struct dynpipe *d, const struct dynpipe_step *step, const struct dynpipe_load *load, uint32_t n)
{
    struct dp_err err = {0};
    struct dynpipe_step s;
    int rc = -1;

    if (dp_handle_enter(d) != DP_ENTERED)
        return 0;
    if (dp_struct_read(&s, sizeof s, step, "step", &err) < 0 || check_step(d, &s, load, n, &err) < 0) {
        dp_handle_why(d, "%s", err.text);
    } else {
        if (n)
            memcpy(d->load, load, n * sizeof *load);
        d->step = s.step;
        if (!isnan(s.loss))
            d->loss = s.loss;
        dp_control_state(d->control, d->step, d->stage == HANDOVER_DOUBT ? d->member.migration : 0, &d->layout);
        dp_control_poll(d->control);
        add_to_window(d, &s, n);
        rc = report_if_due(d, &s);
    }
    dp_handle_leave(d);
    return rc;
}

void dynpipe_forget(struct dynpipe *d)
{
    if (dp_handle_enter(d) != DP_ENTERED)
        return;
    dp_window_forget(d->window);
    dp_handle_leave(d);
}

int dynpipe_expect(struct dynpipe *d, uint64_t step, uint32_t first_layer, const struct dynpipe_load *load, uint32_t n)
{
    struct dp_err err = {0};
    int rc;

    switch (dp_handle_enter(d)) {
    case DP_STRANGER:
        return 0;
    case DP_BUSY:
        return -1;
    case DP_ENTERED:
        break;
    }
    if (n && !load) {
        rc = dp_err_set(&err, DP_EINVAL, "costs of %u layers are NULL", n);
    } else if (n > d->layout.n_layers) {
        rc = dp_err_set(&err, DP_EINVAL, "costs of %u layers; the model has %u", n, d->layout.n_layers);
    } else {
        if (n)
            memcpy(d->load, load, n * sizeof *load);
        rc = dp_control_expect(d->control, step, first_layer, d->load, n, &err);
    }
    if (rc < 0)
        dp_handle_why(d, "%s", err.text);
    dp_handle_leave(d);
    return rc;
}

static int check_event(const struct dynpipe *d, int kind, double value, const char *text, struct dp_err *err)
{
    bool has_text = kind == DYNPIPE_EV_SAVED || kind == DYNPIPE_EV_RESUMED || kind == DYNPIPE_EV_FAILED;

    if (kind != DYNPIPE_EV_PRUNED && kind != DYNPIPE_EV_EVAL && kind != DYNPIPE_EV_FROZEN && !has_text)
        return dp_err_set(err, DP_EINVAL, "there is no kind %d of event", kind);
    if (has_text && (!text || !text[0]))
        return dp_err_set(err, DP_EINVAL, "an event of kind %d needs a text", kind);
    if (text && strlen(text) >= sizeof((struct dp_msg_event *)0)->text)
        return dp_err_set(err, DP_EINVAL, "the text of an event has %zu bytes; allowed: %zu", strlen(text),
                          sizeof((struct dp_msg_event *)0)->text - 1);
    if (!has_text && !isfinite(value))
        return dp_err_set(err, DP_EINVAL, "an event of kind %d needs a value", kind);
    if (kind == DYNPIPE_EV_PRUNED && (value < 0 || value > 1))
        return dp_err_set(err, DP_EINVAL, "a sparsity of %g; allowed: 0 to 1", value);
    if (kind == DYNPIPE_EV_FROZEN && (value < 0 || value > d->layout.n_layers))
        return dp_err_set(err, DP_EINVAL, "%g frozen layers; the model has %u", value, d->layout.n_layers);
    return 0;
}

int dynpipe_event(struct dynpipe *d, int kind, uint64_t step, double value, const char *text)
{
    struct dp_msg_event m = {.step = step};
    struct dp_err err = {0};
    int rc;

    switch (dp_handle_enter(d)) {
    case DP_STRANGER:
        return 0;
    case DP_BUSY:
        return -1;
    case DP_ENTERED:
        break;
    }
    rc = check_event(d, kind, value, text, &err);
    if (rc < 0) {
        dp_handle_why(d, "%s", err.text);
    } else {
        m.kind = (uint8_t)kind;
        m.value = isfinite(value) ? value : 0.0;
        snprintf(m.text, sizeof m.text, "%s", text ? text : "");
        dp_control_event(d->control, &m);
    }
    dp_handle_leave(d);
    return rc;
}

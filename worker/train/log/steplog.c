/* SPDX-License-Identifier: BSD-3-Clause */
/* See steplog.h. A line is written and flushed whole, so whoever follows the file never sees half a
 * step, and a run that is killed leaves all steps that it finished. */
#include "worker/train/log/steplog.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"

#define END_BYTES 65536  /* of a log that is taken over, in which its newest step is looked for */
#define LINE_BYTES 4096 /* longer ones are events, or none of ours */

struct dp_steplog {
    FILE *file; /* NULL: none */
    const struct dp_train_config *config;
    double bytes_per_token;
    uint64_t newest;
    bool has_lost; /* a line; the user was told */
};

static void tell_lost(struct dp_steplog *log)
{
    log->has_lost = true;
    dp_warn("output.log: %s: %s; steps are missing there", log->config->output.log, strerror(errno));
}

/* Whoever wrote last may have ended in the middle of a line. A file that cannot be read, or is none, has no end to look at. */
static bool is_cut_off(const char *path)
{
    FILE *file = fopen(path, "re");
    int last = '\n';

    if (file && fseek(file, -1, SEEK_END) == 0)
        last = fgetc(file);
    if (file)
        fclose(file);
    return last != '\n' && last != EOF;
}

/* The step of the last whole line of a step. What is far from the end is not looked at: events are few. */
static uint64_t find_newest(const char *path)
{
    FILE *file = fopen(path, "re");
    char line[LINE_BYTES];
    uint64_t newest = 0;

    if (!file)
        return 0;
    if (fseek(file, -END_BYTES, SEEK_END) == 0 && !fgets(line, sizeof line, file)) /* from the middle of a line */
        line[0] = '\0';
    while (fgets(line, sizeof line, file)) {
        json_t *o = json_loads(line, 0, NULL);

        if (json_is_number(json_object_get(o, "loss")) && json_is_integer(json_object_get(o, "step")))
            newest = (uint64_t)json_integer_value(json_object_get(o, "step"));
        json_decref(o);
    }
    fclose(file);
    return newest;
}

struct dp_steplog *dp_steplog_open(const struct dp_train_config *config, double bytes_per_token, enum dp_steplog_how how,
                                   struct dp_err *err)
{
    struct dp_steplog *log = calloc(1, sizeof *log);
    const char *path = config->output.log;

    if (!log) {
        dp_err_set(err, DP_ENOMEM, "no memory for the log");
        return NULL;
    }
    log->config = config;
    log->bytes_per_token = bytes_per_token;
    if (!*path)
        return log;
    log->file = fopen(path, how == DP_STEPLOG_NEW ? "we" : "ae");
    if (log->file && how != DP_STEPLOG_NEW && is_cut_off(path))
        fputc('\n', log->file);
    if (log->file && how == DP_STEPLOG_TAKE_OVER)
        log->newest = find_newest(path);
    if (!log->file && how == DP_STEPLOG_TAKE_OVER)
        tell_lost(log); /* training is worth more than its log */
    if (log->file || how == DP_STEPLOG_TAKE_OVER)
        return log;
    dp_err_set(err, DP_EIO, "output.log: %s: %s", path, strerror(errno));
    free(log);
    return NULL;
}

void dp_steplog_close(struct dp_steplog *log)
{
    if (!log)
        return;
    if (log->file)
        fclose(log->file);
    free(log);
}

double dp_steplog_bits(const struct dp_steplog *log, double loss)
{
    return log->bytes_per_token > 0 ? loss / M_LN2 / log->bytes_per_token : NAN;
}

/* JSON has no NaN. */
static void put_number(json_t *o, const char *name, double value)
{
    json_object_set_new(o, name, isfinite(value) ? json_real(value) : json_null());
}

static void write_line(struct dp_steplog *log, json_t *o)
{
    const size_t flags = JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(17);

    if (log->file && (!o || json_dumpf(o, log->file, flags) < 0 || fputc('\n', log->file) == EOF || fflush(log->file) != 0) &&
        !log->has_lost)
        tell_lost(log);
    json_decref(o);
}

static double tokens_per_second(const struct dp_steplog *log, uint64_t step_ns)
{
    const struct dp_train_config *c = log->config;

    return (double)(c->train.batch * c->train.microbatches * c->model.context) * 1e9 / (double)(step_ns ? step_ns : 1);
}

static void write_json(struct dp_steplog *log, const struct dp_step_line *l, const char *layout)
{
    json_t *o = json_object();

    json_object_set_new(o, "step", json_integer((json_int_t)l->step));
    put_number(o, "loss", l->loss);
    put_number(o, "bits_per_byte", dp_steplog_bits(log, l->loss));
    put_number(o, "grad_norm", l->grad_norm);
    put_number(o, "lr", l->lr);
    put_number(o, "sparsity", l->sparsity);
    json_object_set_new(o, "frozen", json_integer(l->frozen));
    put_number(o, "tokens_per_s", tokens_per_second(log, l->step_ns));
    put_number(o, "step_ms", (double)l->step_ns / 1e6);
    put_number(o, "wait_ms", (double)l->wait_ns / 1e6);
    json_object_set_new(o, "layout", json_string(layout));
    json_object_set_new(o, "epoch", json_integer((json_int_t)l->layout->epoch));
    json_object_set_new(o, "workers", json_integer(dp_layout_active(l->layout)));
    write_line(log, o);
}

static void print_line(struct dp_steplog *log, const struct dp_step_line *l, const char *layout)
{
    double bits = dp_steplog_bits(log, l->loss);

    printf("step %llu/%lld loss %.4f", (unsigned long long)l->step, (long long)log->config->train.steps, l->loss);
    if (isfinite(bits))
        printf(" (%.3f bits/byte)", bits);
    printf(" norm %.3f lr %.2e sparsity %.3f", l->grad_norm, l->lr, l->sparsity);
    if (l->frozen)
        printf(" frozen %u", l->frozen);
    printf(" %.0f tokens/s %.1f ms layout %s\n",
           tokens_per_second(log, l->step_ns), (double)l->step_ns / 1e6, layout);
    fflush(stdout);
}

uint64_t dp_steplog_newest(const struct dp_steplog *log)
{
    return log->newest;
}

void dp_steplog_step(struct dp_steplog *log, const struct dp_step_line *l)
{
    int64_t every = log->config->output.every;
    char layout[2048];

    log->newest = l->step;
    dp_layout_format(l->layout, layout, sizeof layout);
    if (log->file)
        write_json(log, l, layout);
    if (l->step == 1 || l->step == (uint64_t)log->config->train.steps || (every > 0 && l->step % (uint64_t)every == 0))
        print_line(log, l, layout);
}

void dp_steplog_event(struct dp_steplog *log, const char *event, uint64_t step, double value, const char *text)
{
    json_t *o = json_object();

    json_object_set_new(o, "event", json_string(event));
    json_object_set_new(o, "step", json_integer((json_int_t)step));
    put_number(o, "value", value);
    json_object_set_new(o, "text", json_string(text));
    write_line(log, o);
    printf("step %llu %s: %s\n", (unsigned long long)step, event, text);
    fflush(stdout);
}

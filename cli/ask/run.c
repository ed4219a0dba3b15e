/* SPDX-License-Identifier: BSD-3-Clause */
/* See run.h. */
#include "cli/ask/run.h"

#include <math.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>

#include "cli/show/json.h"
#include "cli/show/text.h"

const char dp_run_format[] = "jobid,name:16,user:10,state,mode,step,loss,sparsity,devices,speed,gain,layout:40";

char *dp_run_user(char *out, size_t cap, const json_t *run)
{
    double uid = dp_json_number(run, "uid|job.uid");
    struct passwd *pw = uid >= 0 && uid < 4294967295.0 ? getpwuid((uid_t)uid) : NULL;

    if (dp_json_get(run, "user"))
        return dp_json_text(out, cap, run, "user", "-");
    if (pw)
        return dp_text_clean(out, cap, pw->pw_name);
    return dp_json_text(out, cap, run, "uid|job.uid", "-");
}

char *dp_run_layout(char *out, size_t cap, const json_t *run)
{
    return dp_json_text(out, cap, run, "layout.text|layout", "-");
}

static json_t *held_list(const json_t *run)
{
    return dp_json_list(run, "devices_held|slots_held_over_time");
}

size_t dp_run_held_count(const json_t *run)
{
    return json_array_size(held_list(run));
}

/* Devices of a slot: its GPUs, or where none were asked for its share of the workers. */
static double devices_per_slot(const json_t *run)
{
    double gpus = dp_json_number(run, "job.gpus_per_node");
    double share = (double)json_array_size(dp_json_list(run, "workers")) /
                   (double)json_array_size(dp_json_list(run, "slots"));

    return gpus > 0 ? gpus : isfinite(share) && share >= 1 ? share : 1;
}

/* An entry is {t_s, held} in devices, or [t_s, slots]. */
void dp_run_held(const json_t *run, size_t i, double *t_s, double *held)
{
    const json_t *e = json_array_get(held_list(run), i);

    *t_s = *held = NAN;
    if (json_is_object(e)) {
        *t_s = dp_json_number(e, "t_s|at_s");
        *held = dp_json_number(e, "held");
    } else if (json_array_size(e) == 2 && json_is_number(json_array_get(e, 1))) {
        *t_s = json_number_value(json_array_get(e, 0));
        *held = devices_per_slot(run) * json_number_value(json_array_get(e, 1));
    }
}

static double held_at(const json_t *run, bool last)
{
    size_t n = dp_run_held_count(run);
    double t_s, held = NAN;

    if (n)
        dp_run_held(run, last ? n - 1 : 0, &t_s, &held);
    return held;
}

double dp_run_worker_layers(const json_t *worker)
{
    return dp_json_number(worker, "n_layers|layers");
}

double dp_run_devices(const json_t *run)
{
    double held = held_at(run, true);

    return isfinite(held) ? held : dp_json_number(run, "devices|n_devices");
}

double dp_run_devices_at_start(const json_t *run)
{
    double held = dp_json_number(run, "devices_start|devices_at_start");

    return isfinite(held) ? held : held_at(run, false);
}

double dp_run_gain(const json_t *run)
{
    return dp_json_number(run, "saving.fixed.step_ms") / dp_json_number(run, "saving.run.step_ms");
}

double dp_run_bits_per_byte(const json_t *run)
{
    return dp_json_number(run, "bits_per_byte|bpb");
}

static bool state_is_one_of(const json_t *run, const char *const *words)
{
    for (; *words; words++) {
        if (dp_json_is(run, "state", *words))
            return true;
    }
    return false;
}

bool dp_run_has_failed(const json_t *run)
{
    static const char *const words[] = {"failed", "lost", "dead", NULL};

    return state_is_one_of(run, words);
}

bool dp_run_is_over(const json_t *run)
{
    static const char *const words[] = {"over", "ended", "done", "finished", "completed", "saved", NULL};

    return dp_json_flag(run, "is_over|over", false) || dp_run_has_failed(run) || state_is_one_of(run, words);
}

bool dp_run_is_deserted(const json_t *run)
{
    const json_t *w;
    size_t i, n = 0, left = 0;

    json_array_foreach(dp_json_list(run, "workers"), i, w) {
        n++;
        left += dp_json_is(w, "state", "left") || dp_json_is(w, "state", "lost");
    }
    return n > 0 && left == n;
}

enum dp_style dp_run_state_style(const json_t *run)
{
    if (dp_run_has_failed(run))
        return DP_RED;
    if (dp_run_is_over(run))
        return DP_DIM;
    if (dp_json_is(run, "state", "running") || dp_json_is(run, "state", "training"))
        return DP_GREEN;
    return DP_YELLOW;
}

/* Cells of the table. */

#define TEXT_CELL(fn, key)                                                                                   \
    static void fn(const json_t *run, char *out, size_t cap)                                                 \
    {                                                                                                        \
        dp_json_text(out, cap, run, key, "-");                                                               \
    }
TEXT_CELL(cell_job, "job_id|job.id")
TEXT_CELL(cell_name, "job_name|name|job.name")
TEXT_CELL(cell_state, "state")
TEXT_CELL(cell_mode, "mode")
TEXT_CELL(cell_policy, "policy")
TEXT_CELL(cell_node, "node|job.batch_host")
TEXT_CELL(cell_steps, "steps_total")
TEXT_CELL(cell_epoch, "epoch|layout.epoch")

static void cell_user(const json_t *run, char *out, size_t cap)
{
    dp_run_user(out, cap, run);
}

static void cell_layout(const json_t *run, char *out, size_t cap)
{
    dp_run_layout(out, cap, run);
}

static void cell_step(const json_t *run, char *out, size_t cap)
{
    char step[32], total[32];

    snprintf(out, cap, "%s/%s", dp_json_text(step, sizeof step, run, "step", "-"),
             dp_json_text(total, sizeof total, run, "steps_total", "-"));
}

static void put_real(double v, char *out, size_t cap)
{
    if (isfinite(v))
        snprintf(out, cap, "%.4f", v);
    else
        snprintf(out, cap, "-");
}

static void cell_loss(const json_t *run, char *out, size_t cap)
{
    put_real(dp_json_number(run, "loss"), out, cap);
}

static void cell_bpb(const json_t *run, char *out, size_t cap)
{
    put_real(dp_run_bits_per_byte(run), out, cap);
}

bool dp_run_frozen(const json_t *run, char *out, size_t cap)
{
    double n = dp_json_number(run, "frozen_layers");
    json_t *cuts = dp_json_list(run, "layout.cuts");
    json_int_t all = json_integer_value(json_array_get(cuts, json_array_size(cuts) ? json_array_size(cuts) - 1 : 0));

    snprintf(out, cap, "%s", "");
    if (!(n >= 1.0))
        return false;
    if (all > 0)
        snprintf(out, cap, n > 1.0 ? "layers 0-%.0f of %" JSON_INTEGER_FORMAT : "layer %.0f of %" JSON_INTEGER_FORMAT, n - 1.0, all);
    else
        snprintf(out, cap, n > 1.0 ? "layers 0-%.0f" : "layer %.0f", n - 1.0);
    return true;
}

static void cell_sparsity(const json_t *run, char *out, size_t cap)
{
    dp_text_percent(out, cap, dp_json_number(run, "sparsity"));
}

static void cell_devices(const json_t *run, char *out, size_t cap)
{
    char held[32], start[32];

    snprintf(out, cap, "%s/%s", dp_text_count(held, sizeof held, dp_run_devices(run)),
             dp_text_count(start, sizeof start, dp_run_devices_at_start(run)));
}

static void cell_speed(const json_t *run, char *out, size_t cap)
{
    dp_text_count(out, cap, dp_json_number(run, "tokens_per_s"));
}

static void cell_gain(const json_t *run, char *out, size_t cap)
{
    dp_text_percent(out, cap, dp_run_gain(run));
}

const struct dp_column dp_run_columns[] = {
    {"jobid", 'i', true, "JOBID", cell_job},
    {"name", 'j', false, "NAME", cell_name},
    {"user", 'u', false, "USER", cell_user},
    {"state", 'T', false, "STATE", cell_state},
    {"mode", 'm', false, "MODE", cell_mode},
    {"policy", 'p', false, "POLICY", cell_policy},
    {"node", 'N', false, "NODE", cell_node},
    {"step", 's', true, "STEP", cell_step},
    {"steps", 'S', true, "STEPS", cell_steps},
    {"loss", 'l', true, "LOSS", cell_loss},
    {"bpb", 'b', true, "BITS/BYTE", cell_bpb},
    {"sparsity", 'P', true, "SPARSITY", cell_sparsity},
    {"devices", 'D', true, "DEVICES", cell_devices},
    {"speed", 't', true, "TOKENS/S", cell_speed},
    {"gain", 'g', true, "OF FIXED", cell_gain},
    {"layout", 'L', false, "LAYOUT", cell_layout},
    {"epoch", 'e', true, "EPOCH", cell_epoch},
    {0},
};

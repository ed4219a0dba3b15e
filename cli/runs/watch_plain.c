/* SPDX-License-Identifier: BSD-3-Clause */
/* dynpipe watch where stdout is not a terminal: one line for each change, or one JSON document a line. */
#include <math.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "cli/ask/run.h"
#include "cli/runs/watch.h"
#include "cli/show/json.h"
#include "cli/show/text.h"
#include "common/clock.h"
#include "common/stdout.h"

enum { GIVE_UP_S = 60 }; /* of silence: nobody may be looking */

static void loads(const json_t *run, char *out, size_t cap)
{
    const json_t *w;
    size_t i, used = 0;

    out[0] = '\0';
    json_array_foreach(dp_json_list(run, "workers"), i, w) {
        double load = dp_json_number(w, "load");

        if (dp_run_worker_layers(w) > 0 && isfinite(load) && used + 8 < cap)
            used += (size_t)snprintf(out + used, cap - used, "%s%.0f%%", used ? " " : " load ", 100 * load);
    }
}

/* "step 120/400 loss 2.3140 sparsity 42.1 % frozen layers 0-4 18 204 tokens/s devices 3/4 load 98% 61%" */
static void print_progress(const struct dp_watch *w)
{
    char time[16], step[32], total[32], loss[32], sparsity[32], speed[32], held[32], start[32], load[1024], frozen[32];
    const json_t *run = w->run;
    double value = dp_json_number(run, "loss");

    dp_watch_time(w, time, sizeof time);
    loads(run, load, sizeof load);
    snprintf(loss, sizeof loss, isfinite(value) ? "%.4f" : "-", value);
    printf("%s step %s/%s loss %s sparsity %s%s%s %s tokens/s devices %s/%s%s\n", time,
           dp_json_text(step, sizeof step, run, "step", "-"),
           dp_json_text(total, sizeof total, run, "steps_total", "-"), loss,
           dp_text_percent(sparsity, sizeof sparsity, dp_json_number(run, "sparsity")),
           dp_run_frozen(run, frozen, sizeof frozen) ? " frozen " : "", frozen,
           dp_text_count(speed, sizeof speed, dp_json_number(run, "tokens_per_s")),
           dp_text_count(held, sizeof held, dp_run_devices(run)),
           dp_text_count(start, sizeof start, dp_run_devices_at_start(run)), load);
}

static void print_json(const struct dp_watch *w)
{
    json_t *doc = dp_json_envelope("watch", "run", json_incref(w->run));

    dp_json_print(doc, true);
    json_decref(doc);
}

/* What is new since `logged` lines were printed. */
static void print_new(const struct dp_watch *w, size_t *logged)
{
    for (; *logged < w->log.n; (*logged)++) {
        size_t i = *logged % DP_WATCH_LINES;

        printf("%s %s\n", w->log.line[i].time, w->log.line[i].text);
    }
}

static void print_run(const struct dp_watch *w, size_t *logged)
{
    if (w->before && json_equal(w->before, w->run))
        return;
    if (w->cli->json) {
        print_json(w);
        return;
    }
    print_new(w, logged);
    if (!w->before || !json_equal(dp_json_get(w->before, "step"), dp_json_get(w->run, "step")))
        print_progress(w);
}

static void sleep_s(double s)
{
    struct timespec t = {.tv_sec = (time_t)s, .tv_nsec = (long)((s - floor(s)) * 1e9)};

    nanosleep(&t, NULL);
}

/* Say once that nothing is heard, and once that it is again; not where the run is only now known. returns: true when to give up. */
static bool silence(const struct dp_watch *w, char *said, size_t cap)
{
    if (strcmp(said, w->trouble) != 0) {
        char time[16];

        dp_watch_time(w, time, sizeof time);
        if (*w->trouble || w->before)
            fprintf(stderr, "%s %s\n", time, *w->trouble ? w->trouble : "dynpiped answers again");
        snprintf(said, cap, "%s", w->trouble);
    }
    return w->run && w->silent_since_ns && dp_now_ns() - w->silent_since_ns > (uint64_t)GIVE_UP_S * 1000000000u;
}

enum dp_exit dp_watch_plain(struct dp_watch *w)
{
    char said[sizeof w->trouble] = "";
    size_t logged = 0;
    struct dp_err err;

    for (;;) {
        enum dp_watch_state state = dp_watch_poll(w, &err);

        if (state == DP_WATCH_ERROR)
            return dp_cmd_fail(w->cli, &err);
        if (state == DP_WATCH_NEW || (state == DP_WATCH_OVER && w->unknown == 0 && !w->replay))
            print_run(w, &logged);
        if (dp_stdout_flush(&err) < 0)
            return dp_cmd_fail(w->cli, &err);
        if (state == DP_WATCH_OVER)
            return DP_EXIT_OK;
        if (silence(w, said, sizeof said))
            return dp_cmd_fail(w->cli, &err);
        if (!w->replay)
            sleep_s(w->cli->interval_s);
    }
}
